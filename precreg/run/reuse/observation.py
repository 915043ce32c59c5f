"""Which files, modules and libraries does a process use while it runs a case?

An audit hook of Python notes each file that code opens, lists or imports, with the file of the project whose code does
so. A later case that uses the same code depends on the same files, although a module or a cache may have them in memory
by then. The processes of oracles have an observation of their own.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from importlib.util import source_from_cache
from typing import Any, Literal

from msgspec import Struct

# The first characters of an item show its kind: a path, a folder whose names were read (it ends in a slash), the name
# of a module, or a reason why no outcome of the case is ever reused.
FOLDER_END = "/"
MODULE_MARK, REASON_MARK = "?", "!"
NETWORK, PROGRAMS, DELETED_LIBRARY, UNREADABLE = "!network", "!programs", "!deleted_library", "!unreadable"
# A program that precreg itself starts, for a subject that is a command.
PROGRAM_MARK = ">"

_WRITES = os.O_WRONLY | os.O_RDWR
_IMPORT_SYSTEM = "<frozen importlib"
# Their files are facts of the machine, and most have another content at each look.
_SYSTEM = ("/proc/", "/sys/", "/dev/")
# Libraries that keep no content of files that a caller names.
_PLAIN_LIBRARIES = ("numpy", "ml_dtypes", "msgspec", "yaml")

_Origin = Literal["project", "library", "plain"]


class CaseUses(Struct, frozen=True, array_like=True):
    """The observations of one case in one process.

    `opened` has pairs: a file of the project whose code opened something, or an empty text, and the item. `shared` are
    the items that a library may keep for later cases. `loaded` are the modules and libraries outside the project that
    the process loaded since the case before, and `tops` are names of modules: loaded from outside the project, or
    missing.
    """

    process: int
    opened: list[tuple[str, str]]
    shared: list[str]
    loaded: list[str]
    tops: list[str]


def _with_names(found: CaseUses) -> CaseUses:
    """Return the observations whose paths are texts; where others are left out, no case of the process is reused."""
    paired = (name for pair in found.opened for name in pair)
    if all(map(_is_text, (*paired, *found.shared, *found.loaded, *found.tops))):
        return found
    opened = [pair for pair in found.opened if all(map(_is_text, pair))]
    shared, loaded, tops = ([*filter(_is_text, names)] for names in (found.shared, found.loaded, found.tops))
    unreadable = f"{REASON_MARK}unreadable"
    return CaseUses(found.process, [*opened, ("", unreadable)], [*shared, unreadable], loaded, tops)


def _is_text(path: str) -> bool:
    # The locale cannot decode a path with surrogates, and no message of a worker can have them.
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


class ProcessUses:
    """Note the files that this process uses, from now to its end."""

    # Python has no way to remove an audit hook, so this belongs into a process that ends with its work.

    def __init__(self, project: str) -> None:
        """Begin; `project` is the absolute path of the project's folder."""
        self._roots = tuple(f"{root}/" for root in dict.fromkeys((project, os.path.realpath(project))))
        self._own = f"{os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))}/"
        self._standard = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib"))
        self._origins: dict[str, _Origin] = {}
        self._opened: dict[tuple[str, str], None] = {}
        self._shared: dict[str, None] = {}
        self._written: set[str] = set()
        self._names: set[str] = set()
        self._loaded_elsewhere: set[str] = set()
        self._tops_elsewhere: set[str] = set()
        # The latest observations of another process, and by `is` the same ones again.
        self._latest: tuple[Iterable[str], Iterable[str]] | None = None
        self._new_files: set[str] = set()
        self._new_tops: set[str] = set()
        self._known_modules: set[str] = set()
        self._known_files: set[str] = set()
        self._known_tops: set[str] = set()
        self._count = -1
        sys.addaudithook(self._note)

    def end_case(self) -> CaseUses:
        """Return the observations since the last call, and forget those of the case."""
        opened = [(code, item) for code, item in [*self._opened] if self._can_change(item)]
        shared = [item for item in [*self._shared] if self._can_change(item)]
        self._look_at_modules()
        # The libraries that a library of the project links come with the list of mapped files.
        opened += [pair for pair in self._opened if pair not in {*opened} and self._can_change(pair[1])]
        loaded, tops = sorted(self._new_files), sorted(self._new_tops)
        found = _with_names(CaseUses(os.getpid(), opened, shared, loaded, tops))
        self._opened.clear()
        self._shared.clear()
        self._written.clear()
        return found

    def add_from_other_process(self, items: Iterable[str], loaded: Iterable[str], tops: Iterable[str]) -> None:
        """Add what another process observed that computed for the present case."""
        self._opened.update(dict.fromkeys(("", item) for item in items))
        # Some hundred paths, which the cases of an oracle share: an earlier case has reported them.
        if self._latest is None or self._latest[0] is not loaded or self._latest[1] is not tops:
            self._latest = loaded, tops
            self._loaded_elsewhere.update(loaded)
            self._tops_elsewhere.update(tops)

    def is_of_project(self, path: str) -> bool:
        """Return whether a path lies in the project, and not in a package that is installed there."""
        inside = path.startswith(self._roots) and not path.startswith(self._own)
        return inside and "/site-packages/" not in path and "/dist-packages/" not in path

    def _can_change(self, item: str) -> bool:
        """Return whether an item can change by itself: `loaded` and `tops` have the modules outside the project."""
        if not item.startswith(MODULE_MARK):
            return True
        module = sys.modules.get(item[1:].partition(".")[0])
        if module is None:
            return item[1:] not in self._names
        places = (getattr(module, "__file__", None), *getattr(module, "__path__", ()))
        return any(isinstance(place, str) and self.is_of_project(f"{os.path.abspath(place)}/") for place in places)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        read = _READERS.get(event)
        if read is None:
            return
        # An error here would be the error of the user's code. Arguments may be of any type.
        try:
            for item in read(self, arguments):
                self._add(item)
        except Exception:
            self._opened["", UNREADABLE] = None

    def _add(self, item: str) -> None:
        code, by_library, by_program = self._origin()
        if item.startswith(PROGRAM_MARK) and (code or by_library or not by_program):
            item = PROGRAMS
        if item.startswith(MODULE_MARK) and (by_library or not code):
            # Libraries try many names, and an import in the project would find few of them.
            self._names.add(item[1:])
        self._opened[code, item] = None
        # A reason belongs to the code that gives it. A file that a library opened may be in its cache.
        if not item.startswith(REASON_MARK) and (by_library or (not code and not self.is_of_project(item))):
            self._shared[item] = None

    def _origin(self) -> tuple[str, bool, bool]:
        """Return the innermost file of the project on the stack, and whether code of libraries, or precreg, called."""
        by_library = by_program = False
        frame = sys._getframe(3)
        while frame is not None:
            file = frame.f_code.co_filename
            origin = self._origins.get(file) or self._classify(file)
            if origin == "project":
                return os.path.abspath(file), by_library, by_program
            by_library |= origin == "library"
            by_program |= file.endswith("precreg/subject/command/process.py")
            frame = frame.f_back  # type: ignore[assignment]
        return "", by_library, by_program

    def _classify(self, file: str) -> _Origin:
        path = os.path.abspath(file)
        if file.startswith("<") or path.startswith(self._own):
            origin: _Origin = "plain"
        elif self.is_of_project(path):
            origin = "project"
        elif path.startswith(self._standard) and "-packages/" not in path:
            origin = "plain"
        else:
            top = path.rpartition("-packages/")[2].partition("/")[0]
            origin = "plain" if top in _PLAIN_LIBRARIES else "library"
        self._origins[file] = origin
        return origin

    def _look_at_modules(self) -> None:
        """Note new loaded files outside the project, and new names of modules outside it or missing."""
        files, tops = self._loaded_elsewhere, self._tops_elsewhere
        tops |= {name.partition(".")[0] for name in self._names if name not in sys.modules}
        self._names.clear()
        if len(sys.modules) != self._count:
            self._count = len(sys.modules)
            for name in sys.modules.keys() - self._known_modules:
                self._known_modules.add(name)
                file = getattr(sys.modules.get(name), "__file__", None)
                path = os.path.abspath(file) if isinstance(file, str) else ""
                if not self.is_of_project(path):
                    tops.add(name.partition(".")[0])
                    files.add(path)
            files |= self._mapped_libraries()
        self._new_files = {file for file in files if file and not file.startswith(self._own)} - self._known_files
        self._new_tops = tops - self._known_tops
        self._known_files |= self._new_files
        self._known_tops |= self._new_tops
        files.clear()
        tops.clear()

    def _mapped_libraries(self) -> set[str]:
        """Return the libraries outside the project that this process has mapped; add those inside to their openers."""
        found = set[str]()
        openers = [item for _, item in self._opened if ".so" in item and item.startswith(FOLDER_END)]
        for path in _mapped_files():
            if path.endswith(" (deleted)"):
                self._opened["", DELETED_LIBRARY] = None
            elif not self.is_of_project(path):
                found.add(path)
            elif path not in self._known_files:
                self._known_files.add(path)
                self._opened.update(dict.fromkeys((opener, path) for opener in openers))
        return found

    def _path_item(self, given: Any, end: str = "") -> Iterator[str]:
        """Yield the absolute path of an argument of an event, unless it is no path, or one that needs no check."""
        if not isinstance(given, str | bytes | os.PathLike):
            return
        text = os.fsdecode(given)
        path = os.path.abspath(text)
        if path.endswith(".pyc"):
            path = _source_of(path)
        if path.startswith(_SYSTEM) or path.startswith(self._own) or "\0" in path or text == "":
            return
        if path in self._written or any(folder in self._written for folder in _parents(path)):
            return
        # Modules that are installed count by sys.modules, and importing a library opens thousands of files.
        if path.endswith(".py") and not self.is_of_project(path) and not end:
            return
        yield path if path.endswith(FOLDER_END) else path + end

    def _opened_items(self, arguments: tuple[Any, ...]) -> Iterator[str]:
        path, _, flags = arguments
        if not isinstance(path, str | bytes | os.PathLike):
            return
        if flags & os.O_TRUNC or (flags & os.O_CREAT and flags & os.O_EXCL):
            self._written.add(os.path.abspath(os.fsdecode(path)))
        elif flags & os.O_ACCMODE != os.O_WRONLY:
            yield from self._path_item(path)

    def _made_items(self, arguments: tuple[Any, ...]) -> Iterator[str]:
        # The files in a folder that the case made are its own.
        if isinstance(arguments[0], str | bytes | os.PathLike) and not os.path.lexists(arguments[0]):
            self._written.add(os.path.abspath(os.fsdecode(arguments[0])))
        yield from ()

    def _imported_items(self, arguments: tuple[Any, ...]) -> Iterator[str]:
        name, file = arguments[0], arguments[1]
        if isinstance(name, str) and name.partition(".")[0] not in sys.stdlib_module_names:
            yield f"{MODULE_MARK}{name}"
        # The file of a compiled module; of other modules it is None, and `open` shows them.
        yield from self._path_item(file)

    def _listed_items(self, arguments: tuple[Any, ...]) -> Iterator[str]:
        # Import systems list every folder of sys.path; a module that appears there shows in other ways.
        # From here up: _note, then the function that lists.
        if not sys._getframe(2).f_code.co_filename.startswith(_IMPORT_SYSTEM):
            yield from self._path_item("." if arguments[0] is None else arguments[0], FOLDER_END)

    def _library_items(self, arguments: tuple[Any, ...]) -> Iterator[str]:
        self._count = -1
        # A library without a slash comes from the system's folders, and the list of mapped files has it.
        if isinstance(arguments[0], str | bytes | os.PathLike) and "/" in os.fsdecode(arguments[0]):
            yield from self._path_item(arguments[0])

    def _first_item(self, arguments: tuple[Any, ...]) -> Iterator[str]:
        yield from self._path_item(arguments[0])

    def _pattern_items(self, arguments: tuple[Any, ...]) -> Iterator[str]:
        # A pattern without wildcards lists no folder.
        if isinstance(arguments[0], str) and not set("*?[") & set(arguments[0]):
            yield from self._path_item(arguments[0])

    def _started_items(self, arguments: tuple[Any, ...]) -> Iterator[str]:
        words = arguments[1] if isinstance(arguments[1], list | tuple) else (arguments[1],)
        yield from (f"{PROGRAM_MARK}{word}" for word in (words[:1] or (arguments[0],)) if isinstance(word, str))
        yield from (item for word in words[1:] if os.path.isfile(word) for item in self._path_item(word))

    def _program_reason(self, _arguments: tuple[Any, ...]) -> Iterator[str]:
        yield PROGRAMS

    def _network_reason(self, arguments: tuple[Any, ...]) -> Iterator[str]:
        yield NETWORK


