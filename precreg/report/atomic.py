"""Files that are either the old ones or the new ones, whatever kills the process in between."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from precreg.errors import UserError


def write(path: Path, content: str | bytes) -> None:
    """Replace a file in one step, and make its folder; text is written as UTF-8 with the newlines it has.

    Raises:
        UserError: not-writable.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(data)
            os.replace(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    except OSError as problem:
        message = f"expected to write the file but got: {problem.strerror or problem}"
        raise UserError("not-writable", message, file=str(path)) from problem
