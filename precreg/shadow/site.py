"""Which line of the user's code runs an operation?"""

from __future__ import annotations

import linecache
from functools import lru_cache

from precreg.arithmetic import is_library_file, user_frame
from precreg.types import Site


def user_site(module: str = "", depth: int = 1) -> Site:
    """Return the place of the nearest user's line, and the module or node that runs it.

    A thread of a pool that calls a function of numpy has no such line, and so has a subject that is one.
    """
    frame = user_frame(depth + 1)
    if is_library_file(frame.f_code.co_filename):
        return Site(module=module)
    return _site(frame.f_code.co_filename, frame.f_lineno, module)


# A computation has few lines and many operations. Equal code objects may come from two files.
@lru_cache(maxsize=4096)
def _site(file: str, line: int, module: str) -> Site:
    return Site(file, line, linecache.getline(file, line).strip(), module)
