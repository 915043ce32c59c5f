"""How does a worker run references in a process that has not imported its subjects?

Before its first case a worker forks a process that never runs user code. That process forks one child for the modules
of each reference, and the child computes. So a reference sees no patch, registry or option that a subject leaves in its
process, and the files that the child opens are those of the reference alone. All of them are in the worker's process
group, and end with it.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import struct
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from functools import partial
from itertools import islice
from pathlib import Path
from select import POLLIN, poll
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.run.computation import Arrays
from precreg.run.oracle_calls import ComputeOracle, Observations, OracleCall, OracleMessage, ServedCalls
from precreg.run.workers import MAX_MESSAGE_BYTES, detach, die_with_parent
from precreg.subject import (
    CaseFailed,
    describe_exit,
    describe_stage,
    present_stage,
)
from precreg.types import Failure, Reason, StateChange

# Children that stay. A suite with references in several modules would otherwise import these anew for each case.
KEPT_CHILDREN = 4

# Arrays up to this size travel in the message itself; larger ones are written from their own memory, without a copy.
_SMALL_BYTES = 1 << 16

# In front of each message. Whoever writes something else into the socket breaks one case, and not the next one.
_FRAME = struct.Struct("<8sQ")
_MAGIC = b"precreg\x01"
_NUMBER = struct.Struct("<q")
_FIRST_DESCRIPTOR = 3


_ALL_ENDED = "the process that runs references was ended"


class OracleReply(NamedTuple):
    """The outputs for each set of inputs, or the failure, and the absolute paths that the child opened so far.

    `left` are the changes that the call left in its process. `facts` name the libraries that computed.
    """

    outputs: list[Arrays]
    opened: frozenset[str]
    left: tuple[StateChange, ...] = ()
    failure: Failure | None = None
    facts: Mapping[str, str] = {}
    # All that the child observed so far: items, loaded files and names of modules.
    observed: Observations | None = None


# The calls of the cases that follow, with their inputs; made only where a child takes several calls in one message.
CallsAhead = Callable[[], Iterable[tuple[OracleCall, Sequence[Arrays]]]]

# A message to a child and its reply cost a tiny case more than its oracle. A child that answers within this time gets
# the calls of the next cases, too.
_QUICK_S = 0.02
# After this time the calls of several cases run one by one, so that each case pays for its own oracle.
AHEAD_PATIENCE_S = 2.0
# The files of a reference's code. A reference that opens others may read files that subjects write.
_CODE = (".py", ".pyc", ".so")


class _Child(NamedTuple):
    """One child by its process id, with the socket to it."""

    pid: int
    socket: socket.socket


class OracleProcess:
    """The process beside a worker that runs references; `compute` gives the outputs of one seed of a call."""

    def __init__(self, compute: ComputeOracle) -> None:
        """Fork the process. Nothing of the user may be imported yet."""
        self._control, theirs = socket.socketpair()
        self._children: OrderedDict[tuple[str, str, Path, Path], _Child] = OrderedDict()
        self._opened: dict[tuple[str, str, Path, Path], frozenset[str]] = {}
        self._observed: dict[tuple[str, str, Path, Path], Observations] = {}
        # The computations whose child has answered a call.
        self._answered: set[tuple[str, str, Path, Path]] = set()
        # The computations that get calls ahead, and those that never do.
        self._quick: set[tuple[str, str, Path, Path]] = set()
        self._alone: set[tuple[str, str, Path, Path]] = set()
        # Replies for cases that did not ask yet, by the id of the case.
        self._ahead: dict[str, tuple[OracleCall, Sequence[Arrays], OracleReply]] = {}
        self._is_lost = False
        parent = os.getpid()
        with warnings.catch_warnings():
            # Python 3.12 warns about a fork beside threads. The worker's other thread only waits for the parent's end.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            _run_to_end(lambda: _start_children(theirs, compute), parent, theirs, self._control)
        theirs.close()
        # A child that a subject forks must not write to references of other cases.
        os.register_at_fork(after_in_child=self._detach)

    def _detach(self) -> None:
        for each in (self._control, *(child.socket for child in self._children.values())):
            with suppress(OSError):
                detach(each.fileno())

    @property
    def is_lost(self) -> bool:
        """Return whether user code ended the process, or broke the socket to it."""
        if not self._is_lost:
            ended = poll()
            try:
                ended.register(self._control, POLLIN)
            except ValueError:  # it is closed
                return True
            # The process writes only on request, so anything to read is its end, or bytes of another writer.
            self._is_lost = bool(ended.poll(0))
        return self._is_lost

    def call(self, call: OracleCall, inputs: Sequence[Arrays], following: CallsAhead = tuple) -> OracleReply:
        """Run an oracle on each set of inputs, in the child of its modules.

        `following` gives the calls of the next cases: the reply to one of these is used if the case brings the same
        bits. Raises CaseFailed: reference_error if the child gives no reply, subject_error if the subject ended the
        process.
        """
        if self.is_lost:
            raise CaseFailed(Failure(Reason.SUBJECT_ERROR, _ALL_ENDED))
        if (known := self._take_reply(call, inputs)) is not None:
            return known
        try:
            if call.key in self._quick and (reply := self._call_several([(call, inputs), *following()])) is not None:
                return reply
            return self._call_one(call, inputs)
        except (OSError, EOFError):
            self._is_lost = True
            raise CaseFailed(Failure(Reason.REFERENCE_ERROR, _ALL_ENDED)) from None

    def _call_one(self, call: OracleCall, inputs: Sequence[Arrays]) -> OracleReply:
        key, began = call.key, monotonic()
        child = self._child(key)
        try:
            _send(child.socket, [call], inputs)
            messages, outputs = _receive(child.socket)
            (reply, is_spoiled), *_ = self._replies(key, messages, outputs)
        # User code in the child can write anything, and then decoding raises anything.
        except Exception as error:
            return self._call_again(call, inputs, self._describe_loss(key, child, error))
        # The first call imports the modules.
        if key in self._answered - self._alone and monotonic() - began < _QUICK_S and _may_run_ahead(reply):
            self._quick.add(key)
        self._answered.add(key)
        if is_spoiled:
            self._end(key)
        return reply

    def _call_several(self, calls: Sequence[tuple[OracleCall, Sequence[Arrays]]]) -> OracleReply | None:
        """Send the calls of several cases at once; keep the replies to all but the first, and return that one.

        None if the child did not answer: then each call runs by itself, and the failing one costs its own case.
        """
        (first, _), *_ = calls
        key, child = first.key, self._child(first.key)
        self._ahead.clear()
        try:
            _send(child.socket, [call for call, _ in calls], [each for _, inputs in calls for each in inputs])
            answered = poll()
            answered.register(child.socket, POLLIN)
            if not answered.poll(AHEAD_PATIENCE_S * 1000):
                raise TimeoutError
            replies = self._replies(key, *_receive(child.socket))
        except Exception:
            self._run_alone(key)
            return None
        for (call, inputs), (reply, _) in zip(calls, replies, strict=False):
            self._ahead[call.case] = call, inputs, reply
        del self._ahead[first.case]
        reply, is_spoiled = replies[0]
        if len(replies) < len(calls):
            # The next one was no ordinary call. In a new child it runs as if it had not run here.
            self._run_alone(key)
        elif is_spoiled:
            self._end(key)
        return reply

    def _run_alone(self, key: tuple[str, str, Path, Path]) -> None:
        """End a child, and give its successors one call at a time."""
        self._quick.discard(key)
        self._alone.add(key)
        self._answered.discard(key)
        self._end(key)

    def _take_reply(self, call: OracleCall, inputs: Sequence[Arrays]) -> OracleReply | None:
        """Return the reply that came ahead for these bits; None without one."""
        if call.case not in self._ahead:
            return None
        asked, given, reply = self._ahead.pop(call.case)
        if asked == call and len(given) == len(inputs) and all(map(_has_same_bits, given, inputs)):
            return reply
        self._quick.discard(call.key)
        self._alone.add(call.key)
        return None

    def _replies(
        self, key: tuple[str, str, Path, Path], messages: Sequence[OracleMessage], outputs: Sequence[Arrays]
    ) -> list[tuple[OracleReply, bool]]:
        """Return the replies of a child in their order, each with whether the child must end."""
        left, replies = iter(outputs), list[tuple[OracleReply, bool]]()
        for failure, opened, changes, is_spoiled, facts, observed, number in messages:
            if opened is not None:
                self._opened[key] = opened
            if observed is not None:
                self._observed[key] = observed
            files, seen = self._opened.get(key, frozenset()), self._observed.get(key)
            found = [*islice(left, number)]
            replies.append((OracleReply(found, files, changes, failure, facts, seen), is_spoiled))
        return replies

    def _call_again(self, call: OracleCall, inputs: Sequence[Arrays], how: str) -> OracleReply:
        """Repeat a call in a new child, because an earlier case may have broken the lost one; its first call fails."""
        if call.key not in self._answered:
            raise CaseFailed(Failure(Reason.REFERENCE_ERROR, how))
        self._answered.remove(call.key)
        return self.call(call, inputs)

    def _child(self, key: tuple[str, str, Path, Path]) -> _Child:
        if key not in self._children:
            while len(self._children) >= KEPT_CHILDREN:
                self._end(next(iter(self._children)))
            ours, theirs = _connection()
            with theirs:
                socket.send_fds(self._control, [_NUMBER.pack(0)], [theirs.fileno()])
            self._children[key] = _Child(self._answer(), ours)
        self._children.move_to_end(key)
        return self._children[key]

    def _answer(self) -> int:
        (number,) = _NUMBER.unpack(_receive_bytes(self._control, _NUMBER.size))
        return int(number)

    def _end(self, key: tuple[str, str, Path, Path]) -> int:
        """End a child and return its wait status."""
        child = self._children.pop(key)
        self._opened.pop(key, None)
        self._observed.pop(key, None)
        child.socket.close()
        self._control.sendall(_NUMBER.pack(child.pid))
        return self._answer()

    def _describe_loss(self, key: tuple[str, str, Path, Path], child: _Child, error: Exception) -> str:
        """Return the end and the last stage of a child, in the words of the pool."""
        stage = present_stage()
        doing = "" if stage is None else f" while {describe_stage(stage)}"
        code = os.waitstatus_to_exitcode(self._end(key))
        if not isinstance(error, OSError | EOFError):
            return f"answered with something else than arrays: {error}"
        return f"its process {'was ' if code < 0 else ''}{describe_exit(code)}{doing}"


def _connection() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets, the first with a number that no standard descriptor has."""
    ours, theirs = socket.socketpair()
    # A subject may have closed a standard descriptor. precreg opens it again after the case, and a socket that took its
    # number would be lost.
    with ours:
        return socket.socket(fileno=fcntl(ours.fileno(), F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR)), theirs


