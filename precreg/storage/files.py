"""How are files found, matched with patterns, and replaced?

A replaced file has either its old or its new content, even if the process is killed. Paths stay inside the project,
wherever symbolic links lead.
"""

from __future__ import annotations

import fcntl
import gc
import os
import re
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, EFBIG, EINVAL, EISDIR, ELOOP, ENOSPC
from fnmatch import translate
from functools import lru_cache
from itertools import takewhile
from os.path import realpath
from pathlib import Path, PurePosixPath
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING

from precreg.errors import UserError
from precreg.storage.file_trail import note_folder, note_path

if TYPE_CHECKING:
    from precreg.types import Location


# git's conflict markers have seven characters, then a space and a label, or the end of the line.
CONFLICT_MARKER = re.compile(r"^(<{7}|={7}|>{7})( |\r?$)", re.MULTILINE)

# Journals, proposals, the lock and the dependency index of a project. Git ignores the folder.
WORKING_FOLDER = ".precreg"
# Seconds between two attempts to take a lock.
_LOCK_POLL_S = 0.05


# Sparse files of any length cost nothing on a disk. No record of 100,000 cases comes near this.
MAX_READ_BYTES = 2 << 30
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _open_regular(path: Path | str, flags: int) -> tuple[int, int]:
    """Return the descriptor of a regular file, and its size in bytes."""
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except ValueError:  # a NUL in the path
        raise OSError(EINVAL, os.strerror(EINVAL), str(path)) from None
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        os.close(descriptor)
        kind = _KINDS.get(stat.S_IFMT(facts.st_mode), "something else")
        raise OSError(EINVAL, f"it is {kind} and no regular file", str(path))
    return descriptor, facts.st_size


def open_regular_file(path: Path | str, flags: int = os.O_RDONLY) -> IO[bytes]:
    """Open a regular file, and never wait: a pipe would block until somebody opens its other end.

    Raises OSError, also for a folder, a pipe, a socket, a device, and a path with a NUL.
    """
    descriptor, _ = _open_regular(path, flags)
    # Appended bytes must reach the system at once, so that a kill loses at most the last write.
    return open(descriptor, "rb") if flags & os.O_ACCMODE == os.O_RDONLY else open(descriptor, "ab", buffering=0)


def read_small_file(path: Path | str, most: int) -> tuple[int, bytes | None]:
    """Return the size of a regular file, and its content up to `most` bytes; None for a larger one.

    Raises OSError as `open_regular_file`. It makes no stream, which would take half of the time of a small file.
    """
    descriptor, size = _open_regular(path, os.O_RDONLY)
    try:
        if size > most:
            return size, None
        content = os.read(descriptor, size + 1)
        # A read may end early, and a file may grow or shrink meanwhile.
        while len(content) < size and (more := os.read(descriptor, size + 1 - len(content))):
            content += more
        return size, content
    finally:
        os.close(descriptor)


def read_regular_file(path: Path, max_bytes: int = MAX_READ_BYTES) -> bytes:
    """Return the content of a regular file. Raises OSError as `open_regular_file`, and for a larger file."""
    with open_regular_file(path) as stream:
        if os.fstat(stream.fileno()).st_size > max_bytes:
            raise OSError(EFBIG, os.strerror(EFBIG), str(path))
        return stream.read()


def append_to_regular_file(path: Path) -> IO[bytes]:
    """Open or create a regular file for appending, unbuffered. Raises OSError as `open_regular_file`."""
    return open_regular_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@contextmanager
def report_write_errors(shown: str) -> Iterator[None]:
    """Report a failed write as a mistake that the user can fix: no permission, a full disk, a file as folder.

    Raises:
        UserError: not-writable, in place of an OSError.
    """
    try:
        yield
    except OSError as problem:
        message = f"expected to be able to write, but: {problem.strerror or problem}"
        full = problem.errno in (ENOSPC, EDQUOT, EFBIG)
        hint = (
            "free space on the disk, and repeat the command; a run goes on with: precreg run --resume" if full else ""
        )
        raise UserError("not-writable", message, file=shown, hint=hint) from problem


def require_writable(*paths: Path) -> None:
    """Refuse files that cannot be written later, before a long run makes their content.

    Raises:
        UserError: not-writable for a folder, a missing folder, or one without permission.
    """
    for path in paths:
        folder, hint = path.parent, "name a file in a folder of yours, such as report.html"
        if path.is_dir():
            problem = "it is a folder"
        elif not folder.is_dir():
            problem, hint = f"the folder {folder} does not exist", f"make it: mkdir -p {shlex.quote(str(folder))}"
        elif not path.exists() and not os.access(folder, os.W_OK):
            problem = f"the folder {folder} gives no permission"
        else:
            continue
        raise UserError("not-writable", f"expected to be able to write, but {problem}", file=str(path), hint=hint)


