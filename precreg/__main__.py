"""The command `precreg`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; `precreg --version` answers before anything is imported."""
    if sys.argv[1:] == ["--version"]:
        from precreg import __version__

        print(f"precreg {__version__}")
        return
    from precreg.cli.main import precreg

    precreg(prog_name="precreg")


if __name__ == "__main__":
    main()
