"""How is a program built once for all workers of a run, and again when a source changes?

Each build has a folder of its own below .precreg/builds, named by a digest of the command, the sources and the
compiler. The first worker that needs it builds, and the others wait. A failed build fails once a run.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from math import inf
from os.path import realpath
from pathlib import Path
from signal import SIG_DFL, SIGHUP, SIGTERM, signal
from threading import current_thread, main_thread
from time import time
from typing import Any

from precreg.errors import UserError
from precreg.storage import (
    WORKING_FOLDER,
    lock_file,
    make_scratch_folder,
    replace_file,
    report_write_errors,
    resolve_inside,
)
from precreg.subject.command.kind import DEFAULT_BUILD_TIMEOUT_S, source_files
from precreg.subject.command.placeholders import BUILD, SOURCES, fill
from precreg.subject.command.process import Overdue, describe_end, failure_detail, run_program
from precreg.subject.command.program import locate_program, tree_values

BUILDS_FOLDER = f"{WORKING_FOLDER}/builds"
_STAMP = "precreg-build.json"
_FAILED = ".failed"
# A build that no run has used for so long is removed when another one is made.
_KEPT_S = 30 * 24 * 3600
# Variables that compilers and make read.
_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "LIBRARY_PATH", "NVCC_APPEND_FLAGS")


def build_before_cases(spec: Mapping[str, Any], directory: Path, project: Path) -> None:
    """Build the program of a specification, if it has a build. Raises UserError as `built_folder` does."""
    if BUILD in spec:
        # The command's own process: its end is the end of the build.
        with _unwind_on_end():
            _built(json.dumps(spec[BUILD], sort_keys=True), directory, project, True)


@contextmanager
def _unwind_on_end() -> Iterator[None]:
    """Turn the signals that end this process into SystemExit, so that the processes of a build end with it."""
    if current_thread() is not main_thread():
        yield
        return

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    before = {number: signal(number, end) for number in (SIGTERM, SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None is a handler of C code, which Python cannot put back.
            signal(number, SIG_DFL if handler is None else handler)


def built_folder(build: Mapping[str, Any], directory: Path, project: Path) -> Path:
    """Return the folder of a finished build; `directory` is the suite's. The first call of a process may build.

    Raises:
        UserError: build-failed, missing-program, not-writable.
    """
    return _built(json.dumps(build, sort_keys=True), directory, project, False)


# Sources that change during a run count for the next one: all of a process's calls run the same program.
@lru_cache(maxsize=256)
def _built(written: str, directory: Path, project: Path, own_group: bool) -> Path:
    build = json.loads(written)
    root = project / BUILDS_FOLDER
    with report_write_errors(BUILDS_FOLDER):
        make_scratch_folder(project / WORKING_FOLDER)
        root.mkdir(exist_ok=True)
    key = _digest(build, directory, project)
    folder = root / key
    places = tree_values(directory, project) | {BUILD: str(folder)}
    products = [Path(fill(each, places)) for each in build["produces"]]
    with report_write_errors(BUILDS_FOLDER), (root / f"{key}.lock").open("ab") as stream:
        lock_file(stream, inf)
        if not _is_complete(folder, products):
            _refuse_known_failure(root / f"{key}{_FAILED}")
            try:
                _build(build, folder, directory, project, own_group)
                signatures = [_require_product(each, folder, project) for each in products]
            except UserError as error:
                _keep_failure(root / f"{key}{_FAILED}", error)
                raise
            replace_file(folder / _STAMP, json.dumps(signatures).encode())
            _remove_unused(root)
        with suppress(OSError):
            os.utime(folder / _STAMP)
    return folder


def forget_failed_builds(project: Path) -> None:
    """Forget the failures of builds at the start of a run, which tries each of them once more."""
    with suppress(OSError):
        for path in (project / BUILDS_FOLDER).glob(f"*{_FAILED}"):
            path.unlink(missing_ok=True)


def _build(build: Mapping[str, Any], folder: Path, directory: Path, project: Path, own_group: bool) -> None:
    """Run the steps of a build in the suite's folder. Raises UserError: build-failed, missing-program."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    values = tree_values(directory, project) | {BUILD: str(folder)}
    for step in build["steps"]:
        arguments = [*_arguments(step, build, values, directory, project)]
        program = locate_program(arguments[0], os.environ, directory, project)
        limit = build.get("timeout", DEFAULT_BUILD_TIMEOUT_S)
        try:
            words = [program, *arguments[1:]]
            ended = run_program(words, directory, os.environ, timeout_s=limit, own_group=own_group)
        except Overdue:
            raise UserError("build-failed", f"expected {step[0]} to build in {limit} s but it takes longer") from None
        if ended.code:
            was = "was " if ended.code < 0 else ""
            message = f"expected {step[0]} to build but it {was}{describe_end(ended, word='error')}"
            raise UserError("build-failed", message, detail=failure_detail(ended))


