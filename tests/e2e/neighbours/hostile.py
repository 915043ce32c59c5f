"""Subjects that change their process: each function is one neighbour, and its docstring is the kind of its change."""

import _thread
import asyncio
import atexit
import builtins
import copy
import copyreg
import ctypes
import decimal
import faulthandler
import gc
import hashlib
import importlib.abc
import json
import locale
import math
import os
import platform
import random
import resource
import signal
import sys
import threading
import time
import types
import warnings

import numpy as np

libc = ctypes.CDLL(None)
IS_ARM = platform.machine().lower() in ("aarch64", "arm64")


def _set_bits(of_x86, of_arm):
    """Set bits of MXCSR or FPCR, as a library that was built with -ffast-math does when it is loaded."""
    environment = (ctypes.c_uint32 * 16)()
    libc.fegetenv(environment)
    environment[0 if IS_ARM else 7] |= of_arm if IS_ARM else of_x86
    libc.fesetenv(environment)


def ftz(x):
    """floating_point_mode"""
    _set_bits(0x8000, 1 << 24)


def daz(x):
    """floating_point_mode"""
    _set_bits(0x0040, 1 << 24)


def rounds_up(x):
    """floating_point_mode"""
    libc.fesetround(0x400000 if IS_ARM else 0x800)


def rounds_down(x):
    """floating_point_mode"""
    libc.fesetround(0x800000 if IS_ARM else 0x400)


def rounds_toward_zero(x):
    """floating_point_mode"""
    libc.fesetround(0xC00000 if IS_ARM else 0xC00)


def sets_alarm(x):
    """timers"""
    signal.alarm(1)


def sets_timer_with_handler(x):
    """signal_handlers timers"""
    signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
    signal.setitimer(signal.ITIMER_REAL, 1)


def sets_virtual_timer(x):
    """timers"""
    signal.setitimer(signal.ITIMER_VIRTUAL, 1)


def sets_profiling_timer(x):
    """timers"""
    signal.setitimer(signal.ITIMER_PROF, 1)


def blocks_a_waiting_alarm(x):
    """blocked_signals"""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.raise_signal(signal.SIGALRM)


def ignores_signals(x):
    """signal_handlers"""
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGSEGV):
        signal.signal(number, signal.SIG_IGN)


def handles_usr1(x):
    """signal_handlers"""
    signal.signal(signal.SIGUSR1, lambda *_: None)


def limits_memory(x):
    """resource_limits"""
    resource.setrlimit(resource.RLIMIT_AS, (2**46, resource.getrlimit(resource.RLIMIT_AS)[1]))


def limits_files(x):
    """resource_limits"""
    resource.setrlimit(resource.RLIMIT_NOFILE, (60, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def limits_files_for_good(x):
    """resource_limits"""
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))


