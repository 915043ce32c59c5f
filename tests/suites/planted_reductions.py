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
)
