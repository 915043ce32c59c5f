"""The rules of the house, read from the source: who imports whom, by which door, how late; how long things get.

`python -m tests.test_architecture` prints the picture and the table of the rooms that CONTRIBUTING.md shows.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from precreg.measure.metrics import METRICS

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "precreg"

# From the ground up, a line a room. A room imports from the rooms above its line in this list, and from itself.
ROOMS = (
    "errors",
    "types",
    "storage",
    "environment",
    "arithmetic",
    "subject",
    "measure",
    "tolerance",
    "verdict",
    "suite",
    "vcs",
    "baseline",
    "history",
    "run",
    "shadow",
    "diagnose",
    "training",
    "quantization",
    "quality",
    "report",
    "comparison",
    "pytest_plugin",
    "cli",
    "api",
    "subjects",
    "__main__",
    "__init__",
)

# precreg/ itself holds no other modules: everything else has a room.
LOOSE = {"errors", "api", "subjects", "__main__", "__init__"}

# A function imports these when it needs them. Each of them costs more than a whole command that does without it.
LATE = {"numpy", "ml_dtypes", "git", "jinja2", "junit_xml", "rich", "pytest", "torch", "sqlalchemy", "matplotlib"}

# Workers, and commands on arrays, import these modules late; they work on arrays themselves, so numpy is at their top.
ON_ARRAYS = {
    "api",
    "arithmetic",
    "comparison",
    "diagnose",
    "measure",
    "quality",
    "quantization",
    "run.case_run",
    "run.computation",
    "run.oracle",
    "run.oracle_calls",
    "run.oracle_process",
    "run.promotion",
    "run.worker",
    "shadow",
    "storage.array_file",
    "storage.array_stream",
    "storage.npy",
    "storage.safetensors",
    "storage.tensor_proto",
    "storage.torch_file",
    "subject",
    "suite.capture.arguments",
    "suite.capture.calls",
    "suite.inputs",
    "training",
}

# The commands that read a history import this room late, and nothing else does.
ON_DATABASES = {"history"}

# pytest itself loads this room, which imports its own modules late: numpy comes with the first case or check.
IN_PYTEST = {"pytest_plugin"}

MODULES = sorted(PACKAGE.rglob("*.py"))
RANK = {room: level for level, room in enumerate(ROOMS)}
MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 45
MAX_MODULES = 740

# Values that a run or a comparison finds. report/ writes their sentences.
FACTUAL = {"Finding", "RunFinding", "Verdict", "IntegrityChange", "PairedRun"}


def dotted(module):
    """Return the name of a module below precreg: `storage.npy`, and `storage` for its `__init__`."""
    parts = module.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def package_of(module):
    """Return the package that a module lies in: its door is the package's `__init__`."""
    return ".".join(module.relative_to(PACKAGE).parent.parts)


@cache
def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def statements(node):
    """Yield all nodes below a node apart from expressions, in which three in four nodes of precreg are."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from statements(child)


@cache
def imports(tree):
    """Return (module, name) of what a tree imports, inside functions too; name is None for `import module`."""
    found = []
    for node in statements(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a thing comes from"
            found += [(node.module, alias.name) for alias in node.names]
    return found


@cache
def ours(module):
    """Return what a module imports from precreg as (module below precreg, name)."""
    found = {(name, imported) for name, imported in imports(parse(module)) if name.split(".")[0] == "precreg"}
    return {(name.partition(".")[2], imported) for name, imported in found}


def doors():
    """Return, by package, the names that its `__init__.pyi` exports and the modules that define them."""
    found = {}
    for stub in PACKAGE.rglob("__init__.pyi"):
        package = ".".join(stub.relative_to(PACKAGE).parent.parts)
        lines = [node for node in parse(stub).body if isinstance(node, ast.ImportFrom)]
        found[package] = {alias.asname: node.module for node in lines for alias in node.names}
    return found


DOORS = doors()
NAMES = {dotted(module): module for module in MODULES}


def imported_module(name, imported):
    """Return the module below precreg that an import takes its name from, through the door if it is one."""
    if imported in DOORS.get(name, {}):
        return ".".join(filter(None, (name, DOORS[name][imported])))
    inner = ".".join(filter(None, (name, imported)))
    return inner if inner in NAMES else name


def arrows():
    """Return, by room, the rooms that its modules import from."""
    found = defaultdict(set)
    for module in MODULES:
        room = dotted(module).partition(".")[0]
        for name, imported in ours(module):
            target = imported_module(name, imported).partition(".")[0]
            if room not in LOOSE and target in RANK and target not in LOOSE | {room}:
                found[room].add(target)
    return found


def picture():
    """Draw the rooms from the ground up, each with the rooms that it imports from."""
    found = arrows()
    rooms = [room for room in ROOMS if room not in LOOSE]
    width = max(map(len, rooms))
    lines = [f"{room:{width}}  <- {', '.join(sorted(found[room], key=RANK.get)) or '-'}" for room in rooms]
    return "\n".join(lines)


def table():
    """List the rooms from the ground up, each with the question and the remarks of its docstring."""
    rows = ["| room | question | in short |", "|---|---|---|"]
    for room in ROOMS:
        if room not in LOOSE:
            question, _, remarks = ast.get_docstring(parse(PACKAGE / room / "__init__.py")).partition("\n\n")
            rows.append(f"| `{room}/` | {question} | {' '.join(remarks.split())} |")
    return "\n".join(rows)


def test_every_module_has_a_room():
    assert {dotted(module).partition(".")[0] for module in MODULES} == set(ROOMS)
    assert {path.stem for path in PACKAGE.glob("*.py")} == LOOSE
    assert len(MODULES) <= MAX_MODULES, "join two modules before another one is added"


def test_the_folders_of_tests_mirror_the_rooms():
    """A room's tests are in a folder of its name; those of a package or a large module, in a folder below it."""
    folders = {path.relative_to(TESTS) for path in TESTS.rglob("*") if path.is_dir() and any(path.glob("test_*.py"))}
    of_rooms = {path for path in folders if path.parts[0] in RANK}
    assert {path.parts[0] for path in of_rooms} == set(ROOMS) - LOOSE
    for path in of_rooms:
        assert (PACKAGE / path).is_dir() or (PACKAGE / path).with_suffix(".py").exists(), f"tests/{path} has no room"


