"""Running cases in this process: fast and easy to debug, but a subject that crashes or hangs takes the run with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from precreg.run.case_run import run_case
from precreg.subject.failure import with_printed
from precreg.types.types import Case, Outcome


class _Printed(StringIO):
    """Takes what subjects print; one that closes its standard output closes nothing."""

    def close(self) -> None:
        pass


def run_in_process(cases: Iterable[Case], project: Path, chain: tuple[str, ...]) -> Iterator[Outcome]:
    """Yield the outcome of each case in turn. Timeouts are not enforced."""
    for case in cases:
        with redirect_stdout(_Printed()) as printed, redirect_stderr(printed):
            outcome = run_case(case, project, chain)
        yield with_printed(outcome, printed.getvalue())
