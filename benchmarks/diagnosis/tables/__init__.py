"""Which causes are planted into which kernel, and which answers are right?"""

from __future__ import annotations

from functools import cache

from benchmarks.diagnosis.plant import Plant, join
from benchmarks.diagnosis.tables import exponentials, norms, optimizers, products, signals, statistics

# Two causes at once. The edits of a pair do not overlap.
PAIRS = (
    ("adam/multiply_first", "adam/second_moment_bfloat16"),
    ("adam/eps_inside", "adam/step_off_by_one"),
    ("layer_norm/sum_float16", "layer_norm/eps_larger"),
    ("layer_norm/gamma_bfloat16", "layer_norm/ddof"),
    ("rms_norm/weight_plus_one", "rms_norm/scale_bfloat16"),
    ("softmax/terms_float16", "softmax/sum_misses_tail"),
    ("log_sum_exp/input_bfloat16", "log_sum_exp/log2_constant"),
    ("attention/scores_float16", "attention/values_float8"),
    ("batch_norm/eps_dropped", "batch_norm/momentum_swapped"),
    ("quantize/scale_of_tensor", "quantize/floor"),
    ("int8_linear/zero_point_dropped", "int8_linear/bias_float16"),
    ("welford/ddof", "welford/rows_float16"),
    ("momentum/dampened", "momentum/weight_bfloat16"),
    ("unscale/squares_float16", "unscale/epsilon_dropped"),
    ("running_sum/carry_float16", "running_sum/input_bfloat16"),
)


@cache
def plants() -> dict[str, Plant]:
    """Return all plants by their id."""
    modules = (optimizers, norms, exponentials, products, signals, statistics)
    singles = {plant.id: plant for module in modules for plant in module.PLANTS}
    assert len(singles) == sum(len(module.PLANTS) for module in modules), "two plants have one id"
    pairs = (join(singles[first], singles[second]) for first, second in PAIRS)
    return singles | {pair.id: pair for pair in pairs}