def _run_to_end(work: Callable[[], None], parent: int, own: socket.socket, foreign: socket.socket) -> None:
    """Run the work of a forked process that has one socket of its own, and end it without the worker's cleanup."""
    code = 1
    try:
        # A reference that computes on does not notice that its socket was closed.
        die_with_parent(parent)
        foreign.close()
        # A reference must not reach the pipes between the worker and its parent.
        _close_others({own.fileno(), *_output_descriptors()})
        work()
        code = 0
    except (EOFError, OSError):
        # The worker is gone, or does not need this process any more.
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _output_descriptors() -> Iterator[int]:
    yield from (0, 1, 2)
    # A worker writes to a file of its own by another number.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            yield stream.fileno()


def _close_others(kept: Set[int]) -> None:
    for number in {int(name) for name in os.listdir("/dev/fd")} - kept:
        # The descriptor of the list itself is closed already.
        with suppress(OSError):
            os.close(number)


def _start_children(control: socket.socket, compute: ComputeOracle) -> None:
    """Fork a child for each socket that comes, and end the child of each process id that comes."""
    children: set[int] = set()
    parent = os.getpid()
    while True:
        data, descriptors, *_ = socket.recv_fds(control, _NUMBER.size, 1)
        if len(data) < _NUMBER.size:
            return
        (pid,) = _NUMBER.unpack(data)
        if descriptors:
            with socket.socket(fileno=descriptors[0]) as connection:
                pid = os.fork()
                if pid == 0:
                    _run_to_end(partial(_serve_calls, connection, compute), parent, connection, control)
            children.add(pid)
            control.sendall(_NUMBER.pack(pid))
        elif pid not in children:
            # A subject wrote into the socket. It must not choose whom this process kills.
            return
        else:
            children.remove(pid)
            # A child that has ended by itself keeps its own status; one that hangs must not stop its worker.
            os.kill(pid, signal.SIGKILL)
            control.sendall(_NUMBER.pack(os.waitpid(pid, 0)[1]))


