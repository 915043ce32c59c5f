"""What was published about numerical precision, measured by plain scripts: one module a system.

Each module says in its docstring what it is about, and has `figures()`, which yields a Figure for each claim. They are
written in plain numpy, fractions and mpmath, apart from the shipped kernels and from precreg, so that what the
suites are held to does not come from what they test. Those of docs/systems-formats.md are the exception: they compare
publications with precreg's own formats, which tests/arithmetic compares with rational arithmetic and other libraries.
benchmarks/published_figures.py finds the modules and prints their tables.
"""

from typing import NamedTuple


class Figure(NamedTuple):
    """One line of a table: what was claimed, what is measured here, and whether the claim is true.

    `published` is empty where nobody claimed anything, and `reproduces` is None where there is nothing to reproduce.
    """

    what: str
    published: str
    measured: str
    reproduces: bool | None = None
