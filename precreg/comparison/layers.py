"""The tolerance of stored arrays: the shipped defaults, a project's own where one is named, the options above both."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from precreg.errors import UserError, nearest
from precreg.measure.installed import metrics_like
from precreg.measure.metrics import METRICS
from precreg.suite.load import read_foundation
from precreg.tolerance.asked import only_asked, require_asked
from precreg.tolerance.pyramid import CLOSENESS, SHIPPED, no_limit
from precreg.tolerance.standards import find_standard
from precreg.types.types import Layer, Location

OPTIONS = Location("command line")


def layers(
    project: Path | None, limits: Mapping[str, float | str], analyzers: Collection[str] = ()
) -> tuple[Layer, ...]:
    """Return the pyramid: of a project's suites/tolerances.yaml what it says of everything and of environments.

    `limits` are rtol, atol, standard and limits on metrics, also on those of the `analyzers` that are asked for. Raises
    UserError: as reading that file does, and unknown-metric, unknown-standard, unknown-analyzer, bad-value for the
    options.
    """
    for metric, limit in limits.items():
        _check(metric, limit)
    own = (Layer("options", OPTIONS, dict(limits)),) if limits else ()
    require_asked(own, analyzers)
    if project is None:
        return (*SHIPPED, *own)
    written = read_foundation(project, {})
    return (*SHIPPED, *only_asked((*written.default, *written.environments), analyzers), *own)


def _check(metric: str, limit: float | str) -> None:
    if metric == "standard":
        find_standard(str(limit), OPTIONS)
    elif metric not in (known := (*CLOSENESS, *METRICS, *metrics_like(metric))):
        message = f"expected the name of a metric but got {metric}={limit}{nearest(metric, known)}"
        raise UserError("unknown-metric", message, file=OPTIONS.file)
    elif expected := no_limit(metric, limit):
        raise UserError("bad-value", f"expected {expected} but got {metric}={limit}", file=OPTIONS.file)
