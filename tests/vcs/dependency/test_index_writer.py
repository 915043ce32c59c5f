"""The index of dependencies: it may only ever say "nothing touched" where reading every suite would say so, too."""

import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import lazy_loader
import pytest

from precreg.errors import UserError
from precreg.storage import file_trail, libraries_linked
from precreg.storage.file_trail import SETTLED_NS
from precreg.suite.expand import expand_suite, load_cases
from precreg.suite.load import load_suites
from precreg.tolerance.layers import THRESHOLDS_VARIABLE
from precreg.vcs.dependency import affected_cases, forget_searches
from precreg.vcs.dependency_index import (
    INDEX_FILE,
    INDEXED_VARIABLE,
    no_case_affected,
)
from precreg.vcs.index_writer import load_cases_and_index, write_index
from tests.e2e.command import ROOT, git, repository
from tests.edits import text
from tests.vcs.dependency.elf import library

KERNEL = """\
import numpy
import near, linked
from pack import part
from dirlink.table import x
WEIGHTS = __file__ / "data" / "w.npy"
LIBRARY = "libop.so"
def f(x): ...
def g(x): ...
"""
FILES = {
    "suites/unit/k.py": KERNEL,
    "suites/unit/near.py": "import far\n",
    "suites/pack/__init__.py": "",
    "suites/pack/part.py": "",
    "shared/one.py": "import lib.one\n",
    "shared/two.py": "import lib.two\n",
    "tables1/table.py": "import lib.one\n",
    "tables2/table.py": "import lib.two\n",
    "lib/one.py": "",
    "lib/two.py": "",
    "far.py": "",
    "setup.py": "",
    "suites/unit/x.npy": "",
    "suites/unit/data/w.npy": "",
    "suites/unit/outputs/v1/a.npy": "",
    "suites/unit/golden/a.npy": "",
    "suites/unit/golden/b.npy": "",
    "suites/unit/op.c": "",
    "native/deep/a.c": "",
    "suites/unit/libop.so": library(["libdeep.so", "libnone.so"], "$ORIGIN/deps"),
    "suites/unit/deps/libdeep.so": library(["libone.so"], "$ORIGIN/../more"),
}
SUITE = """\
suite: s
subject: k:f
reference: k:g
inputs: {x: {shape: [2], dtype: float32, file: {path: x.npy}}}
depends: [op.c, "../../native/**/*.c"]
"""
RECORDED = "suite: r\nfiles: {actual: 'outputs/{version}/*.npy', golden: 'golden/*.npy'}\n"
HIDDEN = ("suites/near.py", "pack/part.py", "near.py", "shared/lib.py")
"""Not there, and not looked for, because another file is found first."""

ABSENT = (
    "suites/unit/near/__init__.py",
    "suites/unit/pack.py",
    "suites/unit/pack/part.py",
    "suites/far.py",
    "suites/unit/far/__init__.py",
    "lib/one/__init__.py",
    "suites/unit/float32",
    "suites/unit/outputs/v1/b.npy",
    "suites/unit/outputs/v2/a.npy",
    "suites/unit/golden/c.npy",
    "data/w.npy",
    "suites/tolerances.yaml",
    "suites/unit/sub/t.yaml",
    "suites/model/.hidden/t.yml",
    "suites/unit/numpy.py",
    "suites/unit/near.so",
    "suites/unit/deps/libnone.so",
    "suites/unit/more/libone.so",
)
MATCHED = ("native/new.c", "native/deep/more/new.c")
UNMATCHED = ("native/new.h", "native.c")
EVERY = sorted(
    {
        *FILES,
        *ABSENT,
        *HIDDEN,
        *MATCHED,
        *UNMATCHED,
        "suites/unit/s.yaml",
        "suites/unit/r.yaml",
        "suites/unit/linked.py",
        "unknown.py",
    }
)


@pytest.fixture
def project(write):
    folder = write(FILES, s=SUITE, r=RECORDED)
    (folder / "suites/unit/kernels.py").unlink()
    (folder / "suites/unit/linked.py").symlink_to("../../shared/one.py")
    (folder / "suites/unit/dirlink").symlink_to("../../tables1")
    return folder


