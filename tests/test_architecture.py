"""The rules of the house, read from the source: who may import whom, what is imported late, how long things get."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "precreg"

LEVELS = (
    ("errors",),
    ("types",),
    ("storage", "environment"),
    ("arithmetic",),
    ("subject",),
    ("measure",),
    ("tolerance",),
    ("verdict",),
    ("suite",),
    ("vcs",),
    ("baseline",),
    ("history",),
    ("run",),
    ("quality",),
    ("report",),
    ("comparison",),
    ("pytest_plugin",),
    ("cli", "api"),
    ("__main__", "__init__"),
)
"""From the bottom up; a room imports from lower levels and from itself, never from a neighbour."""

LATE = {"numpy", "ml_dtypes", "git", "jinja2", "junit_xml", "rich", "pytest", "torch", "sqlalchemy", "matplotlib"}
"""Imported inside the function that needs them, except in the rooms that work on arrays in worker processes."""

ON_ARRAYS = {"api", "arithmetic", "comparison", "measure", "quality", "run", "storage", "subject", "suite"}

ON_DATABASES = {"history"}
"""The commands that read a history import this room late, and nothing else does."""

IN_PYTEST = {"pytest_plugin"}
"""pytest itself loads this room, which imports its own modules late: numpy comes with the first case or check."""

MODULES = sorted(PACKAGE.rglob("*.py"))
RANK = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}


def named(module):
    parts = module.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts


def imports(tree):
    """Yield the dotted names that a tree imports, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a thing comes from"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(tree):
    return {tuple(name.split(".")[1:]) for name in imports(tree) if name.startswith("precreg.")}


def parse(module):
    return ast.parse(module.read_text(encoding="utf-8"))


def test_every_module_lives_in_a_known_room():
    assert {named(module)[0] for module in MODULES} <= set(RANK)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: ".".join(named(module)))
def test_imports_run_downward(module):
    room = named(module)[0]
    for name in ours(parse(module)):
        if name[0] in RANK and name[0] != room:
            assert RANK[name[0]] < RANK[room], f"{room} imports {'.'.join(name)}, which is not below it"


def test_no_circle_of_modules():
    known = {named(module): module for module in MODULES}
    graph = {
        name: {imported for imported in ours(parse(module)) if imported in known} - {name}
        for name, module in known.items()
    }
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: ".".join(named(module)))
def test_heavy_imports_are_late(module):
    if named(module)[0] in ON_ARRAYS | ON_DATABASES | IN_PYTEST:
        return
    top = [node for node in parse(module).body if isinstance(node, ast.Import | ast.ImportFrom)]
    heavy = {name.split(".")[0] for name in imports(ast.Module(top, []))} & LATE
    assert not heavy, f"{module.name} imports {heavy} at its top"


@pytest.mark.parametrize(
    "name", ["precreg.cli.main", "precreg.report.describe", "precreg.verdict.judge", "precreg.suite.load"]
)
def test_what_starts_every_command_brings_no_numpy(name):
    code = f"import sys, {name}; print(sorted({LATE!r} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


def test_version_imports_nothing_of_others():
    code = "import sys; sys.argv = ['precreg', '--version']\nfrom precreg.__main__ import main; main()\n"
    code += "print({name.split('.')[0] for name in sys.modules} & {'click', 'msgspec', 'yaml', 'numpy'} or 'nothing')"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[1] == "nothing"


def test_showing_bits_of_a_format_brings_no_numpy():
    code = "import sys, atexit; sys.argv = ['precreg', 'bits', '1.12', '--format', 'fp16', '--format', 'e5m2_sat']\n"
    code += f"atexit.register(lambda: print(sorted({LATE!r} & set(sys.modules))))\n"
    code += "from precreg.__main__ import main; main()"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "to float16, nearest_even" in shown
    assert shown.splitlines()[-1] == "[]"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: ".".join(named(module)))
def test_a_module_and_its_functions_can_be_seen_whole(module):
    assert len(module.read_text(encoding="utf-8").splitlines()) <= 500
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 45, f"{node.name} is too long to see whole"


def test_no_drawers():
    forbidden = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
    assert not forbidden & {part for module in MODULES for part in named(module)}
