"""Print what was published beside what is measured here, and whether it reproduces: all systems, or those named.

python benchmarks/published_figures.py [SYSTEM ...]
"""

import sys
from importlib import import_module
from pkgutil import iter_modules

import published
from published import Figure

MARKS = {True: "yes", False: "NO", None: ""}


def main() -> int:
    """Print one table a system."""
    known = sorted(module.name for module in iter_modules(published.__path__))
    unknown = set(sys.argv[1:]) - set(known)
    if unknown:
        print(f"no system {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    for name in sys.argv[1:] or known:
        system = import_module(f"published.{name}")
        show(name, system.__doc__.splitlines()[0], list(system.figures()))
    return 0


def show(name: str, about: str, figures: list[Figure]) -> None:
    """Print a table as wide as its widest cells."""
    lines = [Figure("figure", "published", "measured"), *figures]
    what, claimed, measured = (max(len(line[column]) for line in lines) for column in range(3))
    print(f"\n{name}: {about}")
    for line in lines:
        mark = "reproduces" if line is lines[0] else MARKS[line.reproduces]
        print(f"{line.what:<{what}}  {line.published:>{claimed}}  {line.measured:>{measured}}  {mark}".rstrip())


if __name__ == "__main__":
    sys.exit(main())
