"""The mistakes that sums, variances, matrix products, convolutions and quantizers catch."""

from tests.suites.plants import Plant

PLANTS = (
    Plant(
        "unit/sum",
        "unit/kernels/reductions.py",
        "    lost = (before - (after - taken)) + (added - taken)",
        "    lost = added - taken",
        "only one half of TwoSum is left, which is Kahan's loss without Neumaier's improvement",
    ),
    Plant(
        "unit/sum_narrow",
        "unit/kernels/reductions.py",
        'terms = x if accumulator == "own" else x.astype(accumulator)',
        "terms = x",
        "the wide accumulator is forgotten",
    ),
    Plant(
        "unit/mean",
        "unit/kernels/reductions.py",
        "(terms[..., k] - average) / terms.dtype.type(k + 1)",
        "(terms[..., k] - average) / terms.dtype.type(k)",
        "the running mean counts from zero",
    ),
    Plant(
        "unit/masked_mean",
        "unit/kernels/reductions.py",
        "np.maximum(lengths, 1).astype",
        "lengths.astype",
        "a row that is masked altogether is divided by its length",
    ),
    Plant(
        "unit/cumsum",
        "unit/kernels/cumsum.py",
        "sequential(inside[..., :-1, -1])[..., None]",
        "sequential(inside[..., :-1, -1].astype(np.float16))[..., None]",
        "what one block hands to the next passes through float16",
    ),
    Plant(
        "unit/variance",
        "unit/kernels/variance.py",
        "squares = squares + distance * (x[..., k] - mean)",
        "squares = squares + distance * distance",
        "both distances are taken from the old mean",
    ),
    Plant(
        "unit/matmul",
        "unit/kernels/matmul.py",
        "for name in (accumulator, output))",
        "for name in (output, output))",
        "the accumulator takes the format of the output",
    ),
    Plant(
        "unit/matmul",
        "unit/kernels/matmul.py",
        "padded = np.pad(rows.astype(np.float32), [(0, -len(rows) % BLOCK), (0, 0)])",
        "padded = rows.astype(np.float32)[: len(rows) // BLOCK * BLOCK]",
        "a tail that fills no block is left out",
    ),
    Plant(
        "unit/conv2d",
        "unit/kernels/conv2d.py",
        "(total + image[:, channel, None, rows, columns] * factors).astype(accumulated)",
        "(total + (image[:, channel, None, rows, columns] * factors).astype(x.dtype)).astype(accumulated)",
        "products are rounded to the inputs' format before they are added",
    ),
    Plant(
        "unit/quantize",
        "unit/kernels/quantize.py",
        "np.rint(quotients)",
        "np.rint(quotients + zero_point[:, None]) - zero_point[:, None]",
        "the zero point is added before rounding, which turns ties to even into ties to odd where it is odd",
    ),
    Plant(
        "unit/dequantize",
        "unit/kernels/quantize.py",
        "(codes.astype(dtype) - zero_point[:, None].astype(dtype)).astype(scale.dtype) * scale[:, None]",
        "codes.astype(scale.dtype) * scale[:, None] - zero_point[:, None].astype(scale.dtype) * scale[:, None]",
        "codes and zero point are scaled apart, which rounds three times",
    ),
)
