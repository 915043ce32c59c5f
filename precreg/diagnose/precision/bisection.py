"""How is the smallest set of parts that need a wider dtype found, and how is its configuration proved?"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from precreg.diagnose.precision.kinds import Altered, DeviceLines, OnnxNodes, PartSource, TorchModules
from precreg.diagnose.precision.parts import rank_parts
from precreg.diagnose.precision.smallest_set import find_smallest_set
from precreg.diagnose.precision.trials import CaseTrials, LimitOfMetric
from precreg.errors import UserError
from precreg.run import prepare_cases
from precreg.shadow import Recorder, TraceSettings, require_traceable, trace_case
from precreg.storage import replace_file, report_write_errors
from precreg.subject import watch_case_in_process
from precreg.types import (
    Case,
    Environment,
    PrecisionBisection,
    PrecisionConfiguration,
    PrecisionPart,
    PrecisionTrial,
)
from precreg.vcs import git_state

# A trace behind an overflow has no shares, so the parts that overflow are kept and the rest is traced again.
MAX_TRACES = 4


class PrecisionRequest(NamedTuple):
    """The environment, the wider dtype, the bound that replaces the case's, and the file for the configuration."""

    environment: Environment
    wide: str = "float32"
    limit: LimitOfMetric | None = None
    write: Path | None = None


def bisect_precision(case: Case, project: Path, request: PrecisionRequest) -> PrecisionBisection:
    """Return the smallest set of parts of a case that must compute in the wider dtype. Prints go to stderr.

    Raises UserError: untraceable, for a subject without parts, or a case that does not repeat; trace-failed, for one
    that fails.
    """
    require_traceable(case, request.environment.chain)
    prepare_cases([case], project)
    with watch_case_in_process(is_first=True), redirect_stdout(sys.stderr), np.errstate(all="ignore"):
        trials = CaseTrials(project, request.environment, request.limit)
        # Before anything else, because an exception of the user's code becomes the problem of a trial.
        plain = trials.run(Altered(case), ())
        if plain.problem:
            raise _unjudged(case, plain.problem)
        return _Bisection(case, project, request, trials, plain).run()


class _Bisection:
    def __init__(
        self, case: Case, project: Path, request: PrecisionRequest, trials: CaseTrials, plain: PrecisionTrial
    ) -> None:
        self._case, self._project, self._request = case, project, request
        self._trials, self._plain = trials, plain
        self._source = _source_of(case, project, request.wide)
        self._done, self._traces = [plain], 0
        self._parts: list[PrecisionPart] = [] if plain.holds else self._ranked()

    def run(self) -> PrecisionBisection:
        """Search among the ranked parts, and prove the configuration."""
        found = find_smallest_set([part.name for part in self._parts], self._is_enough)
        configuration, proof = self._proved(found.kept) if found.status == "found" else (None, None)
        state, limit = git_state(self._project), self._request.limit
        return PrecisionBisection(
            case=self._case.id,
            seed=self._plain.seed,
            commit="" if state is None else state.commit,
            status=found.status,
            kind=self._source.kind,
            narrow=self._source.narrow,
            wide=self._source.wide,
            bound="" if limit is None else f"{limit.metric} {limit.limit:g}",
            parts=tuple(self._parts),
            kept=found.kept,
            trials=tuple(self._done),
            proof=proof,
            traces=self._traces,
            configuration=configuration,
            widened_by_runtime=self._source.widened_by_runtime,
        )

    def _is_enough(self, kept: tuple[str, ...]) -> bool:
        if not kept:
            return self._plain.holds
        setting = self._source.setting(self._members(kept))
        self._done.append(self._trials.run(self._source.altered(setting.keys), kept))
        return self._done[-1].holds

    def _members(self, names: tuple[str, ...]) -> list[str]:
        return [member for part in self._parts if part.name in names for member in part.members]

    def _ranked(self) -> list[PrecisionPart]:
        """Return all parts by their shares, from as many traces as overflows need."""
        first: list[PrecisionPart] = []
        while True:
            parts = self._traced([member for part in first for member in part.members])
            known = {part.name for part in first}
            rest = [part for part in rank_parts(parts) if part.name not in known]
            added = [part for part in rest if not isfinite(part.own)]
            if not added or not self._source.has_retrace or self._traces == MAX_TRACES:
                return [*first, *rest]
            first += added

    def _traced(self, members: list[str]) -> list[PrecisionPart]:
        self._traces += 1
        altered = self._source.altered(self._source.setting(members).keys)
        settings = TraceSettings(chain=self._request.environment.chain)
        trace = trace_case(altered.case, self._project, self._plain.seed, Recorder(), settings)
        output = self._plain.output or next((each.name for each in trace.outputs), "")
        return self._source.parts(trace, output)

    def _proved(self, kept: tuple[str, ...]) -> tuple[PrecisionConfiguration, PrecisionTrial]:
        """Return the text of the configuration, and the trial of its parsed content."""
        setting = self._source.setting(self._members(kept))
        text = yaml.safe_dump(setting.keys, default_flow_style=None, sort_keys=False, width=100)
        proof = self._trials.run(self._source.altered(yaml.safe_load(text)), kept)
        file = self._request.write
        if file is not None:
            with report_write_errors(str(file)):
                replace_file(file, self._source.file(setting.keys, text))
        written = "" if file is None else str(file)
        return PrecisionConfiguration(text=text, place=setting.place, file=written, proved=proof.holds), proof


def _source_of(case: Case, project: Path, wide: str) -> PartSource:
    if case.device is not None:
        return DeviceLines(case, project, case.device)
    if case.subject.kind == "torch":
        return TorchModules(case, project, wide)
    if case.subject.kind == "onnx":
        return OnnxNodes(case, project, wide)
    expected = "a module of torch, a model of ONNX or a simulated device"
    raise UserError("untraceable", f"expected {expected} but {case.id} has the kind {case.subject.kind}")


def _unjudged(case: Case, problem: str) -> UserError:
    if problem == "nondeterministic":
        return UserError("untraceable", f"expected a case that repeats its bits but {case.id} does not")
    return UserError("trace-failed", f"expected the subject of {case.id} to return arrays but: {problem}")