_Reader = Callable[[ProcessUses, tuple[Any, ...]], Iterator[str]]
_READERS: dict[str, _Reader] = {
    "open": ProcessUses._opened_items,
    "import": ProcessUses._imported_items,
    "ctypes.dlopen": ProcessUses._library_items,
    "glob.glob": ProcessUses._pattern_items,
    "os.listdir": ProcessUses._listed_items,
    "os.mkdir": ProcessUses._made_items,
    "os.scandir": ProcessUses._listed_items,
    "sqlite3.connect": ProcessUses._first_item,
    "subprocess.Popen": ProcessUses._started_items,
    **dict.fromkeys(
        ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"),
        ProcessUses._program_reason,
    ),
    **dict.fromkeys(
        ("socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"),
        ProcessUses._network_reason,
    ),
}


def _mapped_files() -> Iterator[str]:
    """Yield the files with code that this process has mapped; none where the system has no list of them."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
            rows = [line.rstrip("\n").split(None, 5) for line in lines]
    except OSError:
        return
    yield from dict.fromkeys(row[5] for row in rows if len(row) == 6 and "x" in row[1] and row[5].startswith("/"))


def _parents(path: str) -> Iterator[str]:
    while (parent := os.path.dirname(path)) != path:
        yield parent
        path = parent


def _source_of(path: str) -> str:
    """Return the module's text for a cached module."""
    try:
        return source_from_cache(path)
    except ValueError:
        return path


