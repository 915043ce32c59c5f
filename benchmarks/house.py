"""Print figures of the code base: its modules, names, words and comments, and the code that one case runs.

The script reads the source of a checkout and imports nothing of precreg, so it measures any version. house_run.py then
watches `precreg run CASE` in a temporary copy of the project. Build the compiled cores of each checkout first, because
the numpy backend enters other functions.
Usage: python benchmarks/house.py [--checkout DIR] [--beside DIR] [--json] [--static] [--case CASE] [--judge NAME]
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import ceil
from pathlib import Path
from statistics import median
from typing import NamedTuple

from house_run import CASE, JUDGES, PACKAGE, Figures, run_figures

PROSE = {
    "precreg and main pages": ("precreg", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"),
    "docs": ("docs",),
    "tests": ("tests",),
}
PATTERNS = {
    "what is/was/a/the/it ...": r"\b[Ww]hat (is|are|was|were|has|it|a|an|the|they|no)\b",
    "told, tell": r"\b(told|tells?)\b",
    "is said/asked/held": r"\b(is|are|was|were|be) (said|asked|held|looked)\b",
    "of which, that of": r"\b(of which|that of|those of)\b",
    "stands beside/in": r"\bstands?\b",
    "no more, is no, is none": r"\b(no more|is none|is no)\b",
    "private words": r"\b(alike|elsewhere|chance|hop|guards?|crept|creeping|mend(ed)?|spoiled)\b",
    "begins with What/Whether/...": r"(^\s*(#|-|\"{3}|[rf]?\")?\s*|[.!?] )(What|Whether|Who|How)\b",
}
READ = re.compile(r'"|#|^\s*[A-Z][a-z]+ .* .* ')  # lines of Python that people read: docstrings, comments, messages
UNCOUNTED = re.compile(r"#\s*(noqa|type:|pragma)|#!")  # comments for tools

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Module(NamedTuple):
    """A module of the package: its dotted name, its path below the package, its text and its syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The folder or loose module at the top of the package that holds this module."""
        return self.path.parts[0].removesuffix(".py")


def modules(checkout: Path) -> list[Module]:
    """Read all modules of the package."""
    found = []
    for path in sorted((checkout / PACKAGE).rglob("*.py")):
        below = path.relative_to(checkout / PACKAGE)
        parts = [part for part in below.with_suffix("").parts if part != "__init__"]
        text = path.read_text(encoding="utf-8")
        found.append(Module(".".join([PACKAGE, *parts]), below, text, ast.parse(text)))
    return found


def sizes(checkout: Path, house: list[Module]) -> Figures:
    """Count modules, their lines, and the folders that they are in."""
    lines = [len(module.text.splitlines()) for module in house]
    # A folder of C++ alone is a room; one with bytecode alone is left over from a move.
    files = [path.relative_to(checkout / PACKAGE).parts for path in (checkout / PACKAGE).rglob("*.*") if path.is_file()]
    rooms = {parts[0] for parts in files if len(parts) > 1 and not parts[-1].endswith((".pyc", ".so"))}
    return {
        "modules": len(house),
        "lines": sum(lines),
        "lines of a module, median": median(lines),
        "lines of a module, maximum": max(lines),
        "loose modules": sum(len(module.path.parts) == 1 for module in house),
        "rooms (top-level folders)": len(rooms),
        "packages": sum(module.path.name == "__init__.py" for module in house),
    }


def imports(node: ast.AST, run_time: bool = False) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports below a node, in functions too; `run_time` leaves out `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif run_time and isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            yield from imports(ast.Module(child.orelse, []), run_time)
        # No expression has an import, and three in four nodes of precreg are in expressions.
        elif not isinstance(child, ast.expr):
            yield from imports(child, run_time)


def imported(module: Module, names: Iterable[str], run_time: bool = False) -> set[str]:
    """Return the modules among `names` that a module imports: by name, as a member of a package, or a name in them."""
    known, found = set(names), set()
    package = module.name.split(".") if module.path.name == "__init__.py" else module.name.split(".")[:-1]
    for node in imports(module.tree, run_time):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        base = package[: len(package) - node.level + 1] if node.level else []
        source = ".".join([*base, *([node.module] if node.module else [])])
        members = {f"{source}.{alias.name}" for alias in node.names}
        found |= members & known or {source}
    return found & known - {module.name}


def largest_circle(graph: dict[str, set[str]]) -> int:
    """Return the number of modules in the largest import circle, or 0."""
    reach = {name: reachable(graph, name) for name in graph}
    circles = [sum(name in reach[other] for other in reach[name]) for name in graph if name in reach[name]]
    return max(circles, default=0)


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return all nodes on a path that begins at `start`; `start` itself only if a circle leads back to it."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(graph[name])
    return found


def arrows(house: list[Module]) -> Figures:
    """Count the pairs of rooms that import each other's modules, and the modules in the largest circle."""
    rooms = {module.name: module.room for module in house}
    folders = {module.room for module in house if len(module.path.parts) > 1}
    pairs = {(module.room, rooms[name]) for module in house for name in imported(module, rooms)}
    pairs = {pair for pair in pairs if pair[0] != pair[1]}
    graph = {module.name: imported(module, rooms, run_time=True) for module in house}
    return {
        "arrows between rooms": sum(set(pair) <= folders for pair in pairs),
        "arrows between rooms and loose modules": len(pairs),
        "modules in the largest import circle": largest_circle(graph),
    }


