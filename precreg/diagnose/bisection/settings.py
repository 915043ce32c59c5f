"""Which environment variables or compiler flags make a case worse?

Without all of them the case is good, and with all of them it is bad. Delta debugging gives the smallest set that makes
it bad. Each run has the variables from its start, because libraries read them when they load.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from precreg.diagnose.bisection.judgement import VersionJudge
from precreg.diagnose.bisection.log import SearchLog
from precreg.diagnose.bisection.process import CodeVersion
from precreg.diagnose.bisection.search import smallest_set
from precreg.errors import UserError
from precreg.types import Bisection, BisectionStep, Case

_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NONE = "no setting"


def read_settings(case: Case, variables: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """Return variables as NAME=VALUE, and flags, which begin with a dash. Raises UserError: bad-bisection."""
    for text in variables:
        if _VARIABLE.fullmatch(text) is None:
            message = f"expected NAME=VALUE but got variable={text!r}"
            raise UserError("bad-bisection", message, hint="write --variable OPENBLAS_CORETYPE=Haswell")
    try:
        words = [word for text in flags for word in shlex.split(text)]
    except ValueError as problem:
        raise UserError(
            "bad-bisection", f"expected flags as a shell reads them but got {flags[0]!r}: {problem}"
        ) from None
    if words and (case.subject.kind != "command" or "build" not in case.subject.spec):
        message = f"expected a program with build: for --flags but {case.id} has a subject of kind={case.subject.kind}"
        raise UserError("bad-bisection", message)
    if wrong := [word for word in words if not word.startswith("-")]:
        raise UserError("bad-bisection", f"expected flags that begin with a dash but got flag={wrong[0]!r}")
    return (*variables, *words)


def search_settings(
    case: Case,
    project: Path,
    judge: VersionJudge,
    settings: Sequence[str],
    log: SearchLog,
    report: Callable[[BisectionStep], None],
) -> Bisection:
    """Search the smallest set of settings that makes the case bad. Raises UserError: not-writable."""
    found = Bisection(
        case=case.id,
        kind="settings",
        status="found",
        good=_NONE,
        bad=_name(settings),
        versions=len(settings),
        log=log.shown,
    )
    judged = judge.judge_ends(_version(project, ()), _version(project, settings))
    for step in judged.steps:
        report(step)
    found = replace(found, rule=judged.rule, ends=judged.steps)
    if judged.status is not None:
        return replace(found, status=judged.status)
    steps: list[BisectionStep] = []

    def judge_some(some: Sequence[str]) -> BisectionStep:
        name = _name(some)
        step = log.known(name)
        if step is None:
            step = judge.judge(_version(project, some))
            log.take(step, f"precreg bisect {'skip' if step.verdict not in ('good', 'bad') else step.verdict} {name}")
        steps.append(step)
        report(step)
        return step

    guilty = smallest_set(settings, lambda some: judge_some(some).verdict == "bad")
    others = [each for each in settings if each not in guilty]
    return replace(found, settings=tuple(guilty), proof=judge_some(others), steps=tuple(steps))


def _version(project: Path, settings: Sequence[str]) -> CodeVersion:
    variables = {found[1]: found[2] for each in settings if (found := _VARIABLE.fullmatch(each))}
    flags = tuple(each for each in settings if _VARIABLE.fullmatch(each) is None)
    return CodeVersion(_name(settings), project, variables=variables, flags=flags)


def _name(settings: Sequence[str]) -> str:
    return shlex.join(settings) or _NONE