# The project whose oracles are observed, too; None for a run that reuses nothing. A worker sets it before it forks the
# process of its oracles.
_observed_project: str | None = None
_present: ProcessUses | None = None


def observe_project(project: str) -> None:
    """Have the processes that this one forks observe themselves."""
    global _observed_project
    _observed_project = project


def begin_observation() -> ProcessUses | None:
    """Observe this process from now on; do nothing, and return None, for a run that reuses nothing."""
    global _present
    if _observed_project is not None:
        _present = ProcessUses(_observed_project)
    return _present


def present_observation() -> ProcessUses | None:
    """Return the observation of this process; None without one."""
    return _present


class OtherProcess:
    """Collect the observations of a process that computes one oracle: all of its calls use the same code."""

    def __init__(self) -> None:
        """Begin to observe, if this run observes."""
        self._observation = begin_observation()
        self._items: dict[str, None] = {}
        self._loaded: dict[str, None] = {}
        self._tops: dict[str, None] = {}

    def new_items(self) -> tuple[list[str], list[str], list[str]] | None:
        """Return all items, loaded files and names so far; None if nothing came since the last call."""
        if self._observation is None:
            return None
        before = len(self._items), len(self._loaded), len(self._tops)
        found = self._observation.end_case()
        self._items.update(dict.fromkeys((*(item for _, item in found.opened), *found.shared)))
        self._loaded.update(dict.fromkeys(found.loaded))
        self._tops.update(dict.fromkeys(found.tops))
        if before == (len(self._items), len(self._loaded), len(self._tops)):
            return None
        return [*self._items], [*self._loaded], [*self._tops]