# A test of all modules is one item: an item of pytest for each module costs more than its check.
def test_imports_run_downward():
    for module in MODULES:
        room = dotted(module).partition(".")[0]
        for name, imported in ours(module):
            target = imported_module(name, imported).partition(".")[0]
            if target in RANK and target != room and module != PACKAGE / "__init__.py" and imported != "__version__":
                assert RANK[target] < RANK[room], f"{dotted(module)} imports {name}.{imported}, which is not below it"


def test_a_room_is_entered_by_its_door():
    for module in MODULES:
        package = package_of(module)
        for name, imported in ours(module):
            home = name if name in DOORS else name.rpartition(".")[0]
            if home in ("", package) or package.startswith(f"{home}.") or module.name == "__main__.py":
                continue
            message = f"{dotted(module)} imports {imported}, which precreg.{home} does not export"
            assert name == home, message
            assert imported in DOORS.get(home, {}), message


def test_a_door_exports_what_another_room_uses():
    used = defaultdict(set)
    others = (path for folder in ("benchmarks", "suites") for path in (PACKAGE.parent / folder).rglob("*.py"))
    for path in [*MODULES, *others]:
        package = package_of(path) if path in MODULES else None
        for name, imported in imports(parse(path)):
            if name != f"precreg.{package}":
                used[name].add(imported)
    for package, door in DOORS.items():
        public = {name for name, module in DOORS[""].items() if module.startswith(f"{package}.")}
        if package:
            unused = set(door) - used[f"precreg.{package}"] - public
            assert not unused, f"precreg.{package} exports {unused}, which no other room uses"
        for name, module in door.items():
            assert name != module.rpartition(".")[2], f"a module of this name takes the place of {package}.{name}"


@pytest.mark.parametrize("room", [room for room in ROOMS if room not in LOOSE])
def test_a_room_states_its_question(room):
    text = ast.get_docstring(parse(PACKAGE / room / "__init__.py"))
    assert text.splitlines()[0].endswith("?") or room == "pytest_plugin"


def test_no_circle_of_modules():
    graph = {
        dotted(module): {imported_module(*one) for one in ours(module)} & set(NAMES) - {dotted(module)}
        for module in MODULES
        if module.name != "__init__.py"
    }
    TopologicalSorter(graph).prepare()


def test_a_public_name_has_one_meaning():
    defined = defaultdict(set)
    for module in MODULES:
        for node in parse(module).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].add(dotted(module))
    assert {name: where for name, where in defined.items() if len(where) > 1} == {}


@pytest.mark.parametrize("shown", [picture, table])
def test_the_house_is_as_the_contributors_page_shows_it(shown):
    page = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    print(shown())
    assert f"\n\n{shown()}\n\n" in page.replace("```text", "").replace("```", "")
    assert page.count("```") % 2 == 0, "a block of the page is not closed"


def said(pattern, *kinds):
    """Return what the sources of some kinds say in a pattern's groups, in order."""
    sources = [path for kind in kinds for path in PACKAGE.rglob(kind)]
    return sorted({found for source in sources for found in re.findall(pattern, source.read_text(encoding="utf-8"))})


