"""The mistakes that the first suites catch."""

import numpy as np

from tests.suites.plants import Plant, RecordedPlant

PLANTS = (
    Plant(
        "unit/softmax",
        "unit/kernels/softmax.py",
        "ACCUMULATOR = np.float32",
        "ACCUMULATOR = np.float16",
        "the accumulator is as narrow as the values",
    ),
    Plant(
        "unit/layer_norm",
        "unit/kernels/layer_norm.py",
        "variance = (centered * centered).mean(-1, keepdims=True)",
        "variance = (centered * centered).sum(-1, keepdims=True) / np.float32(x.shape[-1] - 1)",
        "the variance is divided by n - 1, as a sample's is",
    ),
    Plant(
        "unit/apply_adam",
        "networks/adam.py",
        "    return rate * (m / denominator)",
        "    return rate * m / denominator",
        "the multiplication moves before the division",
    ),
    Plant(
        "unit/apply_adam_reference",
        "networks/adam.py",
        "    return lr * math.sqrt(1 - beta2**step) /",
        "    return lr /",
        "the bias of the second moment is no longer corrected",
    ),
    Plant(
        "unit/apply_adam_edges",
        "networks/adam.py",
        "scalar(1 - rule.beta2) * g * g",
        "scalar(1 - rule.beta2) * (g * g)",
        "the gradient is squared first, which overflows where it is large",
    ),
    Plant(
        "unit/cast_chain",
        "unit/kernels/cast_chain.py",
        "a.astype(np.float32) + b.astype(np.float32)",
        "(a.astype(np.float16) + b.astype(np.float16)).astype(np.float32)",
        "a float32 sum passes through float16 on its way",
    ),
    Plant(
        "unit/double_rounding",
        "unit/kernels/cast_chain.py",
        '(exact.astype(np.float32) if through == "float32" else exact).astype(np.float16)',
        "exact.astype(np.float32).astype(np.float16)",
        "every conversion passes through float32",
    ),
    Plant(
        "unit/half_rounding",
        "unit/kernels/cast_chain.py",
        "        return x.astype(np.float16)",
        "        return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float16)",
        "13 bits are cut off before the conversion, so it truncates",
    ),
    RecordedPlant(
        "unit/numpy_arctan2",
        "unit/recorded/arctan2/outputs/1.23.5/unit_square.npy",
        lambda angles: angles * np.float32(1 + 2**-23),
        "the accepted version is recorded anew, and one ULP off",
    ),
    Plant(
        "integration/lost_updates",
        "integration/kernels/mixed_precision_step.py",
        '"master": np.float32',
        '"master": np.float16',
        "the master weights are stored in float16",
    ),
    Plant(
        "integration/mixed_precision_step",
        "integration/kernels/mixed_precision_step.py",
        "total = total + column[:, None] * row",
        "total = (total + column[:, None] * row).astype(np.float16)",
        "the accumulator of the matrix products is as narrow as their inputs",
    ),
    Plant(
        "model/small_network",
        "model/kernels/small_network.py",
        '"mixed": Formats(np.float32, np.float16)',
        '"mixed": Formats(np.float16, np.float16)',
        "mixed precision without master weights",
        ("*/mixed",),
    ),
)
