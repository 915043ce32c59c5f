"""The index of cases: it may only ever answer as reading every suite would, and survives any damage."""

import contextlib
import itertools
import json
import os
import random
import shutil
import sys
import time
from multiprocessing import get_context

import pytest

from precreg.errors import UserError
from precreg.storage import SETTLED_NS, file_trail
from precreg.suite import index
from precreg.suite.expand import expand_suite, load_cases
from precreg.suite.index import CASES_INDEX, find_cases, project_cases
from precreg.suite.load import read_foundation, read_suite
from precreg.suite.select import Selection, select_cases
from precreg.tolerance import TOLERANCES_FILE
from precreg.tolerance.layers import THRESHOLDS_VARIABLE
from precreg.tolerance.pyramid import SHIPPED_LAYERS
from tests.e2e.command import ROOT
from tests.edits import text

PYTHON = """\
suite: python
subject: k:f
reference: pack.part:g
tags: [fast]
matrix: {dtype: [float16, float32], n: [1, 2, 3]}
inputs: {x: {shape: [$n], dtype: $dtype, file: {path: x.npy}}}
depends: [op.c, "../../native/**/*.c"]
cases: [{match: "float16*", tags: [half]}]
"""
RECORDED = """\
suite: recorded
files: {actual: 'outputs/{version}/*.npy', golden: 'golden/*.npy', benchmark: 'bench/{version}/*.npy'}
"""
TABLE = """\
suite: table
table: {file: sweep.csv, name: [variant], dtype: float32, metrics: {max_ulp: ulp}}
"""
DEVICE = """\
suite: device
subject: k:f
reference: k:f
inputs: {x: {shape: [2], dtype: float32, normal: {}}}
matrix: {device: [mine, cpu]}
device: $device
"""
NODES = "suite: nodes\nonnx_tests: {folder: node, include: [test_*]}\n"
INSTALLED = """\
suite: installed
subject: numpy:add
reference: numpy:add
inputs: {x: {shape: [2], dtype: float32, normal: {}}}
params: {axis: 0}
"""
PROGRAM = """\
suite: program
subject:
  command: ["{build}/op", x.bin, y.bin]
  inputs: {x: {file: x.bin}}
  outputs: {out: {file: y.bin, dtype: float32, shape: [2]}}
  build: {command: [cc, '{suite}/op.c', -o, '{build}/op'], sources: [op.c], produces: op}
reference: k:f
inputs: {x: {shape: [2], dtype: float32, normal: {}}}
"""
FILES = {
    "suites/unit/k.py": "def f(x=0, **others): ...\n",
    "suites/pack/__init__.py": "",
    "suites/pack/part.py": "def g(x, **others): ...\n",
    "suites/unit/x.npy": "",
    "suites/unit/op.c": "",
    "native/deep/a.c": "",
    "suites/unit/outputs/v1/a.npy": "",
    "suites/unit/bench/v1/a.npy": "",
    "suites/unit/golden/a.npy": "",
    "suites/unit/sweep.csv": "variant,ulp\na,1\nb,2\n",
    "suites/devices/mine.yaml": "about: mine\nlike: ascend\n",
    "suites/unit/node/test_add/model.onnx": "",
    "suites/unit/node/test_relu/model.onnx": "",
    "suites/tolerances.yaml": "default: {max_ulp: 1e9}\n",
    "README.md": "",
}
SUITES = {
    "python": PYTHON,
    "recorded": RECORDED,
    "table": TABLE,
    "device": DEVICE,
    "nodes": NODES,
    "installed": INSTALLED,
    "program": PROGRAM,
}


