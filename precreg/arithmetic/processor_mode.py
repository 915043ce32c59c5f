"""In which floating-point mode does a thread compute: rounding, subnormal numbers, exceptions?

A library built with -ffast-math flushes subnormal numbers to zero in the thread that loads it, and C code can set any
rounding. Every number that the thread computes afterwards may differ.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes.util import find_library

# Larger than fenv_t of any platform: 32 bytes on x86-64 Linux.
_WORDS = 16
_environment = (ctypes.c_uint32 * _WORDS)()
# ctypes passes an address faster than an array.
_address = ctypes.addressof(_environment)
_library = ctypes.CDLL(None)
if not hasattr(_library, "fegetenv"):
    # A Python that is not linked with libm.
    _library = ctypes.CDLL(find_library("m"))
_get, _set, _rounding = _library.fegetenv, _library.fesetenv, _library.fegetround
_get.argtypes = _set.argtypes = [ctypes.c_void_p]


def _default_environment() -> int:
    """Return the address of FE_DFL_ENV in <fenv.h>."""
    try:
        return ctypes.addressof(ctypes.c_byte.in_dll(_library, "_FE_DFL_ENV"))  # macOS
    except ValueError:
        return ctypes.c_void_p(-1).value or 0  # glibc and musl


_ORDINARY_ENVIRONMENT = _default_environment()
_IS_X86 = platform.machine().lower() in ("x86_64", "amd64") and sys.platform == "linux"
_IS_ARM = platform.machine().lower() in ("aarch64", "arm64")

# The control word of the x87 unit: exception masks, precision and rounding. Other bits have no effect.
_X87_CONTROL = 0x0F3F
# MXCSR without the flags of exceptions that occurred: DAZ, exception masks, rounding, FTZ.
_MXCSR_CONTROL = 0xFFC0


def _x86_mode() -> int:
    _get(_address)
    return (_environment[0] & _X87_CONTROL) << 16 | (_environment[7] & _MXCSR_CONTROL)


def _arm_mode() -> int:
    _get(_address)
    return _environment[0]


def _portable_mode() -> int:
    # <fenv.h> names the rounding alone; each platform keeps other bits in a place of its own.
    mode: int = _rounding()
    return mode


floating_point_mode: Callable[[], int] = _x86_mode if _IS_X86 else _arm_mode if _IS_ARM else _portable_mode


def set_ordinary_mode() -> None:
    """Make this thread round to nearest and keep subnormal numbers, without traps, as a process does at its start."""
    _set(_ORDINARY_ENVIRONMENT)


@contextmanager
def ordinary_mode() -> Iterator[None]:
    """Compute in the ordinary mode inside, and in the former mode afterwards."""
    before = (ctypes.c_uint32 * _WORDS)()
    _get(ctypes.addressof(before))
    set_ordinary_mode()
    try:
        yield
    finally:
        _set(ctypes.addressof(before))


def _read_ordinary_mode() -> int:
    with ordinary_mode():
        return floating_point_mode()


ORDINARY_MODE = _read_ordinary_mode()

_ROUNDINGS = ("nearest", "down", "up", "toward zero")
# FPCR of AArch64 counts them in another order.
_ARM_ROUNDINGS = ("nearest", "up", "down", "toward zero")


def describe_floating_point_mode(mode: int) -> tuple[str, ...]:
    """Name the differences of a mode from the ordinary mode, such as "FTZ" and "rounding up"."""
    if mode == ORDINARY_MODE:
        return ()
    named = _describe_x86(mode) if _IS_X86 else _describe_arm(mode) if _IS_ARM else []
    return tuple(named) or (f"mode {mode:#x}",)


def _describe_x86(mode: int) -> Iterator[str]:
    changed = mode ^ ORDINARY_MODE
    if changed & 0x6000:
        yield f"rounding {_ROUNDINGS[mode >> 13 & 3]}"
    if changed & 0x8000:
        yield "FTZ"
    if changed & 0x0040:
        yield "DAZ"
    if changed & 0x1F80:
        yield "exceptions trap"
    # A rounding of <cfenv> sets both units, so the x87 unit has a name only where it alone differs.
    x87 = mode >> 16
    if x87 >> 10 & 3 != mode >> 13 & 3:
        yield f"x87 rounding {_ROUNDINGS[x87 >> 10 & 3]}"
    if changed >> 16 & 0x0300:
        yield "x87 precision"
    if changed >> 16 & 0x003F and not changed & 0x1F80:
        yield "x87 exceptions trap"


def _describe_arm(mode: int) -> Iterator[str]:
    changed = mode ^ ORDINARY_MODE
    if changed & 0x00C00000:
        yield f"rounding {_ARM_ROUNDINGS[mode >> 22 & 3]}"
    if changed & 0x01000000:
        yield "FTZ"
    if changed & 0x00080000:
        yield "FTZ of float16"
    if changed & 0x02000000:
        yield "default NaN"
    if changed & 0x00009F00:
        yield "exceptions trap"
