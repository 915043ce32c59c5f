"""Why does a case fail? `precreg diagnose`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from precreg.cli.console import show_report
from precreg.cli.options import config_option, project_of_option
from precreg.cli.trace import choose_case

if TYPE_CHECKING:
    from precreg.types import Case, Diagnosis, DiagnosisStatus

_STDOUT = Path("-")

# 0: the cause is known, or no cause exists. 1: no cause explains most of the errors. 2: the case had no error,
# because the case itself failed.
_EXIT_CODES: dict[DiagnosisStatus, int] = {
    "found": 0,
    "several": 0,
    "passed": 0,
    "partial": 1,
    "unknown": 1,
    "nondeterministic": 1,
    "failed": 2,
}


@click.command("diagnose")
@click.argument("pattern", metavar="CASE")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Explain the result at this seed.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    help="The time for all hypotheses.",
)
@click.option("--good", metavar="REVISION", help="Compare with this version; by default with the accepted one.")
@click.option("--environment", metavar="LABEL", help="The label of this environment, for tolerances and baselines.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the diagnosis as JSON; - writes it to stdout.",
)
@config_option
@click.pass_obj
def diagnose_command(
    given: Path | None,
    /,
    pattern: str,
    seed: int,
    seconds: float,
    good: str | None,
    environment: str | None,
    json_file: Path | None,
) -> None:
    """Find the cause of a case's errors by executing hypotheses.

    CASE is a case's id, or a pattern that matches one case. Each hypothesis alters one operation, input, param or
    output of a computation that is right, and runs it: the one that gives the bits of the failing result, or most of
    its errors, is the cause. The exit code is 0 if the cause is known or the case has no error, 1 if no cause explains
    most of the errors, and 2 if the case could not run.
    """
    from precreg.diagnose import diagnose_case
    from precreg.environment import detect_environment, limit_blas_threads
    from precreg.run import opaque_subject, skipped_diagnosis, with_opaque_subject

    limit_blas_threads()
    project = project_of_option(given)
    case = choose_case(project, pattern)
    chain = detect_environment(environment).chain
    accepted = _commit_of(good, project) if good is not None else accepted_commit(case, project, chain)
    units = _affected_units(case, accepted, project)
    diagnosis = skipped_diagnosis(case, seed) or diagnose_case(
        case, project, seed=seed, chain=chain, seconds=seconds, accepted=accepted, units=units
    )
    diagnosis = with_opaque_subject(diagnosis, opaque_subject(case, project, lambda: accepted))
    _show(diagnosis, json_file)
    sys.exit(_EXIT_CODES[diagnosis.status])


def _commit_of(revision: str, project: Path) -> str:
    """Return the commit of a revision. Raises UserError as `named_commit` does."""
    from precreg.vcs import named_commit, unset_hook_variables

    unset_hook_variables()
    return named_commit(project, revision).commit


def accepted_commit(case: Case, project: Path, chain: tuple[str, ...]) -> str | None:
    """Return the commit whose code a case's baseline accepted; None if none is known."""
    from precreg.baseline import Baselines, acceptance_commit

    baseline = Baselines(project).lookup(case.baseline_id, chain)
    if baseline is None:
        return None
    found = acceptance_commit(project, case.baseline_id, baseline.file)
    return found if isinstance(found, str) else None


def _affected_units(case: Case, accepted: str | None, project: Path) -> list[Case]:
    """Return the unit cases that depend on a file that changed, if they may explain a larger case."""
    from precreg.suite import Selection, find_cases
    from precreg.vcs import affected_cases, changed_files_since_commit

    if accepted is None or case.tier == "unit":
        return []
    units = find_cases(project, Selection(tiers=("unit",)))
    return affected_cases(units, changed_files_since_commit(project, accepted), project)


def _show(diagnosis: Diagnosis, json_file: Path | None) -> None:
    """Print a diagnosis, and write its JSON. Raises UserError: not-writable."""
    from msgspec import json

    from precreg.report import describe_diagnosis
    from precreg.storage import replace_file, report_write_errors

    encoded = json.format(json.encode(diagnosis), indent=2) + b"\n"
    if json_file == _STDOUT:
        click.echo(encoded, nl=False)
    elif json_file is not None:
        with report_write_errors(str(json_file)):
            replace_file(json_file, encoded)
    show_report("\n".join(describe_diagnosis(diagnosis)) + "\n", err=json_file == _STDOUT)