@pytest.fixture(autouse=True)
def _a_path_of_its_own(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv(THRESHOLDS_VARIABLE, raising=False)


@pytest.fixture
def settled(monkeypatch):
    """Read as if all files had been as they are for long: no test waits two seconds for them."""
    now = time.time_ns
    monkeypatch.setattr(index, "time_ns", lambda: now() + 10**10)


@pytest.fixture
def project(write, settled):
    folder = write(FILES, **SUITES)
    (folder / "suites/unit/kernels.py").unlink()
    return folder


def outcome(read, project):
    """Return what reading gives: all cases, or the error."""
    file_trail._find_on_path.cache_clear()
    try:
        return read(project)
    except UserError as error:
        return error.slug, error.message, error.file, error.line, error.hint


def by_index(project):
    known = project_cases(project)
    every = known.every()
    assert [(case.id, case.tier, case.suite, case.tags) for case in every] == known.listed
    return every


def number_read(project):
    """Return how many suites a command reads again that needs names alone."""
    return len(project_cases(project)._read)


def test_the_second_time_nothing_is_read_and_all_is_equal(project):
    plain = load_cases(project)
    assert len({case.id.split("/")[1] for case in plain}) == len(SUITES)
    assert by_index(project) == plain
    known = project_cases(project)
    assert known._read == {}
    assert by_index(project) == plain
    assert known.table_suites == {"unit/table"}


def test_the_shipped_suites_are_equal_by_both_roads(tmp_path, settled):
    shutil.copytree(ROOT / "suites", tmp_path / "suites", ignore=shutil.ignore_patterns("__pycache__"))
    plain = load_cases(tmp_path)
    assert by_index(tmp_path) == by_index(tmp_path) == plain
    assert number_read(tmp_path) == 0


def test_the_names_of_files_and_variables_are_those_of_other_modules():
    assert (index._TOLERANCES, index._THRESHOLDS) == (TOLERANCES_FILE, THRESHOLDS_VARIABLE)
    assert SHIPPED_LAYERS


@pytest.mark.parametrize("ids", [["unit/python/float16-n=2"], ["unit/table/a", "unit/recorded/v1-a"], []])
def test_some_cases_are_read_from_their_suites_alone(project, ids):
    project_cases(project)
    known = project_cases(project)
    assert known.cases(ids) == [case for case in load_cases(project) if case.id in ids]
    assert {file.split("/")[2] for file in known._read} <= {f"{id.split('/')[1]}.yaml" for id in ids}


@pytest.mark.parametrize("seed", range(20))
def test_any_rows_of_a_matrix_are_expanded_as_among_all(project, seed):
    choose = random.Random(seed)
    known, plain = project_cases(project), load_cases(project)
    for _ in range(5):
        ids = {case.id for case in choose.sample(plain, choose.randint(1, len(plain)))}
        assert project_cases(project).cases(ids) == known.cases(ids) == [case for case in plain if case.id in ids]


@pytest.mark.parametrize(
    "selection",
    [
        Selection(),
        Selection(patterns=("float16",)),
        Selection(tags=("half",)),
        Selection(suites=("unit/table",), patterns=("?",)),
        Selection(tiers=("unit",), patterns=("unit/*/a", "n=[12]")),
        Selection(patterns=("nothing",)),
        Selection(tags=("nothing",)),
        Selection(last_failed=frozenset({"unit/nodes/test_add"})),
    ],
)
def test_selections_find_the_same_cases_or_make_the_same_error(project, selection):
    plain = outcome(lambda place: select_cases(load_cases(place), selection), project)
    assert outcome(lambda place: find_cases(place, selection), project) == plain
    assert outcome(lambda place: find_cases(place, selection), project) == plain


def without(path):
    def remove(project):
        place = project / path
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)

    return remove


def moved(before, after):
    return lambda project: shutil.move(project / before, project / after) if (project / before).exists() else None


def linked(path, target):
    def edit(project):
        without(path)(project)
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).symlink_to(target)

    return edit


