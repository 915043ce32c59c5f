"""Subjects that work, and subjects that do everything else; copied into the project of a test."""

import contextlib
import ctypes
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from msgspec import msgpack

COUNT = itertools.count()
HERE = Path(__file__).parent
BUFFER = np.zeros(4, np.float32)


def double(x):
    return x * x.dtype.type(2)


def double_exactly(x):
    return x * 2


def double_in_any_case(x, order):
    return x * x.dtype.type(2)


def obeys(x, order):
    if order:
        print("got the order", order)
    if order == "raise":
        raise ValueError("as ordered")
    if order == "exit":
        os._exit(5)
    if order == "hang":
        time.sleep(600)
    if order == "patch":
        np.mean = np.sum
    return x * 2


def off(x):
    return x * x.dtype.type(2 + 2**-6)


def twice_as_far_off(x):
    return x * x.dtype.type(2 + 2**-5)


def wider_double(x):
    return np.ascontiguousarray(np.broadcast_to(x * 2, (2, *x.shape)))


def double_with_nan(x):
    return np.where(x == x.max(), np.nan, x * 2)


def dtype_given(x):
    return {"size": np.array(x.dtype.itemsize), "longdouble": np.array(x.dtype == np.longdouble)}


def dtype_scaled(x):
    return x * 3


def two_outputs(x):
    return {"sum": x.sum(), "first": x[:1]}


def one_output(x):
    return {"sum": x.sum()}


def changes_inputs(x, weights):
    x *= 3
    weights.append(1.0)
    return x * len(weights)


def triple(x, weights):
    return x * 3 * (len(weights) + 1)


def unsteady(x):
    return {"steady": x, "unsteady": x + next(COUNT)}


def any_order(x):
    """A sum in another order at every run, as of threads that add in the order in which they come."""
    order = np.random.default_rng(next(COUNT)).permutation(x.size)
    return {"size": np.float32(x.size), "total": np.cumsum(x.ravel()[order])[-1]}


def exact_total(x):
    return {"size": np.float64(x.size), "total": x.sum()}


def another_shape(x):
    return np.ones(4 + next(COUNT) % 2, np.float32)


def four_ones(x):
    return np.ones(4)


def sometimes_more(x):
    return {"always": x, "sometimes": x} if next(COUNT) % 2 else {"always": x}


def both(x):
    return {"always": x, "sometimes": x}


def stale_stage(x):
    """One element of the second stage, and what follows from it, depends on how often it ran."""
    partial = np.zeros(4)
    partial[2] = next(COUNT)
    return {"scaled": x, "partial": partial, "total": partial.sum()}


def one_buffer(x):
    BUFFER[:] = x.ravel()[:4] + next(COUNT)
    return BUFFER


def overwrites_the_buffer(x):
    BUFFER[:] = 0
    return BUFFER


def overflows(x):
    return x * np.float32(3e38) * np.float32(3e38)


def raises(x):
    print("shortly before")
    raise ValueError("not\nlike this")


def calls_wrongly(x, *, never_given):
    return x


def returns_none(x):
    return None


def recurses(x):
    return recurses(x)


def runs_out_of_memory(x):
    return np.zeros(2**62, np.uint8)


def exits(x):
    sys.exit(3)


def exits_at_once(x):
    print("last words")
    os._exit(5)


def is_killed(x):
    os.kill(os.getpid(), signal.SIGKILL)


def segfaults(x):
    ctypes.string_at(0)


def hangs(x):
    print("waiting")
    time.sleep(1000)


def hangs_and_ignores_sigterm(x):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass


def prints_a_megabyte(x):
    print("x" * 2**20)
    print("the end")
    raise ValueError("after a megabyte")


def prints(x):
    print("to stdout")
    os.write(2, b"to the descriptor\n")
    return x


def starts_a_child(x, pid_file):
    child = subprocess.Popen(["sleep", "1000"])
    with open(pid_file, "w") as file:
        file.write(str(child.pid))
    return x