@pytest.fixture(autouse=True)
def _a_path_of_its_own(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv(THRESHOLDS_VARIABLE, raising=False)


def forget():
    """Begin as a new process would."""
    forget_searches()
    for cached in (libraries_linked, file_trail._find_on_path):
        cached.cache_clear()
    importlib.invalidate_caches()


def remembered(project):
    """Write the index as if all files had been as they are for long, and let the clock of the file system tick."""
    forget()
    suites = load_suites(project)
    write_index(
        project, suites, [case for suite in suites for case in expand_suite(suite, project)], time.time_ns() + 10**10
    )
    assert (project / INDEX_FILE).exists()
    time.sleep(0.01)
    return project


def untouched(project, *changed):
    forget()
    return no_case_affected(project, set(changed))


def truly_untouched(project):
    """Return, of all paths, those on which no case depends; none where a suite cannot be read."""
    forget()
    try:
        cases = load_cases(project)
    except UserError:
        return set()
    return {path for path in EVERY if not affected_cases(cases, {path}, project)}


def test_it_tells_what_is_touched_as_reading_does(project):
    remembered(project)
    truth = truly_untouched(project)
    assert {path for path in EVERY if untouched(project, path)} == truth
    assert {"setup.py", "unknown.py", "lib/two.py", "shared/two.py", *UNMATCHED} <= truth < set(EVERY)
    assert truth.isdisjoint(MATCHED)
    assert untouched(project, *truth)
    assert not untouched(project, *truth, "lib/one.py")


def without(path):
    return lambda project: (project / path).unlink()


def moved(before, after):
    return lambda project: shutil.move(project / before, project / after)


def linked(path, target):
    def edit(project):
        (project / path).unlink(missing_ok=True)
        (project / path).symlink_to(target)

    return edit


def behind_a_link(project):
    shutil.move(project / "suites/pack", project / "elsewhere")
    (project / "suites/pack").symlink_to("../elsewhere")


def same_size_and_time(project):
    path = project / "suites/unit/near.py"
    before = path.stat()
    path.write_text("import lib\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize(
    "edit",
    [
        text("suites/unit/near.py", "import far, lib.two\n"),
        same_size_and_time,
        without("far.py"),
        text("suites/unit/libop.so", "other"),
        text("suites/unit/deps/libdeep.so", "other"),
        text("suites/unit/s.yaml", SUITE + "seeds: 2\n"),
        text("suites/unit/x.npy", "other"),
        moved("suites/unit/s.yaml", "suites/unit/z.yaml"),
        moved("suites/unit/s.yaml", "suites/unit/.hidden.yml"),
        behind_a_link,
        linked("suites/unit/linked.py", "../../shared/two.py"),
        linked("suites/unit/dirlink", "../../tables2"),
        linked("suites/unit/near.py", "../../far.py"),
        lambda project: (project / "suites/unit/outputs/v2").mkdir(),
        text("suites/unit/outputs/v1/without_golden.npy", ""),
        *(text(path, "") for path in ABSENT),
    ],
)
def test_it_holds_no_more_after_an_edit(project, edit):
    remembered(project)
    assert untouched(project, "setup.py")
    edit(project)
    assert not untouched(project, "setup.py")


@pytest.mark.parametrize(
    "edit",
    [
        text("setup.py", "import this\n"),
        text("suites/unit/unused.py", "import this\n"),
        text("suites/unit/__pycache__/k.pyc", ""),
        text("suites/networks/README.md", "Text.\n"),
        text("reports/index.html", ""),
        *(text(path, "import this\n") for path in HIDDEN),
    ],
)
def test_it_holds_whatever_happens_beside_the_cases(project, edit):
    remembered(project)
    edit(project)
    assert untouched(project, "setup.py", "suites/unit/unused.py")


def test_a_link_that_a_suite_names_as_recorded_output(project):
    text("suites/unit/old.npy", "")(project)
    linked("suites/unit/new.npy", "old.npy")(project)
    suite = "suite: f\nsubject: {files: new.npy}\ngolden: {files: x.npy}\n"
    text("suites/unit/f.yaml", suite)(project)
    remembered(project)
    assert untouched(project, "setup.py")
    linked("suites/unit/new.npy", "x.npy")(project)
    assert not untouched(project, "setup.py")


def test_a_package_that_appears_ends_it(project, tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    sys.path.append(str(site))
    (project / "suites/unit/near.py").write_text("try:\n    import precreg_appears\nexcept ImportError:\n    pass\n")
    remembered(project)
    assert untouched(project, "setup.py")
    (site / "precreg_appears.py").touch()
    assert not untouched(project, "setup.py")
    remembered(project)
    assert untouched(project, "setup.py")
    sys.path.remove(str(site))
    assert not untouched(project, "setup.py")


def test_a_source_folder_that_is_installed_ends_it(project):
    text("src/pack/new.py", "")(project)
    text("src/lib/one.py", "")(project)
    remembered(project)
    sys.path.insert(0, str(project / "src"))
    assert not untouched(project, "src/lib/one.py")


def random_edit(chance, project):
    """Change one thing, of any kind; what is changed need not make sense."""
    path = project / chance.choice(EVERY)
    importing = "".join(f"import {name}\n" for name in chance.sample(("near", "far", "lib.one", "pack.part", "k2"), 2))
    kinds = [
        lambda: text(path, chance.choice(("", importing, KERNEL, SUITE, "default: {rtol: 0.1}\n")))(project),
        lambda: text(f"suites/unit/{chance.choice(('near', 'k2', 'linked'))}.py", importing)(project),
        lambda: text("suites/unit/k.py", importing + KERNEL)(project),
        lambda: path.unlink(missing_ok=True),
        lambda: shutil.rmtree(path.parent if path.parent != project else project / "lib"),
        lambda: linked("suites/unit/linked.py", f"../../shared/{chance.choice(('one', 'two', 'none'))}.py")(project),
        lambda: linked("suites/unit/dirlink", f"../../tables{chance.choice('123')}")(project),
        lambda: text("suites/unit/sub/t.yaml", SUITE.replace("suite: s", f"suite: t{chance.random()}"))(project),
        lambda: moved("suites/unit/s.yaml", "suites/unit/s2.yaml")(project),
        lambda: git(project, "checkout", "-q", "-f", chance.choice(("main", "other"))),
        lambda: git(project, "clean", "-q", "-f", "-d"),
    ]
    try:
        chance.choice(kinds)()
    except OSError:  # a file where a folder should be, or nothing to move
        return


@pytest.mark.parametrize("seed", range(4))
def test_after_random_edits_it_never_hides_what_reading_would_tell(project, seed):
    chance = random.Random(seed)
    text(".gitignore", ".precreg/\n")(project)
    repository(project)
    git(project, "checkout", "-q", "-b", "other")
    text("suites/unit/k.py", "import k2\n" + KERNEL)(project)
    text("suites/unit/k2.py", "import lib.two\n")(project)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "other")
    held = 0
    for _ in range(25):
        for _ in range(chance.choice((1, 1, 2))):
            random_edit(chance, project)
        found = {path for path in EVERY if untouched(project, path)}
        truth = truly_untouched(project)
        assert found <= truth
        held += bool(found)
        if not truth:
            git(project, "checkout", "-q", "-f", "main")
            git(project, "clean", "-q", "-f", "-d")
        remembered(project)
    assert held > 0


def test_what_changed_just_now_is_not_trusted(project):
    load_cases_and_index(project)
    assert not (project / INDEX_FILE).exists()


def test_what_is_settled_is(project):
    forget()
    suites = load_suites(project)
    cases = [case for suite in suites for case in expand_suite(suite, project)]
    newest = max(path.lstat().st_ctime_ns for path in (project, *project.rglob("*")))
    write_index(project, suites, cases, newest + SETTLED_NS)
    assert not (project / INDEX_FILE).exists()
    write_index(project, suites, cases, newest + SETTLED_NS + 1)
    assert untouched(project, "setup.py")


@pytest.mark.parametrize(("mode", "expected"), [(0o1777, True), (0o777, False)])
def test_other_programs_may_write_beside_a_dependency_in_a_shared_folder(project, tmp_path_factory, mode, expected):
    shared = tmp_path_factory.mktemp("shared")
    shared.chmod(mode)
    shutil.copytree(project / "tables1", shared / "tables")
    (project / "suites/unit/dirlink").unlink()
    (project / "suites/unit/dirlink").symlink_to(shared / "tables")
    forget()
    suites = load_suites(project)
    cases = [case for suite in suites for case in expand_suite(suite, project)]
    newest = max(path.lstat().st_ctime_ns for path in (project, *project.rglob("*"), *shared.rglob("*")))
    time.sleep(0.01)
    (shared / "of another program").touch()
    write_index(project, suites, cases, newest + SETTLED_NS + 1)
    assert (project / INDEX_FILE).exists() == expected


def test_other_programs_may_write_into_a_folder_above_the_project(project):
    """A dependency beside the project is reached through this folder, in which other sessions make theirs."""
    beside = project.parent / "tables"
    shutil.copytree(project / "tables1", beside)
    (project / "suites/unit/dirlink").unlink()
    (project / "suites/unit/dirlink").symlink_to(beside)
    forget()
    suites = load_suites(project)
    cases = [case for suite in suites for case in expand_suite(suite, project)]
    newest = max(path.lstat().st_ctime_ns for path in (project, *project.rglob("*"), *beside.rglob("*")))
    time.sleep(0.01)
    (project.parent / "of another program").touch()
    write_index(project, suites, cases, newest + SETTLED_NS + 1)
    assert (project / INDEX_FILE).exists()


def test_a_suite_that_appears_while_the_others_are_read_is_not_forgotten(project):
    suites = load_suites(project)
    cases = [case for suite in suites for case in expand_suite(suite, project)]
    text("suites/model/late.yaml", SUITE)(project)
    write_index(project, suites, cases, time.time_ns() + 10**10)
    assert not (project / INDEX_FILE).exists()


def test_a_baseline_and_thresholds_from_outside_are_never_answered(project):
    remembered(project)
    assert not untouched(project, "baselines/generic/unit/s.json")
    assert no_case_affected(project, {"setup.py"}, {})
    assert not no_case_affected(project, {"setup.py"}, {INDEXED_VARIABLE: "{}"})
    assert INDEXED_VARIABLE == THRESHOLDS_VARIABLE


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '"text"', "{}", "[" * 100_000, "\0"])
def test_a_damaged_index_is_none(project, damage):
    remembered(project)
    (project / INDEX_FILE).write_text(damage)
    assert not untouched(project, "setup.py")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("conditions", {}),
        ("dependencies", 3),
        ("paths", []),
        ("paths", {"far.py": 3}),
        ("paths", {"a\0b": [1, 2]}),
        ("packages", {"numpy": [1]}),
        ("packages", 3),
        ("patterns", 3),
        ("patterns", [3]),
        ("kinds", 3),
        ("kinds", {"nowhere": []}),
    ],
)
def test_an_index_of_another_form_is_none(project, key, value):
    remembered(project)
    index = json.loads((project / INDEX_FILE).read_text())
    (project / INDEX_FILE).write_text(json.dumps(index | {key: value}))
    assert not untouched(project, "setup.py")


