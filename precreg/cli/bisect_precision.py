"""Which parts of a case need a wider dtype? `precreg bisect CASE --precision`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.console import show_report
from precreg.cli.options import project_of_option
from precreg.cli.trace import choose_case
from precreg.errors import UserError, nearest

if TYPE_CHECKING:
    from precreg.diagnose import LimitOfMetric
    from precreg.types import PrecisionBisection

_STDOUT = Path("-")
_BOUND = re.compile(r"\s*([\w.]+)\s*(<=|>=)\s*(\S+)\s*")
# 0 a set was found, or none is needed; 1 no small set is enough. Errors exit with 2.
_EXIT = {"found": 0, "passed": 0, "spread": 1, "insufficient": 1}

PRECISION_OPTIONS = (
    click.option("--bound", metavar="'METRIC<=LIMIT'", help="The bound to keep, in place of the case's own."),
    click.option("--metric", metavar="NAME", help="The metric of a bound, with --limit."),
    click.option("--limit", type=float, metavar="X", help="The limit of --metric."),
    click.option(
        "--keep-in",
        "wide",
        type=click.Choice(["float32", "float64"]),
        default="float32",
        show_default=True,
        help="The wider dtype.",
    ),
    click.option(
        "--write", type=click.Path(path_type=Path), metavar="FILE", help="Write the configuration, or an ONNX model."
    ),
)


def precision_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a bisection of precision to a command."""
    for option in reversed(PRECISION_OPTIONS):
        command = option(command)
    return command


def run_precision_bisection(
    given: Path | None,
    pattern: str,
    *,
    bound: str | None,
    metric: str | None,
    limit: float | None,
    wide: str,
    environment: str | None,
    write: Path | None,
    json: Path | None,
) -> int:
    """Bisect the precision of one case, print the result, and return the exit code.

    Raises UserError: bad-value for a bound, the errors of choosing a case, not-writable, and as `bisect_precision`.
    """
    from precreg.environment import detect_environment, limit_blas_threads

    limit_blas_threads()
    project = project_of_option(given)
    case = choose_case(project, pattern)
    from precreg.diagnose import PrecisionRequest, bisect_precision

    request = PrecisionRequest(detect_environment(environment), wide, _read_limit(bound, metric, limit), write)
    found = bisect_precision(case, project, request)
    _show(found, json)
    return _EXIT[found.status]


def _read_limit(bound: str | None, metric: str | None, limit: float | None) -> LimitOfMetric | None:
    """Return the bound of --bound, or of --metric and --limit. Raises UserError: bad-value."""
    if (metric is None) != (limit is None):
        raise UserError(
            "bad-value",
            "expected --metric and --limit but got one of them",
            hint="give both: --metric max_ulp --limit 4",
        )
    if bound is not None and metric is not None:
        raise UserError(
            "bad-value", "expected --bound or --metric with --limit but got both", hint="keep one: --bound 'max_ulp<=4'"
        )
    if metric is not None and limit is not None:
        return _known_limit(metric, None, limit)
    if bound is None:
        return None
    read = _BOUND.fullmatch(bound)
    try:
        number = float(read[3]) if read else None
    except ValueError:
        number = None
    if read is None or number is None:
        message = f"expected a metric and its limit, such as 'max_rel_error<=1e-3', but got bound={bound}"
        raise UserError(
            "bad-value", message, hint="write a metric, <= or >=, and a number, in quotes: --bound 'max_ulp<=4'"
        )
    return _known_limit(read[1], read[2], number)


def _known_limit(metric: str, sign: str | None, limit: float) -> LimitOfMetric:
    from precreg.diagnose import LimitOfMetric
    from precreg.measure import METRICS
    from precreg.tolerance import limit_example, limit_problem

    if metric not in METRICS:
        raise UserError(
            "bad-value",
            f"expected a metric (docs/metrics.md) but got {metric}{nearest(metric, METRICS)}",
            hint="write one of docs/metrics.md, such as max_ulp, max_rel_error or cosine",
        )
    wanted = ">=" if METRICS[metric].better == "higher" else "<="
    if sign not in (None, wanted):
        raise UserError(
            "bad-value",
            f"expected {metric}{wanted}LIMIT but got {metric}{sign}{limit:g}",
            hint=f"turn the sign: --bound '{metric}{wanted}{limit:g}'",
        )
    if (problem := limit_problem(metric, limit)) is not None:
        raise UserError(
            "bad-value",
            f"expected {problem} but got {metric}={limit:g}",
            hint=f"write such a limit: --metric {metric} --limit {limit_example(metric)}",
        )
    return LimitOfMetric(metric, limit)


def _show(found: PrecisionBisection, json: Path | None) -> None:
    from precreg.report import precision_json, render_precision
    from precreg.storage import replace_file, report_write_errors

    if json == _STDOUT:
        click.echo(precision_json(found), nl=False)
    elif json is not None:
        with report_write_errors(str(json)):
            replace_file(json, precision_json(found))
    show_report(render_precision(found) + "\n", err=json == _STDOUT)
