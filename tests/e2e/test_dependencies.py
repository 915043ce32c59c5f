"""Dependencies of all kinds: declared ones, named ones, linked ones, and changed files that no case knows."""

import subprocess
import sys
import time

import pytest

from precreg.storage import SETTLED_NS
from precreg.vcs.dependency_index import INDEX_FILE
from tests.e2e.command import change, environ, git, precreg, repository, started, with_suite
from tests.e2e.pushes import accepted, commit, guarded, project, push
from tests.vcs.dependency.elf import library

__all__ = ["accepted", "guarded", "project"]

# The kind runs a file whose name it puts together, so that no text of the project names it.
KIND = """\
from time import perf_counter

from precreg.subject import Dependencies, Outputs, name_outputs


def run(spec, call):
    path = call.directory / f"{spec}.kernel"
    space = {}
    exec(path.read_text(), space)
    started = perf_counter()
    return Outputs(name_outputs(space["kernel"](**call.inputs)), perf_counter() - started)


def depends(spec, folder):
    assert (folder / f"{spec}.kernel").exists()
    return Dependencies(files=[f"{spec}.kernel"])
"""
DECLARED = "[precreg.dependencies]\nscripted = our_kind:depends\n"
KERNEL = "def kernel(x):\n    return x * 2\n"
SUITE = """\
suite: scripted
subject: {scripted: fast}
reference: k:exact
inputs:
  x: {shape: [64, 16], dtype: float32, normal: {mean: 0, std: 1}}
tolerance: {rtol: 1e-2}
"""


@pytest.fixture
def kind(tmp_path):
    """Return a function that lays the package of the kind out, as pip would, and gives the variables that find it."""
    folder = tmp_path / "site"

    def lay_out(declared="", text=KIND):
        info = folder / "our_kind-1.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (folder / "our_kind.py").write_text(text)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-kind\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[precreg.subjects]\nscripted = our_kind:run\n{declared}")
        return {"PYTHONPATH": str(folder)}

    return lay_out


@pytest.fixture
def scripted(guarded, kind):
    """The guarded project with one more suite, of the installed kind, accepted and pushed."""
    variables = kind()
    unit = guarded / "suites" / "unit"
    (unit / "scripted.yaml").write_text(SUITE)
    (unit / "fast.kernel").write_text(KERNEL)
    assert precreg(guarded, "run", "--jobs", "0", **variables).returncode == 2
    done = precreg(guarded, "baseline", "accept", "--all", "--reason", "first", **variables)
    assert done.returncode == 0, done.stderr
    commit(guarded, "a suite more")
    git(guarded, "push", "-q", "--no-verify", "origin", "main")
    return guarded


def listed(project, **variables):
    done = precreg(project, "list", "--changed-since", "HEAD", **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("declared", ["", DECLARED])
def test_a_regression_in_the_kernel_of_an_installed_kind_is_found(scripted, kind, declared):
    variables = kind(declared)
    change(scripted / "suites/unit/fast.kernel", "x * 2", "(x.astype('float16') * 2).astype(x.dtype)")
    done = precreg(scripted, "run", "--changed-since", "HEAD", "--jobs", "0", **variables)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED   unit/scripted/default   regressed" in done.stdout
    commit(scripted, "a wider loss")
    passed, text = push(scripted, **variables)
    assert not passed
    assert "1 of 3 cases before the push of" in text
    assert "FAILED   unit/scripted/default   regressed" in text


def test_a_declaration_selects_and_nothing_declared_always_selects(scripted, kind):
    (scripted / "setup.py").write_text("import nothing\n")
    assert listed(scripted, **kind()) == ["unit/scripted/default"]
    assert listed(scripted, **kind(DECLARED)) == []
    (scripted / "setup.py").unlink()
    (scripted / "README.md").write_text("Other words.\n")
    assert listed(scripted, **kind()) == [], "documents never matter"


def test_the_index_holds_with_a_declaration_and_is_not_written_without_one(scripted, kind):
    time.sleep(SETTLED_NS / 1e9 + 0.1)  # the index covers no younger file
    (scripted / "setup.py").write_text("import nothing\n")
    precreg(scripted, "run", "--changed-since", "HEAD", **kind())
    assert not (scripted / INDEX_FILE).exists()
    variables = kind(DECLARED)
    time.sleep(SETTLED_NS / 1e9 + 0.1)
    precreg(scripted, "run", "--changed-since", "HEAD", **variables)
    assert (scripted / INDEX_FILE).exists()
    change(scripted / "suites/unit/fast.kernel", "x * 2", "x + x")
    done = precreg(scripted, "run", "--changed-since", "HEAD", "--jobs", "0", **variables)
    assert "1 case," in done.stdout, done.stdout + done.stderr
    git(scripted, "checkout", "-q", "suites")
    # The package without its declaration: from now on the case depends on every file.
    done = precreg(scripted, "run", "--changed-since", "HEAD", "--jobs", "0", **kind())
    assert "1 case," in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("body", "received"),
    [
        ("return folder / missing", "our_kind:depends raised NameError: name 'missing' is not defined"),
        ("raise SystemExit(3)", "our_kind:depends raised SystemExit: 3"),
        ("return ['a.c']", "our_kind:depends returned ['a.c']"),
        ("return Dependencies(files='a.c')", "our_kind:depends returned Dependencies("),
        ("return Dependencies(files=[folder])", "our_kind:depends returned Dependencies("),
    ],
)
def test_a_declaration_that_fails_is_a_clear_error(scripted, kind, body, received):
    variables = kind(DECLARED, f"{KIND.partition('    assert')[0]}    {body}\n")
    change(scripted / "suites/unit/fast.kernel", "x * 2", "x + x")
    done = precreg(scripted, "run", "--changed-since", "HEAD", **variables)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "error[bad-dependencies]" in done.stderr
    assert received in done.stderr


