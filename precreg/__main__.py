"""Where does the command `precreg` start?"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line."""
    _open_streams()
    # Editors and installers ask for the version often, so it answers before click is imported.
    if sys.argv[1:] == ["--version"]:
        from precreg import __version__

        print(f"precreg {__version__}")
        return
    from precreg.cli.main import precreg

    precreg(prog_name="precreg")


def _open_streams() -> None:
    """Open the standard streams that the caller closed, and escape characters that their encodings lack."""
    # A closed stream is None, and any print would fail. A case id may have any character.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  (as long as the process)
        elif mode == "w":
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
