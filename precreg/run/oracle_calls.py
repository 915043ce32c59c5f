"""How does the child of a reference compute the calls that come in one message?

The first call belongs to a case that runs now. The others belong to cases that have not begun, so they must not leave
a trace: the first one that is not ordinary is left out, and runs again in its turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from precreg.run.computation import Arrays
from precreg.run.reuse import OtherProcess
from precreg.subject import (
    Activity,
    CaseFailed,
    ImportKey,
    OpenedFiles,
    Outputs,
    describe_failure,
    gather_facts,
    import_keys,
    watch_worker,
)
from precreg.types import Computation, Failure, Reason, ReferenceDtype, StateChange


class OracleCall(NamedTuple):
    """One computation of an oracle without its inputs; all of it travels to another process.

    `activity` and `seeds` say what a crash interrupted.
    """

    oracle: Computation
    activity: Activity
    seeds: tuple[int, ...]
    params: dict[str, Any]
    directory: Path
    project: Path
    # The dtype of a reference's inputs; None promotes each dtype to the next wider one.
    dtype: ReferenceDtype | None = None
    # The id of the case, for messages.
    case: str = ""

    @property
    def key(self) -> tuple[str, str, Path, Path]:
        """Return the computation and its place: calls of the same one share a process."""
        # Not the module alone: the files that a process opened would then depend on the other functions of the module.
        return self.oracle.kind, str(self.oracle.spec), self.directory, self.project

    @property
    def import_keys(self) -> tuple[ImportKey, ...]:
        """Return the keys of the modules that the call imports."""
        return import_keys(self.oracle, self.directory)


# Items, loaded files, and names of modules, as `OtherProcess.new_items` returns them.
Observations = tuple[list[str], list[str], list[str]]
# Computes the outputs of a call for the inputs of the seed at a place.
ComputeOracle = Callable[[OracleCall, int, Arrays], Outputs]

# The failure, the opened files if there are new ones, the changes that the call left, whether the process must end,
# the facts, the new observations, and the number of sets of outputs.
OracleMessage = tuple[
    Failure | None, frozenset[str] | None, tuple[StateChange, ...], bool, Mapping[str, str], Observations | None, int
]


# Outputs of this size wait for their cases at most, and one call's more. Larger ones travel case by case.
MAX_AHEAD_BYTES = 1 << 20


class ServedCalls:
    """The calls that one child computes."""

    def __init__(self, compute: ComputeOracle) -> None:
        self._compute, self._opened, self._sent = compute, OpenedFiles(), -1
        self._watch, self._observation = watch_worker(), OtherProcess()

    def answer(self, calls: Sequence[OracleCall], inputs: Iterator[Arrays]) -> tuple[list[OracleMessage], list[Arrays]]:
        """Return messages and outputs of calls, up to the first one that is not ordinary, or to MAX_AHEAD_BYTES.

        The first call counts in any case. Later ones that failed, printed or left something have no message.
        """
        first, *later = calls
        before = _printed_bytes()
        message, outputs = self._answer_one(first, [*islice(inputs, len(first.seeds))])
        messages = [message]
        is_ordinary = message[:4] == (None, None, (), False) and message[5] is None
        room = MAX_AHEAD_BYTES - _bytes_of(outputs)
        if later and is_ordinary and room >= 0 and _printed_bytes() == before:
            more, found = self._answer_later(later, inputs, room)
            messages, outputs = messages + more, outputs + found
        return messages, outputs

    def _answer_one(self, call: OracleCall, inputs: Sequence[Arrays]) -> tuple[OracleMessage, list[Arrays]]:
        self._watch.begin_case(call.import_keys)
        failure, computed = self._compute_all(call, inputs)
        left = self._watch.end_case()
        opened, observed = self._new_paths(), self._observation.new_items()
        facts = gather_facts(computed)
        message = (failure, opened, left, self._watch.is_spoiled, facts, observed, len(computed))
        return message, [outputs.arrays for outputs in computed]

    def _answer_later(
        self, calls: Sequence[OracleCall], inputs: Iterator[Arrays], room: int
    ) -> tuple[list[OracleMessage], list[Arrays]]:
        """Return messages and outputs of calls up to the first that fails, or exceeds the room.

        Without any if one of them printed or left something: then each runs again in its turn, in a new process.
        """
        messages, outputs, before = list[OracleMessage](), list[Arrays](), _printed_bytes()
        self._watch.begin_case(calls[0].import_keys)
        for call in calls:
            failure, computed = self._compute_all(call, [*islice(inputs, len(call.seeds))])
            if failure is not None:
                break
            found = [each.arrays for each in computed]
            messages.append((None, None, (), False, gather_facts(computed), None, len(found)))
            outputs += found
            room -= _bytes_of(found)
            if room < 0:
                break
        # Once for all calls: a check takes as long as a tiny call.
        left, opened, observed = self._watch.end_case(), self._new_paths(), self._observation.new_items()
        has_printed = _printed_bytes() != before
        if has_printed:
            # The text belongs to cases that have not begun.
            _cut_printed(before)
        is_quiet = not (has_printed or left or self._watch.is_spoiled)
        return (messages, outputs) if is_quiet and opened is None and observed is None else ([], [])

    def _compute_all(self, call: OracleCall, inputs: Sequence[Arrays]) -> tuple[Failure | None, list[Outputs]]:
        """Return the outputs of a call for each set of inputs, or its failure."""
        try:
            # Overflow and the like raise no warnings, because the comparison counts them.
            with np.errstate(all="ignore"):
                return None, [self._compute(call, place, each) for place, each in enumerate(inputs)]
        except CaseFailed as failed:
            return failed.failure, []
        except BaseException as error:
            return describe_failure(error, Reason.REFERENCE_ERROR), []

    def _new_paths(self) -> frozenset[str] | None:
        """Return all opened files so far; None if nothing came since the last call, as after most calls."""
        if len(self._opened) == self._sent:
            return None
        self._sent = len(self._opened)
        return self._opened.paths()


def _bytes_of(sets: Sequence[Arrays]) -> int:
    return sum(array.nbytes for arrays in sets for array in arrays.values())


def _printed_bytes() -> int:
    """Return the length of the text that the worker's cases printed; 0 where standard output is not a file."""
    try:
        return os.lseek(1, 0, os.SEEK_CUR)
    except OSError:
        return 0


def _cut_printed(length: int) -> None:
    with suppress(OSError):
        os.ftruncate(1, length)
        os.lseek(1, length, os.SEEK_SET)
