"""The mistakes that the suites of published systems catch: Adam in training, LayerNorm, hops, buffers, tails."""

from tests.suites.plants import Plant

SWAPPED = ("    return rate * (m / denominator)", "    return rate * m / denominator")

PLANTS = (
    Plant(
        "integration/adam_step",
        "networks/adam.py",
        *SWAPPED,
        "the multiplication moves before the division",
        ("*/standard",),
    ),
    Plant(
        "integration/adam_step_reference",
        "networks/adam_training.py",
        "np.where(hidden > 0, product(slope, transposed(w2)), w1.dtype.type(0))",
        "product(slope, transposed(w2))",
        "the gradient passes where the relu is off",
        ("*/standard",),
    ),
    Plant(
        "model/adam_training",
        "networks/adam.py",
        *SWAPPED,
        "the multiplication moves before the division",
        ("*/standard",),
    ),
    Plant(
        "model/adam_training_reference",
        "networks/adam.py",
        "math.sqrt(1 - beta2**step) / (1 - beta1**step)",
        "math.sqrt(1 - beta2**step)",
        "the bias of the first moment is no longer corrected",
        ("*/standard",),
    ),
    Plant(
        "unit/layer_norm_study",
        "unit/kernels/layer_norm.py",
        "mean_of_squares = rested(mean_of_squares, stored) +",
        "mean_of_squares = rested(mean_of_squares, stored) * np.float32(1.0005) +",
        "the mean of squares is off by 0.05 % a block",
        ("*/float16_by_64",),
    ),
    Plant(
        "unit/hops",
        "unit/kernels/hops.py",
        "else values.copy()",
        "else values.astype(np.float64).astype(ml_dtypes.bfloat16).astype(np.float32)",
        "every copy passes through bfloat16",
    ),
    Plant(
        "unit/device_hops",
        "unit/kernels/device_hops.py",
        "    return cast_through_device(x)",
        "    return cast_through_device(x.astype(np.float16).astype(np.float32))",
        "the host already rounds to float16",
    ),
    Plant(
        "unit/swallowed_terms",
        "unit/kernels/reductions.py",
        "    return pairwise(np.add.accumulate(lanes, axis=-2)[..., -1, :])",
        "    return naive(lanes.reshape(*terms.shape[:-1], -1))",
        "the eight partial sums are one",
    ),
    Plant(
        "unit/stale_buffer",
        "unit/kernels/stale_buffer.py",
        "        LOST[...] = 0\n",
        "        pass\n",
        "the buffer is no longer cleared",
    ),
    Plant(
        "unit/tail_block",
        "unit/kernels/tail_block.py",
        "            address = row * n + start",
        "            address = (row * n + start) // ALIGNED * ALIGNED",
        "every block is read from an aligned address",
    ),
    Plant(
        "model/detection",
        "model/kernels/detection.py",
        'if tail == "misaligned" and stop - start < BLOCK:',
        "if stop - start < BLOCK:",
        "the tail is read from an aligned address",
    ),
)
