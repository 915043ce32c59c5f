"""Run one case for house.py and watch which modules and functions of precreg it takes.

The command runs with this folder and a sitecustomize module on its PYTHONPATH, so `begin` watches every process of the
run. Each process appends the modules that it imports to its own file, because the run kills its workers at the end.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import NamedTuple

HERE = Path(__file__).parent
PACKAGE = "precreg"
WATCH = "HOUSE_WATCH"  # the variable with the settings of the watch
CASE = "unit/softmax/float32-4x64"  # cheap: 256 elements and three seeds
# The same terms in another order: other bits than the baseline's in each seed of CASE, and no larger error.
EDIT = (
    "suites/unit/kernels/softmax.py",
    "lanes[..., :half] + lanes[..., half:]",
    "lanes[..., ::2] + lanes[..., 1::2]",
)
# The run shows which of these it enters; a checkout has one of them.
JUDGES = (
    "precreg.pipeline:judged",
    "precreg.run.pipeline:judged",
    "precreg.run.pipeline:judge_outcome",
    "precreg.run.session:judged",
    "precreg.run.session:judge_outcome",
)
OUTSIDE = re.compile(r"CI(_|$)|PRECREG_|PRECISION_THRESHOLDS$|GIT_|PYTHONPATH$")  # variables that change a run
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # Python 3.12 and later inline most of them

Figures = dict[str, float | None]


class Seen(NamedTuple):
    """The modules that each process imported, and (module, function) pairs that the main process and judges entered."""

    main: set[str]
    others: list[set[str]]
    entered: set[tuple[str, str]]
    judging: dict[str, list[str]]


def copy_of(checkout: Path, folder: Path, edit: tuple[str, str, str] | None = None) -> Path:
    """Commit a copy of the project's suites, baselines and settings; `edit` then replaces a text in a file."""
    for name in ("suites", "baselines", "pyproject.toml"):
        source = checkout / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, folder / name)
    author = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], [*author, "commit", "-q", "--allow-empty", "-m", "the project"]):
        subprocess.run(["git", *arguments], cwd=folder, env=environ(), check=True, capture_output=True)
    if edit is not None:
        file = folder / edit[0]
        file.write_text(file.read_text(encoding="utf-8").replace(edit[1], edit[2]), encoding="utf-8")
    return folder


def environ(**more: str) -> dict[str, str]:
    """Return the environment of a developer's shell outside CI, with more variables."""
    return {name: value for name, value in os.environ.items() if not OUTSIDE.match(name)} | more


