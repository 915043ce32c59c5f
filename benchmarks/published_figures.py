"""Print what was published beside what is measured here, and whether it reproduces: all systems, or those named.

python benchmarks/published_figures.py [SYSTEM ...]
"""

import sys
from importlib import import_module
from pkgutil import iter_modules

import published
from published import Figure

BAR = r"\|"
MARKS = {True: "yes", False: "NO", None: ""}


def main() -> int:
    """Print one table a system."""
    asked = [argument for argument in sys.argv[1:] if argument != "--markdown"]
    known = sorted(module.name for module in iter_modules(published.__path__))
    unknown = set(asked) - set(known)
    if unknown:
        print(f"no system {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    show = in_markdown if "--markdown" in sys.argv else in_columns
    for name in asked or known:
        system = import_module(f"published.{name}")
        show(name, system.__doc__.splitlines()[0], list(system.figures()))
    return 0


def in_columns(name: str, about: str, figures: list[Figure]) -> None:
    """Print a table as wide as its widest cells."""
    lines = [Figure("figure", "published", "measured"), *figures]
    what, claimed, measured = (max(len(line[column]) for line in lines) for column in range(3))
    print(f"\n{name}: {about}")
    for line in lines:
        mark = "reproduces" if line is lines[0] else MARKS[line.reproduces]
        print(f"{line.what:<{what}}  {line.published:>{claimed}}  {line.measured:>{measured}}  {mark}".rstrip())


def in_markdown(name: str, about: str, figures: list[Figure]) -> None:
    """Print a table of what has been published, and of what was measured beside it."""
    print(f"\n`{name}`: {about}\n\n| figure | published | measured | reproduces |\n|---|---|---|---|")
    for figure in figures:
        cells = (figure.what, figure.published, figure.measured, MARKS[figure.reproduces])
        print("|" + "".join(f" {cell.replace('|', BAR)} |" if cell else " |" for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