def make_scratch_folder(folder: Path) -> None:
    """Make a folder and its parents, with a .gitignore for its content; an existing folder stays as it is.

    Reports, journals and proposals go into such folders. Several processes may make one at once. Raises OSError.
    """
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        # Without it, a run that leaves files behind would make its own working tree dirty.
        (folder / ".gitignore").write_text("*\n")


def replace_file(path: Path, content: bytes) -> None:
    """Replace or create a file in one step: a kill leaves the old content or the new.

    Content for a device or a pipe is written into it. The folder must exist. Two processes that replace one file at
    once do not mix their contents. Raises OSError.
    """
    with open_replacement(path) as stream:
        stream.write(content)


@contextmanager
def open_replacement(path: Path) -> Iterator[IO[bytes]]:
    """Open a stream for the new content of a file; `replace_file` describes the replacement at the end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        # A rename would turn /dev/null into an ordinary file.
        with path.open("wb") as stream:
            yield stream
        return
    if not path.name:
        # The folder "." or "/" has no name to make a temporary one of.
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path))
    # The process id keeps two writers apart; the leading dot hides the file from every glob of the project.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            # A run that does not see this process, in another container for instance, sees the lock.
            with suppress(OSError):
                lock_file(stream)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            # The content must be on disk before the rename: after a power cut the new name could have no content.
            os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


_TEMPORARY_FILE = re.compile(r"\..+\.([0-9]{1,10})\.tmp", re.DOTALL)
_TEMPORARY_FOLDER = re.compile(r"precreg-([0-9]{1,10})-.+")
_LOCK_NAME = ".precreg-lock"


def is_own_path(path: str) -> bool:
    """Return whether precreg itself makes a path: in its working folder, or in a temporary folder."""
    parts = path.split("/")
    return WORKING_FOLDER in parts or any(map(_TEMPORARY_FOLDER.fullmatch, parts))


def remove_abandoned_files(folder: Path) -> None:
    """Remove the temporary files that killed writers left in a folder; do nothing if that fails."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            named, path = _TEMPORARY_FILE.fullmatch(entry.name), Path(entry.path)
            if not named or not entry.is_file(follow_symlinks=False):
                continue
            if _is_abandoned(path, int(named[1])) and _take_lock(path):
                path.unlink()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give a folder in the system's temporary folder. If this process is killed, a later run removes it."""
    from tempfile import TemporaryDirectory

    # A process that a program left may still write into the folder: a later run removes it, then.
    made = TemporaryDirectory(prefix=f"precreg-{os.getpid()}-", ignore_cleanup_errors=True)
    with made as name, Path(name, _LOCK_NAME).open("wb") as stream:
        lock_file(stream)
        yield Path(name)


def abandoned_folders() -> list[Path]:
    """Return the temporary folders of killed processes of this user."""
    from tempfile import gettempdir

    found = []
    with suppress(OSError):
        for name in os.listdir(gettempdir()):
            named, folder = _TEMPORARY_FOLDER.fullmatch(name), Path(gettempdir(), name)
            if named and _is_abandoned(folder, int(named[1])) and _take_lock(folder / _LOCK_NAME):
                found.append(folder)
    return found