def same_size_and_time(project):
    """Change a table without a change of its size or its time of modification."""
    path = project / "suites/unit/sweep.csv"
    before = path.stat()
    path.write_text("variant,ulp\na,1\nc,2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


EDITS = [
    text("suites/unit/python.yaml", PYTHON.replace("[1, 2, 3]", "[1, 2, 4]")),
    text("suites/unit/python.yaml", PYTHON.replace("fast", "slow")),
    text("suites/unit/python.yaml", PYTHON + "nonsense: 1\n"),
    text("suites/unit/python.yaml", PYTHON.replace("k:f", "k:h")),
    text("suites/unit/python.yaml", "suite: [\n"),
    text("suites/unit/python.yaml", PYTHON.replace("suite: python", "suite: table")),
    text("suites/unit/more.yaml", INSTALLED.replace("installed", "more")),
    text("suites/model/sub/more.yml", INSTALLED.replace("installed", "more")),
    text("suites/unit/a_second.yaml", INSTALLED),
    text("suites/nowhere/more.yaml", INSTALLED),
    text("suites/more.yaml", INSTALLED),
    without("suites/unit/table.yaml"),
    moved("suites/unit/python.yaml", "suites/unit/z.yaml"),
    moved("suites/unit/python.yaml", "suites/unit/.hidden.yaml"),
    linked("suites/unit/link.yaml", "../../elsewhere.yaml"),
    text("suites/unit/k.py", "def h(x): ...\n"),
    text("suites/unit/k.py", "def f(y): ...\n"),
    text("suites/unit/k.py", "def f(x=0, **others): ...\nimport nothing\n"),
    without("suites/unit/k.py"),
    text("suites/unit/k/__init__.py", "def h(): ...\n"),
    text("suites/unit/pack/part.py", "def other(): ...\n"),
    text("suites/unit/pack.py", ""),
    without("suites/pack/part.py"),
    linked("suites/pack/part.py", "../../elsewhere.py"),
    text("suites/unit/numpy.py", "def add(x, axis): ...\n"),
    text("numpy/__init__.py", ""),
    text("numpy/other.py", ""),
    without("suites/unit/x.npy"),
    linked("suites/unit/x.npy", "/etc/hostname"),
    without("suites/unit/op.c"),
    without("native/deep/a.c"),
    moved("native/deep/a.c", "native/b.c"),
    text("suites/unit/outputs/v2/a.npy", ""),
    text("suites/unit/outputs/v1/b.npy", ""),
    text("suites/unit/golden/b.npy", ""),
    without("suites/unit/golden/a.npy"),
    without("suites/unit/bench/v1/a.npy"),
    text("suites/unit/bench/v2/a.npy", ""),
    linked("suites/unit/outputs/v1/a.npy", "../../golden/a.npy"),
    linked("suites/unit/outputs/v1/a.npy", "../../nothing.npy"),
    text("suites/unit/sweep.csv", "variant,ulp\na,1\nb,2\nc,3\n"),
    text("suites/unit/sweep.csv", "variant\na\n"),
    same_size_and_time,
    without("suites/unit/sweep.csv"),
    text("suites/devices/mine.yaml", "about: mine\nlike: nothing\n"),
    text("suites/devices/mine.yml", "about: mine\nlike: ascend\n"),
    text("suites/devices/other.yaml", "about: mine\nlike: ascend\n"),
    without("suites/devices/mine.yaml"),
    text("suites/unit/node/test_new/model.onnx", ""),
    text("suites/unit/node/other/model.onnx", ""),
    without("suites/unit/node/test_add"),
    without("suites/unit/node/test_add/model.onnx"),
    text("suites/tolerances.yaml", "default: {nothing: 1}\n"),
    text("suites/tolerances.yaml", "default: {max_ulp: 2}\n"),
    without("suites/tolerances.yaml"),
    linked("suites/tolerances.yaml", "nowhere"),
    moved("suites", "sweets"),
    text("README.md", "Text.\n"),
    text("suites/unit/unused.py", "import this\n"),
    text("reports/index.html", ""),
]


@pytest.mark.parametrize("edit", EDITS)
def test_after_an_edit_both_roads_give_the_same_each_time_and_again_after_it_is_undone(project, tmp_path_factory, edit):
    before = by_index(project)
    copy = tmp_path_factory.mktemp("copies") / "before"
    shutil.copytree(project / "suites", copy, symlinks=True)
    edit(project)
    plain = outcome(load_cases, project)
    assert outcome(by_index, project) == plain
    assert outcome(by_index, project) == plain
    shutil.rmtree(project / "suites", ignore_errors=True)
    for name in ("numpy", "native", "sweets"):
        shutil.rmtree(project / name, ignore_errors=True)
    text("native/deep/a.c", "")(project)
    shutil.copytree(copy, project / "suites", symlinks=True)
    assert by_index(project) == load_cases(project) == before


@pytest.mark.parametrize("seed", range(12))
def test_after_random_edits_both_roads_give_the_same(project, seed):
    choose = random.Random(seed)
    original = {path: (project / path).read_bytes() for path in [*FILES, *(f"suites/unit/{s}.yaml" for s in SUITES)]}
    for _ in range(12):
        if choose.random() < 0.4:  # repair something, or no later edit would matter behind a mistake
            for path, content in original.items():
                without(path)(project)
                (project / path).parent.mkdir(parents=True, exist_ok=True)
                (project / path).write_bytes(content)
        choose.choice(EDITS)(project)
        assert outcome(by_index, project) == outcome(load_cases, project)


@pytest.mark.parametrize(
    ("edit", "suites"),
    [
        (text("README.md", "Text.\n"), 0),
        (text("suites/unit/unused.py", "import this\n"), 0),
        (text("suites/unit/outputs/v2/b.txt", ""), 1),
        (text("suites/unit/sweep.csv", "variant,ulp\nz,1\n"), 1),
        (text("suites/unit/python.yaml", PYTHON + "seeds: 3\n"), 1),
        (text("suites/tolerances.yaml", "default: {max_ulp: 3}\n"), len(SUITES)),
        (text("suites/unit/k.py", "def f(x=0, **others): return x\n"), 3),
    ],
)
def test_only_the_suites_of_changed_files_are_read_again(project, edit, suites):
    by_index(project)
    edit(project)
    assert number_read(project) == suites
    assert number_read(project) == 0


def test_what_changed_just_now_is_read_again(write):
    project = write(FILES, **SUITES)
    assert number_read(project) == number_read(project) == len(SUITES)
    time.sleep(SETTLED_NS / 1e9 + 0.1)
    assert number_read(project) == len(SUITES)
    assert number_read(project) == 0
    text("suites/unit/python.yaml", PYTHON + "seeds: 3\n")(project)
    assert number_read(project) == number_read(project) == 1


def test_a_package_that_appears_or_vanishes_ends_it(project, tmp_path_factory):
    suite = INSTALLED.replace("installed", "other").replace("numpy:add", "outside:add")
    text("suites/unit/other.yaml", suite)(project)
    plain = outcome(load_cases, project)
    assert plain[0] == "missing-module"
    assert outcome(by_index, project) == outcome(by_index, project) == plain
    folder = tmp_path_factory.mktemp("packages")
    (folder / "outside.py").write_text("def add(): ...\n")
    sys.path.append(str(folder))
    cases = outcome(by_index, project)
    assert cases == outcome(by_index, project) == load_cases(project)
    sys.path.remove(str(folder))
    assert outcome(by_index, project) == plain


def test_a_suite_of_an_installed_kind_is_read_each_time(project, installed_kind):
    text("suites/unit/kind.yaml", installed_kind)(project)
    assert by_index(project) == load_cases(project)
    assert number_read(project) == number_read(project) == 1


@pytest.fixture
def installed_kind(tmp_path_factory):
    """Install a kind whose reading depends on a file that precreg does not know, and return a suite of it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "kind-1.dist-info").mkdir()
    (folder / "kind-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: kind\nVersion: 1\n")
    (folder / "kind-1.dist-info/entry_points.txt").write_text("[precreg.subjects]\nmykind = mykind_module:KIND\n")
    (folder / "mykind_module.py").write_text(
        "from precreg.subjects import Kind\nKIND = Kind(run='a:b', read=lambda *_: 1)\n"
    )
    sys.path.append(str(folder))
    return "suite: kind\nsubject: {mykind: 1}\nreference: k:f\n"


def test_thresholds_of_the_caller_are_read_plainly(project):
    by_index(project)
    environ = {THRESHOLDS_VARIABLE: '{"max_ulp": 1}'}
    assert project_cases(project, environ).every() == load_cases(project, environ) != load_cases(project)
    with pytest.raises(UserError, match="nothing"):
        project_cases(project, {THRESHOLDS_VARIABLE: '{"nothing": 1}'})
    assert number_read(project) == 0


def damages(data):
    """Yield an index that is truncated or changed at many places."""
    yield from (data[:size] for size in range(0, len(data), max(1, len(data) // 60)))
    for place in range(0, len(data), max(1, len(data) // 60)):
        yield data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    yield from (data + b"x", b"\0" * len(data), b"[" * 100_000, b"null", b"precreg-cases 4 1d41b76c\nnull")


def test_a_damaged_index_is_none(project):
    plain = by_index(project)
    data = (project / CASES_INDEX).read_bytes()
    for damaged in damages(data):
        (project / CASES_INDEX).write_bytes(damaged)
        assert index._read_index(project) == (None, {})
    assert by_index(project) == plain
    assert number_read(project) == 0


@pytest.mark.parametrize("key", ["schema", "precreg", "python", "project"])
def test_an_index_of_another_version_or_place_is_none(project, key):
    plain = by_index(project)
    _, _, body = (project / CASES_INDEX).read_bytes().partition(b"\n")
    stored = json.loads(body)
    stored["conditions"][key] = "other"
    stored["suites"][0][4][0] = "no such case"
    body = json.dumps(stored).encode()
    (project / CASES_INDEX).write_bytes(index._header(body) + b"\n" + body)
    assert by_index(project) == plain
    assert number_read(project) == 0


@pytest.mark.parametrize("content", ["null", "[]", "{}", '{"conditions": 1}', '"text"'])
def test_an_index_of_another_form_is_none(project, content):
    plain = by_index(project)
    (project / CASES_INDEX).write_bytes(index._header(content.encode()) + b"\n" + content.encode())
    assert by_index(project) == plain


def test_a_project_that_cannot_be_written_goes_without(project):
    (project / ".precreg").write_text("a file where the folder should be")
    assert by_index(project) == by_index(project) == load_cases(project)
    assert number_read(project) == len(SUITES)


def read_repeatedly(project, edits):
    """Read and edit in turn; return whether both roads ever differed."""
    now = time.time_ns
    index.time_ns = lambda: now() + 10**10
    return [len(project_cases(project).listed) for _ in range(edits)]


def test_processes_at_once_do_not_mix_their_indexes(project):
    number = len(load_cases(project))
    with get_context("spawn").Pool(3) as pool:
        found = pool.starmap(read_repeatedly, [(project, 15)] * 3)
    assert {*itertools.chain(*found)} == {number}
    assert by_index(project) == load_cases(project)


def test_reading_notes_everything_that_it_looks_at(project, monkeypatch):
    """Every path in the project that reading a suite asks the file system about is in its trail."""
    asked, scanned = set(), set()

    def watched(function, into):
        def ask(path=".", *others, **named):
            into.add(os.path.abspath(os.fspath(path)) if not isinstance(path, int) else "/")
            return function(path, *others, **named)

        return ask

    for name, into in (("stat", asked), ("lstat", asked), ("open", asked), ("scandir", scanned), ("listdir", scanned)):
        monkeypatch.setattr(os, name, watched(getattr(os, name), into))
    files = index._suite_files(project)
    for file in files:
        asked.clear()
        scanned.clear()
        with contextlib.suppress(UserError):
            expand_suite(read_suite(project / file, project, read_foundation(project, {})), project)
        seen, listed = {*asked}, {*scanned}
        fresh, _ = index._read_changed(project, {}, [file])
        steps = dict(fresh.listed[0].steps) | dict(fresh.foundation)
        inside = {path.removeprefix(f"{project}/") for path in seen | listed if path.startswith(f"{project}/")}
        assert inside, file
        unknown = {path for path in inside if path not in steps and not is_known_to_miss(project, path, steps)}
        assert unknown == set(), file
        names = {path.removeprefix(f"{project}/") for path in listed if path.startswith(f"{project}/")}
        assert {path for path in names if steps.get(path) is not None and len(steps[path]) < 5} == set(), file


def is_known_to_miss(project, path, steps):
    """Return whether a path is missing below a missing step, or in a folder whose names are in the trail."""
    folder = path.rpartition("/")[0]
    is_listed = steps.get(folder) is not None and len(steps[folder]) == 5
    above = [path[:place] for place, letter in enumerate(path) if letter == "/"]
    return any(steps.get(step, 0) is None for step in above) or (is_listed and not (project / path).exists())
