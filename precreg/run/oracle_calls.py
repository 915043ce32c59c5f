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

        The first call counts in any case. A later one that failed, printed or left something has no message.
        """
        messages, outputs, room = list[OracleMessage](), list[Arrays](), MAX_AHEAD_BYTES
        for number, call in enumerate(calls):
            before = _printed_bytes()
            message, found = self._answer_one(call, [*islice(inputs, len(call.seeds))])
            is_ordinary = message[:4] == (None, None, (), False) and message[5] is None
            has_printed = _printed_bytes() != before
            if number and (has_printed or not is_ordinary):
                # The text belongs to a case that has not begun.
                _cut_printed(before)
                break
            messages.append(message)
            outputs += found
            room -= sum(array.nbytes for arrays in found for array in arrays.values())
            if room < 0 or not is_ordinary or has_printed:
                break
        return messages, outputs

    def _answer_one(self, call: OracleCall, inputs: Sequence[Arrays]) -> tuple[OracleMessage, list[Arrays]]:
        self._watch.begin_case(call.import_keys)
        failure, computed = None, list[Outputs]()
        try:
            # Overflow and the like raise no warnings, because the comparison counts them.
            with np.errstate(all="ignore"):
                computed = [self._compute(call, place, each) for place, each in enumerate(inputs)]
        except CaseFailed as failed:
            failure = failed.failure
        except BaseException as error:
            failure = describe_failure(error, Reason.REFERENCE_ERROR)
        left = self._watch.end_case()
        # Most calls open nothing new.
        new = len(self._opened) != self._sent
        self._sent = len(self._opened)
        opened, observed = self._opened.paths() if new else None, self._observation.new_items()
        facts = gather_facts(computed)
        message = (failure, opened, left, self._watch.is_spoiled, facts, observed, len(computed))
        return message, [outputs.arrays for outputs in computed]


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