DEVICE = "about: a device of this project\nlike: cpu\n"


def test_a_device_of_the_project_is_no_suite_and_counts_as_one(project):
    text("suites/devices/mine.yaml", DEVICE)(project)
    text("suites/unit/d.yaml", SUITE.replace("suite: s", "suite: d") + "device: mine\n")(project)
    remembered(project)
    assert untouched(project, "setup.py")
    assert not untouched(project, "suites/devices/mine.yaml")
    text("suites/devices/mine.yaml", f"{DEVICE}# changed\n")(project)
    assert not untouched(project, "setup.py")
    remembered(project)
    text("suites/devices/other.yaml", DEVICE)(project)
    assert not untouched(project, "setup.py")


def test_a_project_that_was_moved_has_none(project):
    remembered(project)
    place = project.rename(project.with_name("moved"))
    assert not untouched(place, "setup.py")
    assert untouched(place.rename(project), "setup.py")


def test_a_project_that_cannot_be_written_goes_without(project):
    (project / ".precreg").write_text("a file where the folder should be")
    forget()
    suites = load_suites(project)
    cases = [case for suite in suites for case in expand_suite(suite, project)]
    write_index(project, suites, cases, time.time_ns() + 10**10)
    assert not untouched(project, "setup.py")


def test_names_that_no_file_system_takes_do_no_harm(project):
    text("suites/unit/near.py", f"A = 'a' / {'b' * 300!r} / 'x.npy'\nB = '../..///x.npy'\n")(project)
    remembered(project)
    assert untouched(project, "setup.py")


def test_links_in_a_circle_end(project):
    linked("suites/unit/linked.py", "linked.py")(project)
    remembered(project)
    assert untouched(project, "setup.py")


def test_asking_it_imports_nothing_that_reads_suites():
    heavy = {"yaml", "msgspec", "numpy", "git", "precreg.suite.load", "precreg.storage.python_source"}
    code = f"import sys, precreg.vcs.dependency_index\nprint({heavy} & set(sys.modules))"
    # Rooms load their modules by lazy_loader, which -S would not find: it keeps other packages' start-up files out.
    environ = {**os.environ, "PYTHONPATH": str(Path(lazy_loader.__file__).parent.parent)}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environ)
    assert done.stdout == "set()\n"