def _serve_calls(connection: socket.socket, compute: ComputeOracle) -> None:
    """Compute the calls of each message that comes, until the worker closes the socket."""
    gc.freeze()
    served = ServedCalls(compute)
    while True:
        calls, inputs = _receive(connection)
        _send(connection, *served.answer(calls, iter(inputs)))


def _may_run_ahead(reply: OracleReply) -> bool:
    """Return whether the reply to a call speaks against computing its successors before their cases begin."""
    return reply.failure is None and not reply.left and all(path.endswith(_CODE) for path in reply.opened)


def _has_same_bits(arrays: Arrays, others: Arrays) -> bool:
    return [*arrays] == [*others] and all(
        (array.dtype, array.shape, array.strides) == (other.dtype, other.shape, other.strides)
        and array.tobytes() == other.tobytes()
        for array, other in zip(arrays.values(), others.values(), strict=True)
    )


def _send(connection: socket.socket, message: Any, sets: Sequence[Arrays]) -> None:
    packed = [{name: _pack(array) for name, array in arrays.items()} for arrays in sets]
    large: list[NDArray[np.uint8]] = []
    kinds = [[(name, *_kind(*each, large)) for name, each in arrays.items()] for arrays in packed]
    header = pickle.dumps((message, kinds), protocol=5)
    connection.sendall(_FRAME.pack(_MAGIC, len(header)) + header)
    for data in large:
        connection.sendall(data.data)


