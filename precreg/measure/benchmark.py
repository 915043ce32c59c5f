"""How an output's errors stand to those of a benchmark: a second implementation, held against the same reference."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from precreg.types.types import Comparison

_FLOORS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}

_FLOOR = 2.0**-14
"""The least that an error of the benchmark counts as, by output dtype (msprobe): hardly any error is no yardstick."""


_HALF = ("float16", "bfloat16")

_FEW = 1000


def ratios(device: Comparison, benchmark: Comparison) -> dict[str, float]:
    """Return the metrics of METRICS that need a benchmark, from what was measured of both.

    `device` is the output under test, `benchmark` the other implementation's, each against the same reference. A metric
    is left out where it is not finite, or what it is made of was not defined for either.
    """
    found = (*_errors(device, benchmark), *_counted(device, benchmark), *_excess(device, benchmark))
    return {name: value for name, value in found if isfinite(value)}


def _errors(device: Comparison, benchmark: Comparison) -> Iterator[tuple[str, float]]:
    """Yield |error| / max(|the benchmark's|, floor) of mare, mere and RMSE (mindstudio-probe, calc_ratio)."""
    floor = _FLOORS.get(device.dtype, _FLOOR)
    for metric in ("mare", "mere", "rms_error"):
        if metric in device.metrics and metric in benchmark.metrics:
            yield f"{metric}_ratio", device.metrics[metric] / max(benchmark.metrics[metric], floor)


def _counted(device: Comparison, benchmark: Comparison) -> Iterator[tuple[str, float]]:
    """Yield errors / max(the benchmark's, 1) of the regions of small values and cancellation (cann/opbase)."""
    for region in ("small_value", "cancellation"):
        share = f"{region}_error_share"
        if share in device.metrics and share in benchmark.metrics:
            yield f"{region}_error_ratio", _number(device, share) / max(_number(benchmark, share), 1)


def _number(comparison: Comparison, share: str) -> int:
    return round(comparison.metrics[share] * comparison.counts["n"])


def _excess(device: Comparison, benchmark: Comparison) -> Iterator[tuple[str, float]]:
    """Yield what the RMSE exceeds multiples of the benchmark's by (torch._dynamo.utils.same)."""
    if "rms_error" in device.metrics and "rms_error" in benchmark.metrics:
        own, other = device.metrics["rms_error"], benchmark.metrics["rms_error"]
        yield "rms_excess", own - _multiple(device) * other
        yield "rms_excess_3", own - 3 * other


def _multiple(device: Comparison) -> int:
    """Return dynamo's multiplier: 3 where a result is expected to be noisy."""
    one_by_one = len(device.shape) == 4 and device.shape[-2:] == (1, 1)
    return 3 if device.dtype in _HALF or device.counts["n"] < _FEW or one_by_one else 2
