"""Calibrations counted: how many bounds are worth what, and the exit code that follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from precreg.quality.calibrated import Calibrated
from precreg.quality.quality import Judged, Quality


def counts(found: Iterable[Calibrated]) -> dict[str, int]:
    """Count bounds by quality, the worst first."""
    counted = Counter(bound.quality for case in found for bound in case.bounds)
    return {str(quality): counted[quality] for quality in Quality}


def exit_code(found: Iterable[Calibrated]) -> int:
    """Return 1 where a bound is broken or flaky, else 0: a vacuous bound judges wrongly, but always alike."""
    doubtful = {Quality.BROKEN, Quality.FLAKY}
    return 1 if any(bound.quality in doubtful for case in found for bound in case.bounds) else 0


def unsound(case: Calibrated) -> list[Judged]:
    """Return the bounds of a case that are not sound."""
    return [bound for bound in case.bounds if bound.quality is not Quality.SOUND]
