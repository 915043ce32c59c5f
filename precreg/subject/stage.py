"""What is a worker doing, so that its parent can say so after the worker's death?

A worker writes its stage into memory that it shares with its parent. A process that computes cases without a parent
shares nothing, and writes nowhere.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
from enum import IntEnum
from mmap import mmap
from struct import Struct
from typing import NamedTuple


class Activity(IntEnum):
    """The steps of a case at one seed, in their order. OTHER is before the first one and between two cases."""

    OTHER = 0
    DRAWING = 1
    SUBJECT = 2
    REFERENCE = 3
    GOLDEN = 4
    MEASURING = 5
    BENCHMARK = 6


class Stage(NamedTuple):
    """A step of a case: `importing` is True while it imports the user's module, and `repeat` is 0 without repeats."""

    activity: Activity
    importing: bool
    seed: int
    repeat: int


_ACTIVITIES = {
    Activity.DRAWING: "drawing the inputs",
    Activity.SUBJECT: "running the subject",
    Activity.REFERENCE: "running the reference",
    Activity.GOLDEN: "running the golden",
    Activity.MEASURING: "measuring the outputs",
    Activity.BENCHMARK: "running the benchmark",
}


def describe_stage(stage: Stage) -> str:
    """Write the stage of a case: "running the subject, seed 3, repeat 2"."""
    doing = _ACTIVITIES[stage.activity]
    if stage.importing:
        doing = f"importing the module, before {doing}"
    repeat = f", repeat {stage.repeat}" if stage.repeat else ""
    return f"{doing}, seed {stage.seed}{repeat}"


_LAYOUT = Struct("<BBqI")
STAGE_BYTES = _LAYOUT.size
# The place of `importing`, which changes alone.
_IMPORTING = 1

# A process works for one parent at most. Without one the memory is its own.
_shared: mmap | bytearray = bytearray(STAGE_BYTES)


def stage_file() -> int:
    """Return a descriptor of a new file for stages. On Linux no subject can cut it off."""
    if sys.platform != "linux" or not hasattr(os, "memfd_create"):
        with tempfile.TemporaryFile() as file:
            os.ftruncate(file.fileno(), STAGE_BYTES)
            return os.dup(file.fileno())
    # Writing a stage beyond the file's end would kill the worker.
    descriptor = os.memfd_create("precreg-stage", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, STAGE_BYTES)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return descriptor


def share_stage(descriptor: int) -> None:
    """Write stages into this file from now on; it has STAGE_BYTES bytes at least."""
    global _shared
    _shared = mmap(descriptor, STAGE_BYTES)
    os.close(descriptor)


def enter_stage(activity: Activity, seed: int = 0, repeat: int = 0) -> None:
    """Note that a step begins."""
    _LAYOUT.pack_into(_shared, 0, activity, False, seed, repeat)


def mark_import(importing: bool) -> None:
    """Note that the import of the user's module begins or ends; the step stays the same."""
    _shared[_IMPORTING] = importing


def read_stage(descriptor: int) -> Stage | None:
    """Return the stage that a file has; None before the first step, and for bytes that are no stage."""
    return _stage(os.pread(descriptor, STAGE_BYTES, 0))


def present_stage() -> Stage | None:
    """Return the last stage that this process, or one that it forked, entered."""
    return _stage(bytes(_shared[:STAGE_BYTES]))


def _stage(written: bytes) -> Stage | None:
    if len(written) < STAGE_BYTES:
        return None
    activity, importing, seed, repeat = _LAYOUT.unpack(written)
    # A subject can write anything into the memory of its process.
    if activity == Activity.OTHER or activity not in list(Activity) or importing > 1:
        return None
    return Stage(Activity(activity), bool(importing), seed, repeat)