def _arguments(
    step: list[str], build: Mapping[str, Any], values: Mapping[str, str], directory: Path, project: Path
) -> Iterator[str]:
    for word in step:
        if word == f"{{{SOURCES}}}":
            yield from (str(project / file) for file in source_files(build[SOURCES], directory, project))
        else:
            sources = " ".join(source_files(build[SOURCES], directory, project))
            yield fill(word, {**values, SOURCES: sources})


def _require_product(path: Path, folder: Path, project: Path) -> list[int]:
    """Return the signature of a file that a build made. Raises UserError: build-failed, outside-project."""
    resolve_inside(project, path)
    if not path.is_file():
        shown = path.relative_to(folder if path.is_relative_to(folder) else project).as_posix()
        raise UserError("build-failed", f"expected the build to make {shown} but it did not")
    return _signature(path)


def _is_complete(folder: Path, products: list[Path]) -> bool:
    """Return whether a build has ended, and its products are as it left them."""
    try:
        stored = json.loads((folder / _STAMP).read_bytes())
        return bool(stored == [_signature(path) for path in products])
    except (OSError, ValueError):
        return False


def _signature(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _keep_failure(path: Path, error: UserError) -> None:
    if error.slug in ("build-failed", "missing-program"):
        replace_file(path, json.dumps([error.slug, error.message, error.detail]).encode())


def _refuse_known_failure(path: Path) -> None:
    """Raise the failure that another worker of this run met. Raises UserError: build-failed, missing-program."""
    with suppress(FileNotFoundError, ValueError):
        slug, message, detail = json.loads(path.read_bytes())
        raise UserError(slug, message, detail=detail)


def _digest(build: Mapping[str, Any], directory: Path, project: Path) -> str:
    """Return a digest of all that a build depends on: command, sources, compilers, and their variables."""
    found = sha256()
    variables = {name: os.environ.get(name) for name in _VARIABLES}
    about = [build, directory.relative_to(project).as_posix(), variables, platform.machine(), [*_tools(build)]]
    found.update(json.dumps(about, sort_keys=True).encode())
    for file in source_files(build[SOURCES], directory, project):
        content = sha256((project / file).read_bytes()).hexdigest()
        found.update(f"\n{file}\0{content}".encode(errors="surrogateescape"))
    return found.hexdigest()[:24]


def _tools(build: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Yield path, size and time of each step's program, and of the compilers that make and cmake take."""
    compilers = [os.environ.get(name, usual).split(" ")[0] for name, usual in (("CC", "cc"), ("CXX", "c++"))]
    for name in dict.fromkeys((*(step[0] for step in build["steps"]), *compilers)):
        path = shutil.which(name) if "/" not in name and "{" not in name else None
        if path is not None:
            yield [realpath(path), *_signature(Path(realpath(path)))]


def _remove_unused(root: Path) -> None:
    with suppress(OSError):
        for stamp in root.glob(f"*/{_STAMP}"):
            if stamp.stat().st_mtime < time() - _KEPT_S:
                shutil.rmtree(stamp.parent, ignore_errors=True)
