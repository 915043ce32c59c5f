"""Where does the command `precreg` start?"""

from __future__ import annotations

import gc
import os
import sys
from errno import EPIPE
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any

# Python searches for garbage after so many new objects, and by default after 700. Commands keep most of their objects
# until they end: the first `precreg list` of 45 suites makes 70,000, and spent 7 % of its time on 28 searches.
NEW_OBJECTS = 100_000


def main() -> None:
    """Run the command line."""
    gc.set_threshold(NEW_OBJECTS)
    _open_streams()
    try:
        _run_command()
    except OSError as problem:  # stdout is a full disk, before a command has begun
        from precreg.errors import UserError

        print(UserError("operating-system", str(problem)), file=sys.stderr)
        sys.exit(2)
    finally:
        # Python's end would search all objects once more, and then frees them anyway.
        gc.freeze()


def compare_with_baseline() -> None:
    """Run `precreg compare_with_baseline` with the arguments of the command line."""
    sys.argv.insert(1, "compare_with_baseline")
    main()


def _run_command() -> None:
    # Editors and installers ask for the version often, so it answers before click is imported.
    if sys.argv[1:] == ["--version"]:
        from precreg import __version__

        print(f"precreg {__version__}", flush=True)
        return
    from precreg.cli.nothing_to_do import has_nothing_to_do

    if has_nothing_to_do(sys.argv[1:]):
        return
    from precreg.cli.main import precreg

    precreg(prog_name="precreg")


def _open_streams() -> None:
    """Open the standard streams that the caller closed, and those for output as `_Output`."""
    # A closed stream is None, and any print would fail. A case id may have any character, so others are escaped.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  (as long as the process)
        elif mode == "w":
            stream.reconfigure(errors="backslashreplace")
            setattr(sys, name, _guarded(stream))


def _guarded(stream: TextIOWrapper) -> TextIOWrapper:
    """Return a stream like a standard one that survives the end of its reader."""
    try:
        output = _Output(stream.fileno(), loses_errors=stream is sys.stderr)
    except OSError:  # a stream of a test or a notebook has no file
        return stream
    buffering = stream.line_buffering
    return TextIOWrapper(
        BufferedWriter(output), stream.encoding, stream.errors, line_buffering=buffering, write_through=buffering
    )


class _Output(FileIO):
    """Write to a standard stream until it fails, and to nothing from then on.

    A reader that leaves early (`precreg run | head`) takes neither the reports nor the exit code of a command along,
    because the verdict of a gate must not depend on its log. Other problems, such as a full disk, are raised once.
    """

    def __init__(self, descriptor: int, *, loses_errors: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._loses_errors = loses_errors

    def write(self, content: Any) -> int:
        """Write bytes, and return their number."""
        try:
            return super().write(content)
        except OSError as problem:
            # Python flushes its streams at exit, and would fail there again.
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno())
            os.close(nothing)
            # An error of stderr could be reported nowhere.
            if problem.errno != EPIPE and not self._loses_errors:
                raise
            return len(memoryview(content).cast("B"))


if __name__ == "__main__":
    main()