def _kind(axes: list[int], array: NDArray[Any], large: list[NDArray[np.uint8]]) -> tuple[Any, ...]:
    """Return dtype, shape, order of the axes, and the bytes of a small array; add a large one to `large`."""
    data = array.reshape(-1).view(np.uint8)
    if data.nbytes <= _SMALL_BYTES:
        return array.dtype, array.shape, axes, data.tobytes()
    large.append(data)
    return array.dtype, array.shape, axes, None


def _receive(connection: socket.socket) -> tuple[Any, list[Arrays]]:
    """Return a message with its sets of arrays. Raises EOFError at the end, and UnpicklingError for anything else."""
    magic, length = _FRAME.unpack(_receive_bytes(connection, _FRAME.size))
    if magic != _MAGIC or length > MAX_MESSAGE_BYTES:
        raise pickle.UnpicklingError(f"{magic!r}")
    message, kinds = pickle.loads(_receive_bytes(connection, length))
    return message, [{name: _receive_array(connection, *kind) for name, *kind in each} for each in kinds]


def _receive_bytes(connection: socket.socket, number: int) -> bytearray:
    data = bytearray(number)
    _fill(connection, memoryview(data))
    return data


def _fill(connection: socket.socket, view: memoryview) -> None:
    while view:
        taken = connection.recv_into(view)
        if not taken:
            raise EOFError
        view = view[taken:]


def _pack(array: NDArray[Any]) -> tuple[list[int], NDArray[Any]]:
    """Return the order of the axes in memory, and the array in that order: sums depend on the order, so it travels."""
    axes, ordered = _in_memory_order(array)
    if not ordered.flags.c_contiguous:
        axes, ordered = _in_memory_order(array.copy("K"))
    return (axes, ordered) if ordered.flags.c_contiguous else ([*range(array.ndim)], array.copy("C"))


def _in_memory_order(array: NDArray[Any]) -> tuple[list[int], NDArray[Any]]:
    if array.flags.c_contiguous:
        return [*range(array.ndim)], array
    axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    return axes, array.transpose(axes)


def _receive_array(
    connection: socket.socket, dtype: np.dtype[Any], shape: tuple[int, ...], axes: list[int], data: bytes | None
) -> NDArray[Any]:
    array: NDArray[Any] = np.empty(shape, dtype)
    if data is not None:
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8)
    else:
        _fill(connection, array.reshape(-1).view(np.uint8).data)
    # The inverse of the order in which the axes were sent.
    return array.transpose(sorted(range(array.ndim), key=axes.__getitem__)) if array.ndim > 1 else array
