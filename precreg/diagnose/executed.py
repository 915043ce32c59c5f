"""Which functions of some files does a computation run?"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

from precreg.subject import current_watch


@contextmanager
def note_functions(root: Path, files: Sequence[str]) -> Iterator[set[str]]:
    """Collect the functions that run in the block, as "file.py:function"; `files` are relative to a folder.

    An inner function counts as its outermost one. Without files nothing is watched.
    """
    found: set[str] = set()
    if not files:
        yield found
        return
    names = {os.path.realpath(root / name): name for name in files}
    seen: set[CodeType] = set()

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        if code in seen:
            return
        seen.add(code)
        name = names.get(os.path.realpath(code.co_filename))
        if name is not None:
            found.add(f"{name}:{code.co_qualname.partition('.<locals>')[0]}")

    # A trace that gives no function for the lines sees calls of Python alone, and a profile also sees calls of C.
    before, of_threads = sys.gettrace(), threading.gettrace()
    threading.settrace(note)
    sys.settrace(note)
    _accept_settings()
    try:
        yield found
    finally:
        sys.settrace(before)
        threading.settrace(of_threads)
        _accept_settings()


def _accept_settings() -> None:
    # The watch of a worker would take the trace for one that the import of a subject left, and put it back.
    watch = current_watch()
    if watch is not None:
        watch.refresh()
