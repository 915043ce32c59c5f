"""Computations that notice nearly everything that another case may have left in their process."""

import asyncio
import copy
import decimal
import fractions
import gc
import hashlib
import json
import locale
import math
import os
import random
import resource
import signal
import statistics
import struct
import sys
import threading
import time
import warnings

import numpy as np


def text(*values):
    """Return a text as an array of small integers, so that its digest is a fact of the case."""
    return np.frombuffer(hashlib.sha256(repr(values).encode()).digest(), np.uint8).astype(np.int32)


def numbers(x):
    """Compute with numpy: subnormal numbers, directed rounding, sums, and functions that may be patched."""
    x = np.asarray(x, np.float64)
    tiny = x.astype(np.float32) * np.float32(1e-41)
    return {
        "subnormal": tiny + tiny / np.float32(3),
        "subnormal_read": tiny * np.float32(1e30),
        "rounded": np.array([0.1 + 0.2, 1 / 3, -1 / 3]) * 1.1,
        "rounded32": x.astype(np.float32) / np.float32(3),
        "sums": np.array([np.sum(x), x.mean(), np.add.reduce(x), np.cumsum(x)[-1], np.add(x, 1).sum(), np.dot(x, x)]),
        "functions": np.array([np.exp(x).sum(), np.linalg.norm(x), np.max(x), np.sort(x)[0], np.float32(0.1), np.pi]),
        "drawn": np.random.default_rng(3).standard_normal(4),
        "shown": text(str(x[:3]), str(np.float32(0.1)), np.array2string(x[:2])),
    }


def python(x):
    """Compute with Python's own functions and modules."""
    values = [float(value) for value in x]
    shown = (
        json.dumps([0.1, "a"]),
        json.loads("[0.1]"),
        hashlib.sha256(b"a").hexdigest(),
        decimal.Decimal(1) / 7,
        fractions.Fraction(1, 3) + 1,
        struct.pack("d", 0.1),
        random.Random(1).random(),
        statistics.fmean([1, 2, 4]),
        copy.deepcopy({"a": [1, (2, 3)]}),
        copy.deepcopy(1.5 + 2j),
        len(str(10**4000)),
        round(2.675, 2),
        len([1, 2, 3]),
        sorted([3, 1, 2]),
        asyncio.get_event_loop_policy().get_event_loop().is_closed(),
    )
    return {"sums": np.array([sum(values), math.fsum(values), math.sqrt(2), math.pi]), "shown": text(*shown)}


def process(x):
    """Look at the settings of the process."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("seen", stacklevel=1)
    mask = os.umask(0o22)
    os.umask(mask)
    limits = [resource.getrlimit(limit) for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE)]
    handlers = [repr(signal.getsignal(number)).partition(" at 0x")[0] for number in sorted(signal.valid_signals())]
    timers = [signal.getitimer(timer)[0] > 0 for timer in (0, 1, 2)]
    print("to stdout", flush=True)
    return {
        "signals": text(handlers, timers, sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ())))),
        "limits": text(limits, mask, sys.getswitchinterval(), sys.get_int_max_str_digits(), sys.getrecursionlimit()),
        "locale": text(locale.setlocale(locale.LC_ALL), time.tzname, f"{1234.5:n}"),
        "hooks": text(sys.gettrace(), sys.getprofile(), sys.excepthook is sys.__excepthook__, gc.isenabled()),
        "paths": text([path for path in sys.path if "elsewhere" in path], len(sys.meta_path), os.getcwd()),
        "variables": text(os.environ.get("LD_PRELOAD"), os.environ.get("TZ"), os.environ.get("PRECREG_HOSTILE")),
        "warned": text(len(seen), np.geterr(), np.geterrcall(), np.getbufsize(), sorted(np.get_printoptions().items())),
    }


def modules(x):
    """Look at the modules that an import finds, and at the threads that run."""
    import json as again  # the import statement is what is tested

    import numpy

    try:
        import only_elsewhere  # noqa: F401

        found = True
    except ImportError:
        found = False
    same = (again is json, sys.modules["json"] is json, numpy is np, sys.modules.get("numpy") is np)
    # A thread of precreg itself has no name of a subject.
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("hostile")]
    return text(found, same, threads)


def late(x):
    """Give what comes later the time to come: sixty victims wait longer than any timer. Alone nothing comes."""
    end = time.monotonic() + (0 if os.environ.get("VICTIMS_ALONE") else 0.05)
    while time.monotonic() < end:
        time.sleep(0.01)
    return numbers(x)
