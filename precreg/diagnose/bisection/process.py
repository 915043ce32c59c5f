"""How does one version of the code, its packages and its settings compute a case in a process of its own?

The present version draws the inputs and computes the oracle, once for all versions. A version gets these inputs, and
runs its subject. Arrays travel in files of a temporary folder.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct, msgpack
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.run import (
    Arrays,
    PackedArray,
    arithmetic_of,
    array_digests,
    combine_digests,
    die_with_parent,
    draw_inputs,
    kill_group,
    missing_requirement,
    pack_array,
    run_oracle,
    run_subject_once,
    suite_folder,
    unpack_array,
)
from precreg.storage import replace_file
from precreg.subject import (
    DETAIL_LENGTH,
    Call,
    CaseFailed,
    TreePair,
    blame_failures,
    describe_exit,
    prepare_computation,
    redirect_imports,
    user_crash_report,
)
from precreg.suite import load_cases
from precreg.types import Case, Computation, Failure, Reason

# Seconds beyond the timeout of a case: the start of the process, and imports of large libraries.
_START_S = 60.0
# The compilers whose steps get the flags of a version, with a target in front and a number behind.
_COMPILER = re.compile(
    r"(?:[\w.]+-)*(?:cc|gcc|g\+\+|c\+\+|clang|clang\+\+|icx|icpx|nvcc|hipcc|cncc|bisheng)(?:-[\d.]+)?"
)
# make and cmake pass these on.
_FLAG_VARIABLES = ("CFLAGS", "CXXFLAGS")


class CodeVersion(NamedTuple):
    """A version to run: its name, its project folder, and what differs from the present process.

    `trees` lead imports from the working tree to a checkout. `python` is the interpreter of another environment.
    """

    name: str
    project: Path
    trees: TreePair | None = None
    python: str = ""
    variables: Mapping[str, str] = {}
    flags: tuple[str, ...] = ()


class SeedRange(NamedTuple):
    """Consecutive seeds, and the number of runs of the subject at each of them."""

    first: int
    number: int
    repeats: int = 1


class _Job(NamedTuple):
    case: Case
    project: Path
    trees: TreePair | None
    seeds: SeedRange
    chain: tuple[str, ...]
    inputs: Path
    outputs: Path
    # True for the present version, which draws the inputs and computes the oracle.
    is_oracle: bool
    flags: tuple[str, ...]
    path: tuple[str, ...]
    parent: int


class VersionRun(Struct, frozen=True):
    """The digests of inputs per seed and of outputs per output and seed; outputs that differ in repeats; a failure."""

    inputs: tuple[str, ...] = ()
    outputs: dict[str, tuple[str, ...]] = {}
    unsteady: tuple[str, ...] = ()
    facts: dict[str, str] = {}
    failure: Failure | None = None

    def has_same_bits(self, other: VersionRun) -> bool:
        """Return whether both have the same outputs, bit by bit."""
        return self.failure is None and other.failure is None and self.outputs == other.outputs


def run_version(
    case: Case,
    version: CodeVersion,
    seeds: SeedRange,
    chain: tuple[str, ...],
    files: tuple[Path, Path],
    *,
    oracle: bool,
) -> VersionRun:
    """Run a version on the inputs of a file, and write its outputs; draw and write the inputs for the `oracle`.

    A failure, a crash and an exceeded timeout are parts of the result.
    """
    inputs, outputs = files
    own_python = version.python or sys.executable
    # Another interpreter has a search path of its own.
    path = () if version.python else tuple(os.path.abspath(folder) for folder in sys.path)
    job = _Job(
        *(case, version.project, version.trees, seeds, chain, inputs, outputs),
        *(oracle, version.flags, path, os.getpid()),
    )
    file, answer = outputs.with_suffix(".job"), outputs.with_suffix(".answer")
    file.write_bytes(pickle.dumps(job))
    limit = case.timeout_s * max(1.0, seeds.number * seeds.repeats / (case.seeds * case.repeats)) + _START_S
    command = [own_python, "-P", "-m", "precreg.diagnose.bisection.process", str(file), str(answer)]
    # Sources change between two runs within a second, and a bytecode file would hide that.
    variables = {**os.environ, **version.variables, "PYTHONDONTWRITEBYTECODE": "1"}
    if version.flags:
        variables |= {name: " ".join([variables.get(name, ""), *version.flags]).strip() for name in _FLAG_VARIABLES}
    failure = _run_to_end(command, variables, outputs.with_suffix(".printed"), limit, case.timeout_s)
    if failure is not None:
        return VersionRun(failure=failure)
    return msgpack.decode(answer.read_bytes(), type=VersionRun)


def _run_to_end(
    command: Sequence[str], variables: Mapping[str, str], printed: Path, limit_s: float, shown_s: float
) -> Failure | None:
    """Run a command to its end in a group of its own; return the failure of one that dies or takes too long."""
    with printed.open("wb") as stream:
        process = subprocess.Popen(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True
        )
        try:
            code = process.wait(None if limit_s == inf else limit_s)
        except subprocess.TimeoutExpired:
            return Failure(Reason.TIMED_OUT, f"exceeded its timeout of {shown_s:g} s", _end_of(printed))
        finally:
            # Processes that the subject left behind end with it.
            kill_group(process.pid)
            process.wait()
    return Failure(Reason.CRASHED, describe_exit(code), _end_of(printed)) if code else None


def _end_of(printed: Path) -> str:
    return user_crash_report(printed.read_bytes()[-(1 << 16) :].decode(errors="replace"))[-DETAIL_LENGTH:]


def read_arrays(file: Path) -> list[Arrays]:
    """Return the arrays of each seed that a process wrote, in the layout that they had there."""
    written = msgpack.decode(file.read_bytes(), type=list[list[tuple[tuple[int, ...], PackedArray]]])
    return [dict(_restored(axes, packed) for axes, packed in arrays) for arrays in written]


def _restored(axes: tuple[int, ...], packed: PackedArray) -> tuple[str, Any]:
    name, array = unpack_array(packed)
    return name, array.transpose(np.argsort(axes)) if axes else array


def _write_arrays(file: Path, seeds: Sequence[Arrays]) -> None:
    replace_file(file, msgpack.encode([[_packed(*item) for item in arrays.items()] for arrays in seeds]))


def _packed(name: str, array: Any) -> tuple[tuple[int, ...], PackedArray]:
    # The order of axes in memory, because numpy adds rows and columns up in different orders.
    axes = tuple(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))
    return axes, pack_array(name, array.transpose(axes) if axes else array)


def _main(job_file: str, answer_file: str) -> None:
    job: _Job = pickle.loads(Path(job_file).read_bytes())
    if job.parent != os.getppid():
        os._exit(1)
    die_with_parent(job.parent)
    if job.path:
        sys.path[:] = job.path
    if job.trees is not None:
        redirect_imports(job.trees)
    try:
        # Overflow and the like raise no warnings, because the comparison counts them.
        with np.errstate(all="ignore"):
            run = _compute_oracle(job) if job.is_oracle else _compute_subject(job)
    except CaseFailed as failed:
        run = VersionRun(failure=failed.failure)
    replace_file(Path(answer_file), msgpack.encode(run))


def _compute_oracle(job: _Job) -> VersionRun:
    case, directory = job.case, suite_folder(job.project, job.case.directory)
    seeds = range(job.seeds.first, job.seeds.first + job.seeds.number)
    with blame_failures(Reason.SUBJECT_ERROR):
        drawn = [draw_inputs(case, seed, directory, job.project) for seed in seeds]
    _write_arrays(job.inputs, drawn)
    with blame_failures(Reason.REFERENCE_ERROR):
        prepare_computation(case.oracle, directory, job.project)
        outputs = run_oracle(case, [*seeds], drawn, directory, job.project).outputs
    _write_arrays(job.outputs, outputs)
    return _digested(drawn, outputs)


def _compute_subject(job: _Job) -> VersionRun:
    case = _case_of_version(job)
    absent = [reason for needed in case.requires if (reason := missing_requirement(needed, job.chain))]
    if absent:
        raise CaseFailed(Failure(Reason.UNAVAILABLE, "; ".join(absent)))
    directory, facts, unsteady = suite_folder(job.project, case.directory), dict[str, str](), dict[str, None]()
    drawn, outputs = read_arrays(job.inputs), []
    with blame_failures(Reason.SUBJECT_ERROR):
        prepare_computation(case.subject, directory, job.project)
        for inputs in drawn:
            call = Call(inputs, case.params, directory, job.project, arithmetic_of(case, job.project))
            runs = [run_subject_once(case, call) for _ in range(job.seeds.repeats)]
            facts.update(runs[-1].facts)
            digests = [array_digests(run.arrays) for run in runs]
            unsteady.update(dict.fromkeys(_different(digests)))
            outputs.append(runs[-1].arrays)
    _write_arrays(job.outputs, outputs)
    return replace(_digested(drawn, outputs), unsteady=tuple(unsteady), facts=facts)


def _different(digests: Sequence[Mapping[str, str]]) -> Iterator[str]:
    first = digests[0]
    yield from (name for each in digests for name in {**first, **each} if first.get(name) != each.get(name))


def _digested(inputs: Sequence[Arrays], outputs: Sequence[Arrays]) -> VersionRun:
    digests = [array_digests(arrays) for arrays in outputs]
    names = dict.fromkeys(name for each in digests for name in each)
    return VersionRun(
        tuple(combine_digests(array_digests(arrays)) for arrays in inputs),
        {name: tuple(each.get(name, "") for each in digests) for name in names},
    )


def _case_of_version(job: _Job) -> Case:
    """Return the case with the subject, params and device of the version's own suite, if that has the case.

    Inputs, oracle, seeds and tolerances are those of the present definition.
    """
    case = job.case
    if job.trees is not None:
        own = _own_case(job.project, case.id)
        if own is not None and own.inputs.keys() == case.inputs.keys() and own.subject.kind == case.subject.kind:
            case = replace(case, subject=own.subject, params=own.params, device=own.device, directory=own.directory)
    return replace(case, subject=_with_flags(case.subject, job.flags)) if job.flags else case


def _own_case(project: Path, id: str) -> Case | None:
    try:
        return next((each for each in load_cases(project) if each.id == id), None)
    except UserError:
        # Suites of that time that cannot be read, or lack a function, do not define the case.
        return None


def _with_flags(subject: Computation, flags: tuple[str, ...]) -> Computation:
    """Return a program's computation whose compilers get further flags."""
    spec = dict(subject.spec)
    build = dict(spec["build"])
    build["steps"] = [[*step, *flags] if _COMPILER.fullmatch(Path(step[0]).name) else step for step in build["steps"]]
    return replace(subject, spec={**spec, "build": build})


if __name__ == "__main__":
    # Pickle and msgpack look names up in the module, and not in this script.
    from precreg.diagnose.bisection import process

    process._main(*sys.argv[1:])
