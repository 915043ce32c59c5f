"""The real command in a real project: a folder in a git repository of its own, one process a call."""

import gc
import importlib
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path

import msgspec

import precreg as precreg_package
from precreg.__main__ import main
from precreg.run.journal import JournalHeader, resume_journal
from precreg.subject.module_space import leave_module_space

ROOT = Path(__file__).parents[2]
# Ends a test that hangs. No test is about this time: it is some fifty times what the slowest command takes when idle.
PATIENCE_S = 900

# The files that a run writes for people and servers, in the order in which it names them.
REPORT_FILES = ("record.json", "junit.xml", "codequality.json", "report.html", "summary.md")

# A run sets these for BLAS before it loads numpy. tests/conftest.py sets them for the tests, whose forks then
# compute as a process of their own does; processes that tests start decide for themselves.
THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}

OUTSIDE = (
    "CI",
    "CI_COMMIT_BRANCH",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA",
    "CI_MERGE_REQUEST_TARGET_BRANCH_SHA",
    "CI_NODE_INDEX",
    "CI_NODE_TOTAL",
    "CI_PROJECT_DIR",
    "PRECISION_THRESHOLDS",
    "PRECREG_DIAGNOSE",
    "PRECREG_ENVIRONMENT",
    "PRECREG_HISTORY",
    "PYTEST_CURRENT_TEST",
)


def environ(**more):
    """Return the environment of a developer's shell: no CI, whatever runs this test."""
    kept = {name: value for name, value in os.environ.items() if name not in OUTSIDE and name not in THREADS}
    # Causes are searched where a test is about them: they would cost each failing run of the others seconds.
    return {**kept, "NO_COLOR": "1", "COLUMNS": "200", "PRECREG_DIAGNOSE": "0", **more}


# A command whose variables are among these runs in a fork of this process, which has numpy and precreg loaded: that
# takes a tenth of the time of a new interpreter. All others may change how modules load, so they get a new one.
READ_AT_EACH_CALL = {*OUTSIDE, "GIT_CEILING_DIRECTORIES", "PYTHONDONTWRITEBYTECODE", "TMPDIR"}


def precreg(project, *arguments, **variables):
    """Run `precreg ARGUMENTS` in a folder, in a process of its own, and return the finished process.

    Without a word about workers, cases run in that process, too. A test about processes calls `started`.
    """
    words = [*map(str, arguments)]
    if words[:1] == ["run"] and not {"--jobs", "-j", "--pair", "--resume"} & set(words):
        words += ["--jobs", "0"]
    if set(variables) <= READ_AT_EACH_CALL:
        return forked([sys.executable, "-m", "precreg", *words], main, project, environ(**THREADS, **variables))
    return started(project, *arguments, **variables)


def started(project, *arguments, **variables):
    """Run `python -m precreg ARGUMENTS` in a folder, as a shell does, and return the finished process."""
    command = [sys.executable, "-m", "precreg", *map(str, arguments)]
    return subprocess.run(
        command, cwd=project, env=environ(**variables), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


# Their modules import packages of extras, which may be absent.
_WITH_EXTRAS = (
    *("precreg.subject.torch.", "precreg.subject.onnx."),
    *("precreg.shadow.torch.", "precreg.shadow.onnx.", "precreg.shadow.monitor.", "precreg.diagnose.torch."),
    *("precreg.training.observing.", "precreg.training.advice."),
    *("precreg.quantization.torch.", "precreg.quantization.onnx."),
    *("precreg.diagnose.reduction.torch_graph", "precreg.diagnose.reduction.onnx_graph"),
)


@cache
def _load_all():
    """Import what commands import late, once and not in each fork."""
    for module in pkgutil.walk_packages(precreg_package.__path__, "precreg."):
        if not module.name.endswith(("_core", "__main__")) and not module.name.startswith(_WITH_EXTRAS):
            importlib.import_module(module.name)
    for name in ("git", "jinja2", "junit_xml", "rich.progress", "sqlalchemy.dialects.sqlite", "yaml", "pytest"):
        importlib.import_module(name)


def forked(command, function, project, variables):
    """Run a function in a fork of this process that looks like a command: its folder, arguments and variables."""
    _load_all()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become(command, function, project, variables, out.fileno(), err.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode())
    return subprocess.CompletedProcess(command, code, *texts)


def _become(command, function, project, variables, out, err):
    """Be the command from here on, and end with its exit code: nothing of pytest runs in this process any more."""
    code = 70
    try:
        signal.alarm(PATIENCE_S)
        with open(os.devnull, "rb") as nothing:
            for source, target in ((nothing.fileno(), 0), (out, 1), (err, 2)):
                os.dup2(source, target)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        os.chdir(project)
        os.environ.clear()
        os.environ.update(variables)
        sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in variables
        # Collections of garbage would walk over, and so copy, all that the tests have in memory.
        gc.freeze()
        # Cases that tests ran in this process left the folder of their project on the path, and its modules.
        leave_module_space()
        _forget_modules_of_tests()
        sys.path.insert(0, str(project))
        sys.argv = [command[2], *command[3:]]
        try:
            code = function()
        except SystemExit as end:
            code = end.code
        code = code if isinstance(code, int) else int(code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _forget_modules_of_tests():
    """Forget modules that tests wrote and imported: those of this project may have the same names."""
    written, lasting = f"{os.path.realpath(tempfile.gettempdir())}/", (f"{ROOT}/", f"{sys.prefix}/")
    for name, module in list(sys.modules.items()):
        file = os.path.realpath(getattr(module, "__file__", None) or "/")
        if file.startswith(written) and not file.startswith(lasting):
            del sys.modules[name]


def git(folder, *arguments):
    """Run git as Ada, and return what it printed."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder):
    """Make a folder a git repository with one commit of all that is in it."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.org")
    (folder / ".gitignore").write_text("__pycache__/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def accept_on_main(folder):
    """Run a repository's new cases, accept them, and commit the baselines; return the folder."""
    assert started(folder, "run").returncode == 2, "new ones are not judged"
    done = precreg(folder, "baseline", "accept", "unit/*", "--reason", "first")
    assert done.returncode == 0, done.stderr
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "accepted")
    return folder


def copy_of(source, folder, *parts):
    """Copy a project's suites and baselines (or the parts named) into a new repository."""
    for part in parts or ("suites", "baselines"):
        ignored = shutil.ignore_patterns("__pycache__")
        if (source / part).is_dir():
            shutil.copytree(source / part, folder / part, ignore=ignored)
        else:
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / part, folder / part)
    return repository(folder)


def journal_cases(project):
    """Return the ids in the journal of the last run, in the order in which its cases ran."""
    path = project / ".precreg" / "journal.jsonl"
    header = msgspec.json.decode(path.read_bytes().partition(b"\n")[0], type=JournalHeader)
    journal, outcomes = resume_journal(path, header)
    journal.close()
    return [*outcomes]


def change(file, before, after):
    """Replace a text that stands in a file exactly once."""
    text = file.read_text()
    assert text.count(before) == 1, f"{before!r} stands {text.count(before)} times in {file}"
    file.write_text(text.replace(before, after))


def with_suite(folder, suite, kernel="import numpy as np\n\n\ndef same(x):\n    return x\n", name="s"):
    """Make a project of one unit suite and one kernel module k.py."""
    place = folder / "suites" / "unit"
    place.mkdir(parents=True, exist_ok=True)
    (place / "k.py").write_text(kernel)
    (place / f"{name}.yaml").write_text(suite)
    return folder
