"""How does a template become a page, with its styles and scripts in it?

Compiling takes 52 to 73 ms of processor time for the page of a run. So compiled templates stay where Python keeps the
compiled modules of their folder. Code never comes from a project's folder, which may hold files of a stranger.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precreg.report.describe import strip_controls

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Environment
    from markupsafe import Markup

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


def render_template(name: str, values: Mapping[str, Any]) -> str:
    """Fill a template of a page; every value is escaped unless it is Markup. Control characters are dropped."""
    return strip_controls(page_templates().get_template(name).render(values))


def page_style(*names: str) -> Markup:
    """Return style sheets as one, for the style element of a page."""
    from markupsafe import Markup

    return Markup(_joined(*names))


def page_script(*names: str) -> dict[str, str]:
    """Return the scripts of a page, after the functions of all pages, and the digest for the page's policy."""
    from markupsafe import Markup

    script = _joined("elements.js", *names)
    # The page opens from file://, where no server sends a policy. So its meta element names the only script that may
    # run.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"script": Markup(script), "script_digest": digest}


def _joined(*names: str) -> str:
    """Return the text of several templates, one after the other."""
    return "".join((TEMPLATES_FOLDER / name).read_text(encoding="utf-8") for name in names)