def starts_a_child_and_hangs(x, pid_file):
    starts_a_child(x, pid_file)
    time.sleep(1000)


def crashes_at(x, number):
    if number in (20, 21, 150):
        os.kill(os.getpid(), signal.SIGSEGV)
    return x * number


def crashes_at_nothing(x, number):
    return x * number


def starts_nothing(x, pid_file):
    return x


def forks_and_dies(x):
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(6)


def meets_three_others(x):
    """Return when four cases are in here at once; alone it waits until its deadline."""
    (HERE / f"met-{os.getpid()}").touch()
    while len(list(HERE.glob("met-*"))) < 4:
        time.sleep(0.01)
    return x


def needs_one_thread(x):
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    return x


def takes_a_moment(x, number):
    time.sleep(0.02)
    return x * number


class OwnError(BaseException):
    pass


def raises_its_own(x):
    raise OwnError("of its own")


def leaves_its_generator(x):
    raise GeneratorExit


def forks_and_comes_back(x):
    os.fork()
    return double(x)


def changes_its_process(x):
    """Change all that a later computation could notice."""
    warnings.simplefilter("error")
    np.seterr(all="raise")
    os.chdir("/")
    os.environ["PRECREG_TEST"] = "1"
    sys.stdout.close()
    sys.stderr.close()
    sys.stdout = sys.stderr = None
    return double(x)


def needs_its_process_unchanged(x):
    """Fail where anything of all that has changed."""
    warnings.warn("harmless", stacklevel=1)
    overflows(x)
    assert os.getcwd() != "/"
    assert "PRECREG_TEST" not in os.environ
    print("to stdout")
    print("to stderr", file=sys.stderr)
    return x * 2


def closes_the_descriptors(x):
    os.close(1)
    os.close(2)
    return double(x)


def leaves_a_thread(x):
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return double(x)


def interrupts_itself(x):
    raise KeyboardInterrupt


def gives_the_outcome_of_another(x):
    """Write to the connection that its worker answers on."""
    frame = sys._getframe()
    while "connection" not in frame.f_locals:
        frame = frame.f_back
    answer = msgpack.encode({"case": "unit/s/other", "definition": "1:other", "execution": {}})
    frame.f_locals["connection"].send_bytes(b"\0" + answer)
    # The parent reads the stage after the message: a worker that went on would be at the reference by then.
    time.sleep(1000)


def interrupts_by_signal(x):
    signal.raise_signal(signal.SIGINT)
    return double(x)


def names_badly(x):
    return {"\ud800": double(x)}


def gives_too_much(x):
    return 10**400


def patches_the_mean(x):
    """Replace what `mean_by_numpy` calls, from the subject's side."""
    vars(np)["mean"] = lambda x: 0.0 * x.max()
    return x.mean()


def mean_by_numpy(x):
    return np.mean(x)


def process_id(x):
    return float(os.getpid())


def reads_its_table(x, table):
    return x * float((HERE / table).read_text())


def writes_into_all_sockets(x):
    """Write junk into every socket of the process, as a library that is wrong about a descriptor does."""
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2 and os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                os.write(int(name), b"junk junk")
    return x


def sets_an_alarm(x):
    signal.alarm(1000)
    return float(os.getpid())


def patches_numpy(x):
    np.sum = np.prod
    return float(os.getpid())


def forks_a_child_that_writes_into_all_sockets(x):
    """Leave the sockets of this process alone, and let a child write into what it inherited."""
    if os.fork() == 0:
        writes_into_all_sockets(x)
        os._exit(0)
    os.wait()
    return double(x)


def answers_with_a_length_without_end(x):
    """Write the head of a message of 2^63 bytes into every socket of the process of references."""
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2 and os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                os.write(int(name), b"precreg\x01" + (2**63).to_bytes(8, "little"))
    return x