def _is_abandoned(path: Path, writer: int) -> bool:
    """Return whether the process that made a file or folder is gone, and this user owns it."""
    try:
        if path.lstat().st_uid != os.geteuid() or path.is_symlink():
            return False
        os.kill(writer, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _take_lock(path: Path) -> bool:
    """Return whether no process holds the lock of a file; a file that is missing has no lock."""
    try:
        # Without O_NONBLOCK a pipe of that name would block.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as stream:
            return lock_file(stream)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def lock_file(stream: IO[bytes], timeout_s: float = 0.0) -> bool:
    """Lock an open file against every other process, and return whether that succeeded in time. Raises OSError.

    The lock ends with the stream, or with the process, even with a killed one.
    """
    deadline = monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= deadline:
                return False
            # A blocking flock has no time limit, so this polls.
            sleep(_LOCK_POLL_S)
        else:
            return True


def flush_folder(folder: Path) -> None:
    """Make a rename in the folder survive a power cut, if the file system can flush folders."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def resolve_inside(project: Path, path: str | Path, *, file: str | None = None, line: int | None = None) -> Path:
    """Return `path` (absolute, or relative to the project) with symbolic links resolved.

    Errors name `file` and `line`, where the path is written.

    Raises:
        UserError: outside-project, for a path that leads out of the project.
    """
    note_path(project / path)
    try:
        resolved = _follow_links(project / path)
        inner = resolved.is_relative_to(project.resolve())
    except (OSError, RuntimeError, ValueError):  # circular links, a NUL in the name
        inner = False
    if not inner:
        message = f"expected a path inside the project but got path={path}"
        raise UserError("outside-project", message, file=file, line=line)
    return resolved


def _follow_links(path: Path) -> Path:
    """Resolve symbolic links of a path that may not exist; raise OSError or RuntimeError for circular links."""
    try:
        # Only the strict form reports circular links; the other one returns a path with the links still in it.
        return path.resolve(strict=True)
    except OSError as error:
        if error.errno == ELOOP:
            raise
        return path.resolve()


# PATH_MAX of macOS; Linux allows 4,096 bytes.
MAX_PATH = 1024


def find_project(start: Path) -> Path:
    """Return the nearest folder at or above `start` that has a suites/ folder, or otherwise .precreg/.

    Raises:
        UserError: no-project.
    """
    start = Path(realpath(start))
    # A project of test-defined cases has no suites; its tests have made .precreg/.
    for mark in ("suites", WORKING_FOLDER):
        for folder in (start, *start.parents):
            if (folder / mark).is_dir():
                return folder
    raise UserError("no-project", f"expected a folder with suites/ but got start={start}, and none above it has one")


# A project's own devices, one file each. Reading suites needs the name of the folder alone, and no device.
DEVICES_FOLDER = "suites/devices"


def yaml_files(project: Path) -> list[Path]:
    """Return the YAML files below suites/, hidden ones included; folders behind links are not entered."""
    return [
        Path(folder, name)
        for folder, folders, files in os.walk(project / "suites")
        for name in (*folders, *files)
        if name.endswith((".yaml", ".yml"))
    ]


def path_beside_suite(project: Path, directory: str, path: str, where: Location) -> str:
    """Return a path that a suite gives relative to its own folder, as a path relative to the project.

    Raises:
        UserError: outside-project, also for an absolute path; bad-value as `require_path` does.
    """
    require_path(path, where)
    if PurePosixPath(path).is_absolute():
        message = f"expected a path relative to {directory}/ but got path={path}"
        raise UserError("outside-project", message, file=where.file, line=where.line)
    # Links are followed before the path is compared with the project, so that none can lead out.
    target = resolve_inside(project, Path(directory, path), file=where.file, line=where.line)
    return target.relative_to(realpath(project)).as_posix()


DOCUMENTS = frozenset({".md", ".rst", ".adoc"})


def can_affect_cases(path: str) -> bool:
    """Return whether a case could depend on a file of the project; documents and hidden files never matter."""
    return not path.startswith(".") and PurePosixPath(path).suffix.lower() not in DOCUMENTS


def pattern_matches(pattern: str, path: str) -> bool:
    """Return whether a path matches a pattern of paths, or lies in a folder that does; both are relative to one folder.

    `*`, `?` and `[...]` stand for characters of one name, `**` for any number of folders.
    """
    return _pattern_expression(pattern).fullmatch(path) is not None


def files_matching(project: Path, pattern: str) -> Iterator[str]:
    """Yield the files of a project that match a pattern, with POSIX slashes; hidden folders are not entered."""
    fixed = fixed_folder(pattern)
    note_path(project / pattern)
    if os.path.isfile(project / pattern):
        yield pattern
        if fixed == pattern:
            return
    note_path(project / fixed)
    for folder, folders, files in os.walk(project / fixed):
        note_folder(folder)
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = (Path(folder, name).relative_to(project).as_posix() for name in files)
        yield from (path for path in paths if path != pattern and pattern_matches(pattern, path))


def fixed_folder(pattern: str) -> str:
    """Return the part of a pattern before its first name with a wildcard; all of a pattern without one."""
    parts = pattern.split("/")
    return "/".join(takewhile(lambda part: _WILDCARDS.isdisjoint(part), parts))


_WILDCARDS = frozenset("*?[")
_WILDCARD = re.compile(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^/\]]*\])")
_MEANINGS = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=1024)
def _pattern_expression(pattern: str) -> re.Pattern[str]:
    # Folders in a row mean the same as one, and would make the search slow.
    pieces = _WILDCARD.split(re.sub(r"(?:\*\*/)+", "**/", pattern))
    meant = [_meaning(piece) if place % 2 else re.escape(piece) for place, piece in enumerate(pieces)]
    return re.compile(f"{''.join(meant)}(?:/.*)?", re.DOTALL)


def _meaning(wildcard: str) -> str:
    """Return the expression of a wildcard."""
    if wildcard in _MEANINGS:
        return _MEANINGS[wildcard]
    # Python's own rules for ranges and brackets; the end of a text is not meant here.
    characters = re.sub(r"\\[zZ]$", "", translate(wildcard))
    return f"(?!/){characters}" if wildcard.startswith("[!") and len(wildcard) > 3 else characters


def require_path(path: str, where: Location) -> None:
    """Refuse a path, or a pattern of paths, that file systems do not accept.

    Raises:
        UserError: bad-value.
    """
    if "\0" in path or len(path) > MAX_PATH:
        message = f"expected a path of at most {MAX_PATH} characters, without NUL, but got path={path[:60]!r}"
        raise UserError(
            "bad-value",
            message,
            file=where.file,
            line=where.line,
            hint="write a shorter path of printable characters: path: data/x.npy",
        )


@contextmanager
def pause_gc() -> Iterator[None]:
    """Pause the search for garbage while many objects without cycles are created.

    Python's collector would traverse all of them again and again as their number grows.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