def test_two_declarations_of_one_kind_are_a_clear_error(scripted, kind):
    variables = kind(DECLARED)
    info = scripted.parent / "site" / "other_kind-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-kind\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[precreg.dependencies]\nscripted = other_kind:depends\n")
    change(scripted / "suites/unit/fast.kernel", "x * 2", "x + x")
    done = precreg(scripted, "list", "--changed-since", "HEAD", **variables)
    assert "expected one declaration for kind=scripted but got other_kind:depends and our_kind:depends" in done.stderr


@pytest.fixture
def native(tmp_path):
    """A project of one suite whose kernels come from sources that no text names."""
    suite = "suite: s\nsubject: k:same\nreference: k:same\ndepends: [op.c, '../../src/**/*.h', ../../deps]\n"
    with_suite(tmp_path, suite, "def same():\n    return 1.0\n")
    for path in ("suites/unit/op.c", "src/a/op.h", "deps/more/blas.f", "other.c"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("/* code */\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return repository(tmp_path)


def test_a_suite_depends_on_files_that_it_names_or_that_match(native):
    for path in ("suites/unit/op.c", "src/a/op.h", "deps/more/blas.f"):
        (native / path).write_text("/* other code */\n")
        assert listed(native) == ["unit/s/default"], path
        git(native, "checkout", "-q", ".")
    for path in ("src/new.h", "src/b/c/new.h", "deps/new"):
        (native / path).parent.mkdir(parents=True, exist_ok=True)
        (native / path).write_text("/* new code */\n")
        assert listed(native) == ["unit/s/default"], path
        (native / path).unlink()
    for path in ("other.c", "src/new.c", "suites/op.c"):
        (native / path).write_text("/* other code */\n")
        assert listed(native) == [], path
    (native / "deps/more/blas.f").rename(native / "deps/blas.f")
    assert listed(native) == ["unit/s/default"]


def test_explain_shows_what_a_suite_depends_on(native):
    text = precreg(native, "explain", "unit/s/default").stdout
    assert "depends     suites/unit/op.c, src/**/*.h, deps\n" in text


def test_what_a_suite_depends_on_makes_no_baseline_stale_and_no_finding(native):
    precreg(native, "run", "--jobs", "0")
    assert precreg(native, "baseline", "accept", "--all", "--reason", "first").returncode == 0
    git(native, "add", "-A")
    git(native, "commit", "-q", "-m", "accepted")
    git(native, "checkout", "-q", "-b", "more")
    change(native / "suites/unit/s.yaml", "depends: [op.c, '../../src/**/*.h', ../../deps]", "depends: [op.c]")
    git(native, "rm", "-q", "-r", "src", "deps")
    git(native, "commit", "-q", "-a", "-m", "fewer files")
    done = precreg(native, "run", "--jobs", "0", "--against", "main")
    assert (done.returncode, "FINDING" in done.stdout) == (0, False), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("depends", "slug", "message"),
    [
        ("[opp.c]", "missing-file", 'depends=opp.c but there is none; did you mean "op.c"?'),
        ("['../../scr/**']", "missing-file", 'depends=../../scr/** but there is none; did you mean "src"?'),
        ("['*.cu']", "missing-file", "depends=*.cu but there is none"),
        ("[../../../op.c]", "outside-project", "op.c"),
        ("[/etc/passwd]", "outside-project", "path=/etc/passwd"),
        ("['*/../../../../x']", "outside-project", "expected no .. after a wildcard"),
        ("[../../README.md]", "bad-value", "expected no document and no hidden file"),
        ("['../../.data/*']", "bad-value", "expected no document and no hidden file"),
        ("op.c", "bad-value", "depends"),
        ("[3]", "bad-value", "depends"),
        ("['']", "bad-value", "depends"),
    ],
)
def test_a_wrong_dependency_is_said_with_its_line(native, depends, slug, message):
    change(native / "suites/unit/s.yaml", "[op.c, '../../src/**/*.h', ../../deps]", depends)
    done = precreg(native, "list")
    assert (done.returncode, done.stderr.startswith("suites/unit/s.yaml:4:")) == (2, True), done.stderr
    assert f"error[{slug}]" in done.stderr
    assert message in done.stderr


LOADS = {
    "ctypes.CDLL": "import ctypes\nOP = lambda: ctypes.CDLL('./build/libop.so')",
    "LoadLibrary": "import ctypes\nOP = lambda: ctypes.cdll.LoadLibrary('libs/libop.so')",
    "numpy": "import numpy as np\nOP = lambda: np.ctypeslib.load_library('libop', 'build')",
    "numpy, a folder of os": "import numpy as np, os\nHERE = os.path.dirname(__file__)\n"
    "OP = lambda: np.ctypeslib.load_library('op', os.path.join(HERE, 'build'))",
    "cffi": "from pathlib import Path\nOP = lambda ffi: ffi.dlopen(Path(__file__).parent / 'build' / 'libop.so')",
    "joinpath": "from pathlib import Path\n"
    "OP = lambda ffi: ffi.dlopen(Path(__file__).parent.joinpath('build', 'libop'))",
    "an extension module": "import op\n",
}


@pytest.mark.parametrize("way", LOADS)
def test_libraries_that_a_subject_loads_are_followed(tmp_path, way):
    with_suite(
        tmp_path,
        "suite: s\nsubject: k:same\nreference: k:same\n",
        f"def same():\n    {'import op' if way == 'an extension module' else 'pass'}\n    return 1.0\n{LOADS[way]}\n",
    )
    unit = tmp_path / "suites/unit"
    folder = {"LoadLibrary": tmp_path / "libs", "an extension module": unit}.get(way, unit / "build")
    name = "op.abi3.so" if way == "an extension module" else "libop.so"
    for place in (folder, folder / "deps"):
        place.mkdir(exist_ok=True)
    (folder / name).write_bytes(library(["libinner.so.2", "libc.so.6"], "$ORIGIN/deps"))
    (folder / "deps/libinner.so.2").write_bytes(library(["libc.so.6"]))
    repository(tmp_path)
    for file in (folder / name, folder / "deps/libinner.so.2"):
        before = file.read_bytes()
        file.write_bytes(before + b"\0")
        assert listed(tmp_path) == ["unit/s/default"], file
        file.write_bytes(before)
    (folder / "deps/libother.so").write_bytes(b"")
    assert listed(tmp_path) == []


def test_changed_files_that_belong_to_no_case_are_named(native):
    (native / "other.c").write_text("/* other code */\n")
    (native / "other.h").write_text("/* new code */\n")
    for path in ("README.md", ".gitignore", "reports/summary.md", "reports/record.json", "baselines/notes.json"):
        (native / path).parent.mkdir(exist_ok=True)
        (native / path).write_text("{}\n")
    words = "2 changed files belong to no case: other.c, other.h; "
    for options, code in (((), 0), (("--strict",), 2)):
        done = precreg(native, "run", "--changed-since", "HEAD", *options)
        assert (done.returncode, done.stdout) == (code, "no case depends on what changed since HEAD\n")
        assert done.stderr.startswith(f"precreg: warning: {words}"), done.stderr
    done = precreg(native, "list", "--changed-since", "HEAD")
    assert (done.returncode, done.stdout, words in done.stderr) == (0, "", True)
    assert "no case:" not in precreg(native, "list").stderr


def test_a_run_of_other_cases_warns_of_files_that_belong_to_none(native):
    precreg(native, "run", "--jobs", "0")
    precreg(native, "baseline", "accept", "--all", "--reason", "first")
    git(native, "add", "-A")
    git(native, "commit", "-q", "-m", "accepted")
    (native / "suites/unit/op.c").write_text("/* other code */\n")
    (native / "other.c").write_text("/* other code */\n")
    words = "1 changed file belongs to no case: other.c; "
    done = precreg(native, "run", "--changed-since", "HEAD")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"\nwarning   {words}" in done.stdout
    for report in ("summary.md", "report.html"):
        assert words in (native / "reports" / report).read_text()
    done = precreg(native, "run", "--changed-since", "HEAD", "--strict")
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1] == "exit 2: changed files belong to no case"
    for part in ("1/2", "2/2"):
        precreg(native, "run", "--changed-since", "HEAD", "--strict", "--shard", part, "--output", f"part{part[0]}")
    done = precreg(native, "report", "part1", "part2", "--output", "whole")
    assert (done.returncode, done.stdout.count(words)) == (2, 1), done.stdout + done.stderr


