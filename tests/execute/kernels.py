"""Subjects that work, and subjects that do everything else; copied into the project of a test."""

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import time

import numpy as np

COUNT = itertools.count()
BUFFER = np.zeros(4, np.float32)


def double(x):
    return x * x.dtype.type(2)


def double_exactly(x):
    return x * 2


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


def waits_half_a_second(x):
    time.sleep(0.5)
    return x


def needs_one_thread(x):
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    return x


def takes_a_moment(x, number):
    time.sleep(0.02)
    return x * number
