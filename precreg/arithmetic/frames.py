"""Which frame of the user's code calls a function of a library?"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.util import find_spec
from types import FrameType

# Code of these packages computes on behalf of the user's line. Their folders are known without importing them.
_LIBRARIES = ("numpy", "torch", "ml_dtypes", "onnxruntime", "onnx", "precreg", "click")
_CONSOLE_SCRIPT = f"{os.sep}bin{os.sep}precreg"
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


def user_frame(depth: int = 1) -> FrameType:
    """Return the nearest frame outside precreg, numpy, torch and the standard library, from `depth` callers up.

    If every frame lies inside of them, return the outermost one.
    """
    frame = sys._getframe(depth)
    while frame.f_back is not None and is_library_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@lru_cache(maxsize=4096)
def is_library_file(file: str) -> bool:
    """Return whether a file of code belongs to numpy, torch, precreg and the like, or to Python."""
    # Code that a library generates has no file, such as "<__array_function__ internals>".
    if file.startswith("<"):
        return not file.startswith(("<ipython", "<stdin", "<string"))
    if file.endswith(_CONSOLE_SCRIPT):
        return True
    if file.startswith(_STANDARD_LIBRARY) and f"{os.sep}site-packages{os.sep}" not in file:
        return True
    return file.startswith(_library_folders())


@lru_cache(maxsize=1)
def _library_folders() -> tuple[str, ...]:
    found = (find_spec(name) for name in _LIBRARIES)
    return tuple(folder + os.sep for spec in found if spec for folder in spec.submodule_search_locations or ())