def test_sources_name_files_that_exist():
    files = said(r"(?<![\w/.])(?:benchmarks|precreg|tests)/[\w/.-]+\.\w+", "*.py", "*.?pp")
    assert "precreg/measure/tally.py" in files
    assert [file for file in files if not (PACKAGE.parent / file).is_file()] == []


def test_what_a_core_says_is_in_a_module_stands_there():
    names = said(r"(\w+) in (precreg/[\w/]+\.py)", "*.?pp")
    assert ("Sketch", "precreg/measure/tally.py") in names
    texts = {file: (PACKAGE.parent / file).read_text(encoding="utf-8") for _, file in names}
    assert [(name, file) for name, file in names if not re.search(rf"\b{name}\b", texts[file])] == []


def test_heavy_imports_are_late():
    for module in MODULES:
        name = dotted(module)
        if any(name == known or name.startswith(f"{known}.") for known in ON_ARRAYS | ON_DATABASES | IN_PYTEST):
            continue
        top = [node for node in parse(module).body if isinstance(node, ast.Import | ast.ImportFrom)]
        heavy = {imported.split(".")[0] for imported, _ in imports(ast.Module(top, []))} & LATE
        assert not heavy, f"{name} imports {heavy} at its top"


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


def test_reading_the_shipped_suites_brings_neither_numpy_nor_an_extra():
    code = "import sys; from pathlib import Path; from precreg.suite import load_cases\n"
    code += f"load_cases(Path({str(PACKAGE.parent)!r}))\n"
    code += "print(sorted({'numpy', 'torch', 'onnx', 'onnxruntime', 'pyarrow', 'mpmath'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


SUITE_OF_NUMPY = """suite: doubled
about: twice an array
category: arithmetic
subject: numpy:add
inputs:
  x: {shape: [4], dtype: float32, normal: {}}
  y: {shape: [4], dtype: float32, normal: {}}
reference: numpy:add
"""


@pytest.mark.parametrize("words", [["list"], ["run", "--jobs", "0", "doubled"]])
def test_listing_and_running_a_suite_of_numpy_bring_no_shadow_and_no_extra(tmp_path, words):
    (tmp_path / "suites/unit").mkdir(parents=True)
    (tmp_path / "suites/unit/doubled.yaml").write_text(SUITE_OF_NUMPY)
    code = f"import sys, atexit; sys.argv = ['precreg', *{words!r}]\n"
    code += "extras = {'precreg.shadow', 'torch', 'onnx', 'onnxruntime', 'pyarrow', 'mpmath'}\n"
    code += "atexit.register(lambda: print(sorted(extras & set(sys.modules))))\n"
    code += "from precreg.__main__ import main; main()"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "unit/doubled" in ran.stdout, ran.stderr
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_module_and_its_functions_can_be_seen_whole():
    for module in MODULES:
        assert len(module.read_text(encoding="utf-8").splitlines()) <= MAX_MODULE_LINES, dotted(module)
        for node in ast.walk(parse(module)):
            if isinstance(node, ast.FunctionDef):
                lines = node.end_lineno - node.lineno
                assert lines < MAX_FUNCTION_LINES, f"{dotted(module)}: {node.name} is too long to see whole"


def spaced_texts(tree):
    """Yield the texts with a space, also inside f-strings, apart from docstrings and messages of errors."""
    aside = [node.value if isinstance(node, ast.Expr) else node for node in ast.walk(tree) if is_aside(node)]
    ignored = {id(node) for each in aside for node in ast.walk(each)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in ignored)
    yield from (node.value for node in constants if isinstance(node.value, str) and " " in node.value)


def is_aside(node):
    """Tell whether a node is a docstring or an error."""
    return isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def test_a_verdict_has_facts_and_no_words():
    units = {metric.unit for metric in METRICS.values()}
    for module in MODULES:
        if dotted(module).startswith("verdict"):
            words = set(spaced_texts(parse(module))) - units
            assert not words, f"{dotted(module)} has {words}, and report/ alone writes sentences"


def test_a_finding_is_made_of_facts():
    """Below report/ the fields of messages stay empty, or quote an error."""
    for module in MODULES:
        if RANK[dotted(module).partition(".")[0]] >= RANK["report"]:
            continue
        for node in ast.walk(parse(module)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FACTUAL:
                words = [*spaced_texts(node), *(each for each in ast.walk(node) if isinstance(each, ast.JoinedStr))]
                place = f"{dotted(module)}, line {node.lineno}"
                assert not words, f"{place}: {node.func.id} gets words, and report/ alone writes sentences"


def test_no_drawers():
    forbidden = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
    assert not forbidden & {part for module in MODULES for part in dotted(module).split(".")}


if __name__ == "__main__":
    print(picture(), table(), sep="\n\n")