def watched_run(checkout: Path, project: Path, options: list[str], judges: Iterable[str] = ()) -> Seen:
    """Run `precreg run` on a project and watch each process; with `judges`, trace the functions of the main process.

    Raises RuntimeError if the run fails, or if it took another precreg than the checkout's.
    """
    with tempfile.TemporaryDirectory() as notes:
        (Path(notes) / "sitecustomize.py").write_text("import house_run\n\nhouse_run.begin()\n")
        watch = json.dumps({"package": str(checkout / PACKAGE), "notes": notes, "judges": [*judges]})
        path = os.pathsep.join([notes, str(HERE), str(checkout)])
        # Without bytecode, a run writes nothing into the checkout.
        variables = environ(PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1", OPENBLAS_NUM_THREADS="1", **{WATCH: watch})
        command = [sys.executable, "-m", PACKAGE, "run", *options]
        with subprocess.Popen(
            command, cwd=project, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as child:
            printed, _ = child.communicate()
        if child.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} exited with {child.returncode}:\n{printed}")
        return notes_of(Path(notes), child.pid, checkout)


def notes_of(notes: Path, main: int, checkout: Path) -> Seen:
    """Read the notes of all processes; `main` is the process id of the command."""
    logs = {int(file.stem): set(file.read_text().split()) for file in notes.glob("*.modules")}
    found = {pid: {name for name in log if exists(checkout, name)} for pid, log in logs.items()}
    end = json.loads((notes / f"{main}.json").read_text())
    if Path(end["package"]).parent != checkout / PACKAGE:
        raise RuntimeError(f"expected {checkout / PACKAGE} but the run imported {end['package']}")
    entered = {(module, function) for module, function in end["entered"]}
    return Seen(found.pop(main), list(found.values()), entered, end["judging"])


def exists(checkout: Path, name: str) -> bool:
    """Return whether a dotted name is a module of the checkout; the log has failed imports, too."""
    path = checkout.joinpath(*name.split("."))
    return source(checkout, name) or any(path.parent.glob(f"{path.name}.*.so"))


def source(checkout: Path, name: str) -> bool:
    """Return whether a module of the checkout is Python source."""
    path = checkout.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def run_figures(checkout: Path, case: str, judges: Iterable[str]) -> Figures:
    """Count the modules that a run of one case imports, and the functions that it enters up to its reports.

    Another traced run has other bits than the baseline, because judging an identical case takes a shortcut.
    """
    with tempfile.TemporaryDirectory() as folder:
        projects = [Path(folder) / name for name in ("traced", "with_worker", "edited")]
        for project in projects:
            project.mkdir()
        traced = watched_run(checkout, copy_of(checkout, projects[0]), [case, "--jobs", "0"], judges)
        pooled = watched_run(checkout, copy_of(checkout, projects[1]), [case, "--jobs", "1"])
        edited = None
        if case == CASE and (checkout / EDIT[0]).exists():
            edited = watched_run(checkout, copy_of(checkout, projects[2], EDIT), [case, "--jobs", "0"], judges)
            check_other_bits(projects[2])
    return {
        "modules imported, --jobs 0": len(traced.main),
        "modules imported, --jobs 1, main process": len(pooled.main),
        "modules imported, --jobs 1, worker": max(map(len, pooled.others), default=0),
        "compiled modules imported": sum(not source(checkout, name) for name in traced.main),
        "functions entered, --jobs 0": len(traced.entered),
        "modules entered, --jobs 0": len({module for module, _ in traced.entered}),
        "modules entered by judging, identical bits": judging(traced, judges),
        "functions entered, other bits": edited and len(edited.entered),
        "modules entered, other bits": edited and len({module for module, _ in edited.entered}),
        "modules entered by judging, other bits": edited and judging(edited, judges),
    }


def check_other_bits(project: Path) -> None:
    """Raise RuntimeError if the edited run gave the bits of the baseline."""
    record = json.loads((project / "reports" / "record.json").read_text(encoding="utf-8"))
    reason = record["results"][0]["verdict"]["reason"]
    if reason == "identical":
        raise RuntimeError(f"expected other bits after the edit of {EDIT[0]} but got reason={reason}")


def judging(seen: Seen, judges: Iterable[str]) -> int | None:
    """Return the number of modules that the first judge of the run entered, itself included, or None without one."""
    return next((len(seen.judging[judge]) for judge in judges if seen.judging[judge]), None)


class ImportLog:
    """A finder that finds no module, and appends each one of precreg to the file of its process."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Note a module and leave it to the finders that follow."""
        self.note([name])

    def note(self, names: Iterable[str]) -> None:
        """Append the names of precreg."""
        ours = [name for name in names if name.partition(".")[0] == PACKAGE]
        if ours:
            with open(self.notes / f"{os.getpid()}.modules", "a", encoding="utf-8") as file:
                file.write("\n".join([*ours, ""]))


class Trace:
    """The functions below a folder that this process enters, and the files that it enters inside each judge."""

    def __init__(self, package: str, judges: Iterable[str]) -> None:
        self.package = package + os.sep
        self.entered: set[tuple[str, str]] = set()
        self.judging: dict[str, set[str]] = {judge: set() for judge in judges}
        self.depth = dict.fromkeys(self.judging, 0)

    def hook(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a call, or the end of a judge's; bodies of modules and classes are no functions."""
        code = frame.f_code
        file = code.co_filename
        if event not in ("call", "return") or not (file.startswith(self.package) and file.endswith(".py")):
            return  # a template of a report is compiled to a function, too
        judge = f"{frame.f_globals['__name__']}:{code.co_qualname}"
        if event == "return":
            if judge in self.depth:
                self.depth[judge] -= 1
            return
        if judge in self.depth:
            self.depth[judge] += 1
        if code.co_flags & CO_OPTIMIZED and code.co_name not in COMPREHENSIONS:
            self.entered.add((file, f"{code.co_qualname}:{code.co_firstlineno}"))
            for name, depth in self.depth.items():
                if depth:
                    self.judging[name].add(file)


def begin() -> None:
    """Watch this process: log its imports, trace its calls if there are judges, and store the calls at its exit."""
    watch = json.loads(os.environ[WATCH])
    log, trace = ImportLog(Path(watch["notes"])), Trace(watch["package"], watch["judges"])
    sys.meta_path.insert(0, log)
    os.register_at_fork(after_in_child=lambda: log.note(list(sys.modules)))  # a worker starts with its server's modules
    if watch["judges"]:
        threading.setprofile(trace.hook)
        sys.setprofile(trace.hook)
    atexit.register(store, log.notes, trace)


def store(notes: Path, trace: Trace) -> None:
    """Write the calls of this process, and the place of its precreg."""
    sys.setprofile(None)
    package = getattr(sys.modules.get(PACKAGE), "__file__", None)
    judging = {judge: sorted(files) for judge, files in trace.judging.items()}
    end = {"package": package, "entered": sorted(trace.entered), "judging": judging}
    (notes / f"{os.getpid()}.json").write_text(json.dumps(end), encoding="utf-8")
