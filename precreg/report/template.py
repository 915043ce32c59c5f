"""Where are the templates of pages, and how does jinja2 compile them once?

Compiling takes 52 to 73 ms of processor time for the page of a run. So compiled templates stay where Python keeps the
compiled modules of their folder. Code never comes from a project's folder, which may hold files of a stranger.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Environment

TEMPLATES_FOLDER = Path(__file__).parent / "templates"


# Kept, because jinja2 reads a template once for each environment.
@cache
def page_templates() -> Environment:
    """Return the environment of jinja2 in which pages are rendered: every value is escaped unless it is Markup."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES_FOLDER),
        autoescape=True,
        # A misspelled name in a template fails a test, and does not leave a gap in the page.
        undefined=StrictUndefined,
        bytecode_cache=_compiled_templates(TEMPLATES_FOLDER),
    )


def _compiled_templates(folder: Path) -> BytecodeCache | None:
    """Return the cache of compiled templates; None where Python writes no compiled modules, or cannot write them."""
    import jinja2
    from jinja2.bccache import Bucket, FileSystemBytecodeCache

    if sys.dont_write_bytecode:
        return None
    compiled = Path(cache_from_source(str(folder / "page.py"))).parent
    try:
        compiled.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None

    class Compiled(FileSystemBytecodeCache):
        """Keep compiled templates, if the disk takes them."""

        def dump_bytecode(self, bucket: Bucket) -> None:
            with suppress(OSError):
                super().dump_bytecode(bucket)

    # jinja2 compares source and Python's version, and another version of jinja2 may compile to other code.
    return Compiled(str(compiled), f"{jinja2.__version__}-%s.template")
