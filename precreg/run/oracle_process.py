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
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from functools import partial
from pathlib import Path
from select import POLLIN, poll
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.run.computation import Arrays
from precreg.run.reuse import OtherProcess
from precreg.run.workers import MAX_MESSAGE_BYTES, detach, die_with_parent
from precreg.subject import (
    Activity,
    CaseFailed,
    ImportKey,
    OpenedFiles,
    Outputs,
    describe_exit,
    describe_failure,
    describe_stage,
    gather_facts,
    import_keys,
    present_stage,
    watch_worker,
)
from precreg.types import Computation, Failure, Reason, ReferenceDtype, StateChange

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


# Computes the outputs of a call for the inputs of the seed at a place.
ComputeOracle = Callable[[OracleCall, int, Arrays], Outputs]


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

    def call(self, call: OracleCall, inputs: Sequence[Arrays]) -> OracleReply:
        """Run an oracle on each set of inputs, in the child of its modules.

        Raises CaseFailed: reference_error if the child gives no reply, subject_error if the subject ended the process.
        """
        key = call.key
        if self.is_lost:
            raise CaseFailed(Failure(Reason.SUBJECT_ERROR, _ALL_ENDED))
        try:
            child = self._child(key)
            try:
                _send(child.socket, call, inputs)
                (failure, opened, left, is_spoiled, facts, observed), outputs = _receive(child.socket)
            # User code in the child can write anything, and then decoding raises anything.
            except Exception as error:
                return self._call_again(call, inputs, self._describe_loss(key, child, error))
            if opened is not None:
                self._opened[key] = opened
            if observed is not None:
                self._observed[key] = observed
            reply = OracleReply(
                outputs, self._opened.get(key, frozenset()), left, failure, facts, self._observed.get(key)
            )
            self._answered.add(key)
            if is_spoiled:
                self._end(key)
        except (OSError, EOFError):
            self._is_lost = True
            raise CaseFailed(Failure(Reason.REFERENCE_ERROR, _ALL_ENDED)) from None
        return reply

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
    """Compute each call that comes, until the worker closes the socket."""
    gc.freeze()
    opened, sent, watch = OpenedFiles(), -1, watch_worker()
    observation = OtherProcess()
    while True:
        call, inputs = _receive(connection)
        watch.begin_case(call.import_keys)
        failure, computed = None, list[Outputs]()
        try:
            # Overflow and the like raise no warnings, because the comparison counts them.
            with np.errstate(all="ignore"):
                computed = [compute(call, place, each) for place, each in enumerate(inputs)]
        except CaseFailed as failed:
            failure = failed.failure
        except BaseException as error:
            failure = describe_failure(error, Reason.REFERENCE_ERROR)
        left = watch.end_case()
        # Most calls open nothing new.
        new = len(opened) != sent
        sent = len(opened)
        facts = gather_facts(computed)
        message = (failure, opened.paths() if new else None, left, watch.is_spoiled, facts, observation.new_items())
        _send(connection, message, [outputs.arrays for outputs in computed])


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