def test_the_index_answers_fast_names_few_of_many_files_and_knows_patterns(native):
    for number in range(13):
        (native / f"new{number:02}.c").write_text("/* new code */\n")
    time.sleep(SETTLED_NS / 1e9 + 0.1)
    first = started(native, "run", "--changed-since", "HEAD")
    assert first.stdout.startswith("no case depends")
    assert (native / INDEX_FILE).exists()
    assert "13 changed files belong to no case: new00.c, " in first.stderr
    assert ", new09.c and 3 more; " in first.stderr
    code = "import atexit, sys\nfrom precreg.cli.main import precreg\n"
    code += "atexit.register(lambda: print({'msgspec', 'yaml', 'numpy', 'git'} & set(sys.modules) or 'light'))\n"
    code += "precreg(['run', '--changed-since', 'HEAD'])"
    second = subprocess.run([sys.executable, "-c", code], cwd=native, env=environ(), capture_output=True, text=True)
    assert (second.stdout, second.stderr) == (f"{first.stdout}light\n", first.stderr)
    (native / "src/new.h").write_text("/* new code */\n")
    done = precreg(native, "run", "--changed-since", "HEAD", "--jobs", "0")
    assert "1 case," in done.stdout, done.stdout + done.stderr


def test_a_repository_that_lost_an_object_is_not_one_without_changes(native):
    change(native / "suites/unit/k.py", "return 1.0", "return 2.0")
    lost = git(native, "rev-parse", "HEAD:suites/unit/k.py")
    (native / ".git/objects" / lost[:2] / lost[2:]).unlink()
    done = precreg(native, "run", "--changed-since", "HEAD")
    assert (done.returncode, "nothing changed" in done.stdout) == (2, False), done.stdout
    assert "error[no-git]: expected git to compare the files of" in done.stderr
    assert f"unable to read {lost}" in done.stderr