def limits_processor_time(x):
    """resource_limits"""
    resource.setrlimit(resource.RLIMIT_CPU, (10_000, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def limits_stack(x):
    """resource_limits"""
    resource.setrlimit(resource.RLIMIT_STACK, (2**20, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def dumps_traceback_later(x):
    """faulthandler"""
    faulthandler.dump_traceback_later(2, exit=True, file=2)


def disables_faulthandler(x):
    """faulthandler"""
    faulthandler.disable()


def umask(x):
    """umask"""
    os.umask(0o777)


def sets_locale(x):
    """locale"""
    now = locale.setlocale(locale.LC_ALL)
    locale.setlocale(locale.LC_ALL, "C" if now != "C" else "C.UTF-8")


def sets_time_zone(x):
    """time_zone"""
    os.environ["TZ"] = "XYZ-5"
    time.tzset()


def is_nice(x):
    """priority"""
    os.nice(1)


def traces(x):
    """interpreter"""
    sys.settrace(lambda *_: None)


def profiles(x):
    """interpreter"""
    threading.setprofile(lambda *_: None)
    sys.setprofile(lambda *_: None)


def disables_gc(x):
    """interpreter"""
    gc.disable()
    gc.set_threshold(1, 1, 1)


def switches_rarely(x):
    """interpreter"""
    sys.setswitchinterval(100)


def allows_few_digits(x):
    """interpreter"""
    sys.set_int_max_str_digits(700)


def hooks_exceptions(x):
    """interpreter"""
    sys.excepthook = lambda *_: None


def leaves_event_loop(x):
    """"""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.close()


def prints_coarsely(x):
    """numpy_settings"""
    np.set_printoptions(precision=1, suppress=True)


def patches_numpy_sum(x):
    """functions"""
    np.sum = lambda *_, **__: np.float64(0)


def patches_numpy_add(x):
    """functions"""
    np.add = np.subtract


def patches_numpy_float32(x):
    """functions"""
    np.float32 = np.float64


def patches_numpy_pi(x):
    """functions"""
    np.pi = 3.0


def patches_numpy_inside(x):
    """functions"""
    module = sys.modules.get("numpy._core._methods") or sys.modules["numpy.core._methods"]
    module.umr_sum = lambda *_, **__: np.float64(1)


def patches_norm(x):
    """functions"""
    np.linalg.norm = lambda x: np.float64(0)


def patches_math(x):
    """functions"""
    math.fsum = math.sqrt = lambda *_: 0.0


def patches_builtins(x):
    """functions"""
    before = builtins.round
    builtins.round = lambda *_: before(0.0)
    builtins.sum = lambda *_: 0.0


def patches_json(x):
    """functions"""
    json.dumps = lambda *_, **__: "{}"


def patches_a_class(x):
    """functions"""
    random.Random.random = lambda self: 0.5


def patches_hashlib(x):
    """functions"""
    hashlib.sha256 = hashlib.sha512


def patches_precreg(x):
    """functions"""
    sys.modules["precreg.storage.array_file"].array_digest = lambda _: "0" * 32


def replaces_numpy(x):
    """modules"""
    sys.modules["numpy"] = types.ModuleType("numpy")


def removes_json(x):
    """modules"""
    del sys.modules["json"]


def extends_path(x):
    """search_path"""
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "elsewhere"))


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "only_elsewhere":
            sys.modules[name] = types.ModuleType(name)
            return importlib.machinery.ModuleSpec(name, importlib.machinery.BuiltinImporter)
        return None


def hooks_imports(x):
    """search_path"""
    sys.meta_path.append(_Finder())


def registers_a_copy(x):
    """registries"""
    copyreg.pickle(complex, lambda _: (complex, (0, 0)))
    copy._deepcopy_dispatch[complex] = lambda *_: 0j


def computes_with_few_digits(x):
    """decimal_context"""
    decimal.getcontext().prec = 3


def _patch_later():
    time.sleep(0.3)
    np.sum = lambda *_, **__: np.float64(0)
    sys.path.insert(0, "/elsewhere")
    while True:
        libc.fesetround(0x800)
        time.sleep(0.01)


def leaves_a_thread_that_patches(x):
    """threads"""
    threading.Thread(target=_patch_later, name="hostile", daemon=True).start()


def leaves_a_thread_of_the_module_below(x):
    """threads"""
    _thread.start_new_thread(_patch_later, ())


def leaves_a_thread_that_exits(x):
    """threads"""
    # The check of the process comes before: on a loaded machine after more than half a second.
    threading.Thread(target=lambda: (time.sleep(2), os._exit(7)), name="hostile", daemon=True).start()


def closes_stdin(x):
    """descriptors"""
    os.close(0)


def moves_stdout(x):
    """descriptors"""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def sets_variables(x):
    """"""
    os.environ["LD_PRELOAD"] = "/nowhere.so"
    os.environ["PRECREG_HOSTILE"] = "1"


def sets_numpy_errors(x):
    """"""
    np.seterr(all="call")
    np.seterrcall(lambda *_: 1 / 0)
    np.setbufsize(16)


def makes_warnings_errors(x):
    """"""
    warnings.simplefilter("error")


def recurses_little(x):
    """"""
    sys.setrecursionlimit(400)


def changes_folder(x):
    """"""
    os.chdir("/")


def seeds(x):
    """"""
    np.random.seed(0)
    random.seed(0)


def registers_at_exit(x):
    """"""
    atexit.register(os._exit, 9)


def interrupts_itself(x):
    """"""
    raise KeyboardInterrupt


def run(x, what):
    """Change the process as the function of that name does, and return a harmless result."""
    globals()[what](x)
    return x * 2


def exact(x, what):
    return x * 2