def names(house: list[Module]) -> Figures:
    """Count the public top-level functions and classes that several packages, or modules, define."""
    packages, files = defaultdict(set), defaultdict(set)
    for module in house:
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                packages[node.name].add(module.path if len(module.path.parts) == 1 else module.path.parent)
                files[node.name].add(module.path)
    repeated = sum(len(found) > 1 for found in files.values())
    return {
        "public names in several packages": sum(len(found) > 1 for found in packages.values()),
        "public names in several modules": repeated,
        "public names in several modules, %": 100 * repeated / max(1, len(files)),
    }


def public(tree: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Yield the public functions, classes and methods of a module or a class."""
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node)


def functions(house: list[Module]) -> Figures:
    """Measure the length of functions from `def` to their last line, and count docstrings of public items."""
    nodes = [node for module in house for node in ast.walk(module.tree)]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    lengths = sorted((node.end_lineno or 0) - node.lineno + 1 for node in nodes if isinstance(node, kinds)) or [0]
    documented = [ast.get_docstring(item) is not None for module in house for item in public(module.tree)] or [True]
    return {
        "lines of a function, median": median(lengths),
        "lines of a function, 90th percentile": lengths[ceil(0.9 * len(lengths)) - 1],
        "lines of a function, maximum": lengths[-1],
        "public items documented, %": 100 * sum(documented) / len(documented),
    }


def comments(house: list[Module]) -> Figures:
    """Count # comments for people by 100 lines; a comment of two lines counts twice."""
    count = lines = 0
    for module in house:
        tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
        found = [token.string for token in tokens if token.type == tokenize.COMMENT]
        count += sum(not UNCOUNTED.match(text) for text in found)
        lines += len(module.text.splitlines())
    return {"# comments per 100 lines": 100 * count / max(1, lines)}


def prose(path: Path) -> list[str]:
    """Return the lines of a file that people read: all of a page, and of Python those that look like text."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines if path.suffix == ".md" else [line for line in lines if READ.search(line)]


def words(checkout: Path) -> Figures:
    """Count the lines with each pattern per 1,000 words of prose, in each group of files."""
    figures: Figures = {}
    for group, places in PROSE.items():
        files = {path for place in places for path in (checkout / place).rglob("*")} | {checkout / p for p in places}
        texts = [prose(path) for path in sorted(files) if path.is_file() and path.suffix in {".md", ".py"}]
        lines = [line for text in texts for line in text]
        total = sum(len(line.split()) for line in lines)
        figures[f"{group}: words"] = total
        for label, pattern in PATTERNS.items():
            found = sum(re.search(pattern, line) is not None for line in lines)
            figures[f"{group}: {label}, per 1,000 words"] = 1000 * found / max(1, total)
    return figures


def figures(checkout: Path, case: str, judges: Iterable[str], static: bool) -> Figures:
    """Measure one checkout; `static` leaves out the run."""
    house = modules(checkout)
    parts = [sizes(checkout, house), arrows(house), names(house), functions(house), comments(house), words(checkout)]
    parts += [] if static else [run_figures(checkout, case, judges)]
    return {name: value for part in parts for name, value in part.items()}


def commit(checkout: Path) -> str:
    """Return the short commit of a checkout, with a + if its files differ from it, or nothing without git."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True).stdout.strip()


def shown(value: float | None) -> str:
    """Write a figure: a count as it is, a ratio with two decimals, an unknown figure as a dash."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"


def table(columns: list[tuple[str, Figures]]) -> str:
    """Lay out one line for each figure and one column for each checkout."""
    rows = list(dict.fromkeys(name for _, column in columns for name in column))
    left, wide = max(map(len, rows)), max(len(title) for title, _ in columns)
    cells = [["", *(title for title, _ in columns)], *([row, *(shown(c.get(row)) for _, c in columns)] for row in rows)]
    return "\n".join(f"{row:{left}}" + "".join(f" {text:>{max(wide, 9)}}" for text in line) for row, *line in cells)


def main() -> None:
    """Print the figures of one checkout or two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, default=Path(__file__).parents[1], metavar="DIR")
    parser.add_argument("--beside", type=Path, metavar="DIR", help="a second checkout for a second column")
    parser.add_argument("--json", action="store_true", help="print a list with an object for each checkout")
    parser.add_argument("--static", action="store_true", help="read the source only, and run no case")
    parser.add_argument("--case", default=CASE, help="the shipped case to run (default: %(default)s)")
    parser.add_argument("--judge", action="append", metavar="MODULE:NAME", help="the call that judges one outcome")
    chosen = parser.parse_args()
    checkouts = [path.resolve() for path in (chosen.checkout, chosen.beside) if path is not None]
    judges = chosen.judge or JUDGES
    columns = [(commit(path) or path.name, figures(path, chosen.case, judges, chosen.static)) for path in checkouts]
    print(json.dumps([{"commit": c, "figures": f} for c, f in columns], indent=2) if chosen.json else table(columns))


if __name__ == "__main__":
    main()