def test_a_push_names_the_files_that_belong_to_no_case(guarded):
    (guarded / "op.c").write_text("/* new code */\n")
    commit(guarded, "a source")
    passed, text = push(guarded)
    assert passed, text
    assert "precreg: warning: 1 changed file belongs to no case: op.c; " in text
    (guarded / "op.h").write_text("/* new code */\n")
    change(guarded / "suites/unit/k.py", "return x + x", "return x * 2")
    commit(guarded, "a header, and another reference")
    passed, text = push(guarded)
    assert passed, text
    assert "warning   1 changed file belongs to no case: op.h; " in text


def test_a_submodule_is_all_of_its_files(tmp_path):
    """git lists the folder of a submodule alone, and a case depends on files in it."""
    part = tmp_path / "part"
    part.mkdir()
    (part / "table.py").write_text("SCALE = 1.0\n")
    repository(part)
    project = tmp_path / "project"
    kernel = "def same():\n    from part import table\n    return table.SCALE\n\n\ndef one():\n    return 1.0\n"
    with_suite(project, "suite: s\nsubject: k:same\nreference: k:one\n", kernel)
    repository(project)
    allowed = ("-c", "protocol.file.allow=always")
    git(project, *allowed, "submodule", "add", "-q", str(part), "part")
    git(project, "config", "-f", ".gitmodules", "submodule.part.ignore", "all")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "with a part")
    assert listed(project) == []
    (project / "part/table.py").write_text("SCALE = 2.0\n")
    assert listed(project) == ["unit/s/default"]
    (project / "part/table.py").write_text("SCALE = 1.0\n")
    assert listed(project) == []
    # A push of another commit of the submodule lists its folder alone, too.
    precreg(project, "run", "--jobs", "0")
    precreg(project, "baseline", "accept", "--all", "--reason", "first")
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "remote.git")
    git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(project, "config", "push.recurseSubmodules", "no")
    commit(project, "accepted")
    git(project, "push", "-q", "-u", "origin", "main")
    assert precreg(project, "hook", "install").returncode == 0
    (project / "part/table.py").write_text("SCALE = 2.0\n")
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        git(project / "part", "config", name, value)
    commit(project / "part", "another scale")
    git(project, "add", "-f", "part")
    git(project, "commit", "-q", "-m", "another part")
    passed, text = push(project)
    assert "1 of 1 cases before the push of" in text
    assert (passed, "FAILED   unit/s/default" in text) == (False, True), text
