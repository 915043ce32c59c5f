"""How is the oracle of a case computed: on which inputs, in which process, and which files does it open?

A worker computes oracles in a process of their own (`oracle_process.py`). Without workers the oracle runs beside the
subject, and its files are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from precreg.errors import UserError
from precreg.run.computation import SEED_BYTES, Arrays, draw_inputs
from precreg.run.oracle_calls import OracleCall
from precreg.run.oracle_process import AHEAD_PATIENCE_S, OracleProcess
from precreg.run.promotion import promote_inputs, promotion_explained, working_precision
from precreg.run.reuse import present_observation
from precreg.subject import (
    Activity,
    Call,
    CaseFailed,
    Observer,
    Outputs,
    enter_stage,
    gather_facts,
    inside_project,
    is_recorded,
    kind_named,
    note_changes,
    subject_kind,
)
from precreg.suite.inputs import PYTHON_KEY
from precreg.types import Case, ReferenceDtype


class OracleRun(NamedTuple):
    """The outputs of an oracle at each seed, and the files that its process opened so far; none if nobody noted them.

    `files` are relative to the project, and `opened` has the absolute paths of all files that are not installed.
    `facts` name the libraries that computed.
    """

    outputs: list[Arrays]
    files: tuple[str, ...] = ()
    opened: frozenset[str] = frozenset()
    facts: Mapping[str, str] = {}


# The cases of a suite mostly open the same files.
@cache
def _files(opened: frozenset[str], project: Path) -> tuple[str, ...]:
    return inside_project(opened, project)


# The process of a worker's oracles. None outside workers: oracles run beside the subject there.
_process: OracleProcess | None = None


def start_oracle_process() -> None:
    """Fork the process of this worker's oracles; no user code may have run yet.

    The process is in the worker's group and writes to its output, so a worker arranges both first.
    """
    global _process
    _process = OracleProcess(_compute)


def has_lost_oracle_process() -> bool:
    """Return whether user code broke the process of the oracles: this worker can run no further case, then."""
    return _process is not None and _process.is_lost


def run_oracle(
    case: Case,
    seeds: Sequence[int],
    inputs: Sequence[Arrays],
    directory: Path,
    project: Path,
    observer: Observer | None = None,
) -> OracleRun:
    """Return the oracle's outputs for the inputs of each seed, which stay as they are; `directory` is the suite's.

    An observer calls the oracle's function in this process. Raises CaseFailed, and errors of user code.
    """
    call = _call_of(case, seeds, directory, project)
    activity = call.activity
    # Recorded files run no code.
    if _process is None or observer is not None or is_recorded(case.oracle):
        computed = [_compute(call, place, each, observer) for place, each in enumerate(inputs)]
        facts = gather_facts(computed)
        return OracleRun([outputs.arrays for outputs in computed], facts=facts)
    # The child enters each seed; it may die before.
    enter_stage(activity, seeds[0])
    reply = _process.call(call, inputs, partial(_calls_ahead, case, seeds, directory, project))
    note_changes(reply.left)
    observation = present_observation()
    if observation is not None and reply.observed is not None:
        observation.add_from_other_process(*reply.observed)
    if reply.failure is not None:
        raise CaseFailed(reply.failure)
    return OracleRun(reply.outputs, _files(reply.opened, project), reply.opened, reply.facts)


def _call_of(case: Case, seeds: Sequence[int], directory: Path, project: Path) -> OracleCall:
    activity = Activity.GOLDEN if case.role == "golden" else Activity.REFERENCE
    return OracleCall(
        case.oracle, activity, tuple(seeds), case.params, directory, project, case.reference_dtype, case.id
    )


# The cases that the worker got in one message.
_batch: tuple[Case, ...] = ()


def expect_cases(cases: Iterable[Case]) -> None:
    """Note the cases that this worker runs next, one after the other: their oracles may run ahead of them."""
    global _batch
    _batch = tuple(cases)


# The inputs of the oracles that ran ahead of their cases, by case and seed.
_drawn: dict[tuple[str, str, int], Arrays] = {}


def take_inputs(case: Case, seed: int, directory: Path, project: Path) -> Arrays:
    """Return the inputs of a case at one seed, from its oracle if that ran ahead of the case.

    Raises UserError as `draw_inputs` does.
    """
    drawn = _drawn.pop((case.id, case.definition, seed), None)
    # The copies are the caller's to change: the others show which inputs the oracle had.
    return draw_inputs(case, seed, directory, project) if drawn is None else copy_inputs(drawn)


def _calls_ahead(
    case: Case, seeds: Sequence[int], directory: Path, project: Path
) -> Iterator[tuple[OracleCall, list[Arrays]]]:
    """Yield the calls of the cases behind this one that use the same oracle, with their inputs."""
    if len(seeds) < case.seeds or case.timeout_s <= 2 * AHEAD_PATIENCE_S:
        return
    _drawn.clear()
    places = [place for place, each in enumerate(_batch) if each.id == case.id]
    room = SEED_BYTES
    for other in _batch[places[0] + 1 :] if places else ():
        if (other.oracle, other.directory, other.role) == (case.oracle, case.directory, case.role) and _runs_ahead(
            other
        ):
            own = range(seeds[0], seeds[0] + other.seeds)
            try:
                inputs = [draw_inputs(other, seed, directory, project) for seed in own]
            except UserError:
                # Its case reports the mistake.
                return
            room -= sum(array.nbytes for arrays in inputs for array in arrays.values())
            if room < 0:
                return
            _drawn.update(((other.id, other.definition, seed), each) for seed, each in zip(own, inputs, strict=True))
            yield _call_of(other, own, directory, project), inputs


def _runs_ahead(case: Case) -> bool:
    """Return whether the oracle of a case may run before the case begins, as far as its definition shows."""
    # User code makes the inputs of some cases, and files may change.
    is_drawn = not any({PYTHON_KEY, "file"} & mapping.keys() for mapping in case.inputs.values())
    return is_drawn and not case.requires and case.oracle.kind == "python" and case.timeout_s > 2 * AHEAD_PATIENCE_S


def _compute(call: OracleCall, place: int, inputs: Arrays, observer: Observer | None = None) -> Outputs:
    enter_stage(call.activity, call.seeds[place])
    # A golden is compared in the output's dtype, so it computes in it; a reference computes in a wider one.
    if call.activity == Activity.GOLDEN:
        return _run(call, copy_inputs(inputs), observer)
    dtype = call.dtype or ReferenceDtype(
        "float64" if kind_named(call.oracle.kind).widest == "float64" else "longdouble"
    )
    narrow_too = call.dtype is not None
    with promotion_explained(inputs, dtype, narrow_too=narrow_too), working_precision(dtype):
        return _run(call, promote_inputs(inputs, dtype, narrow_too=narrow_too), observer)


def _run(call: OracleCall, inputs: Arrays, observer: Observer | None) -> Outputs:
    own = Call(inputs, deepcopy(call.params), call.directory, call.project, observer=observer, case=call.case)
    return subject_kind(call.oracle.kind)(call.oracle.spec, own)


def copy_inputs(inputs: Arrays) -> Arrays:
    """Return copies of inputs with the layout of their elements."""
    # "K" keeps the layout: numpy adds rows and columns up in different orders and precisions.
    return {name: array.copy("K") for name, array in inputs.items()}
