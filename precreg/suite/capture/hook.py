"""How does a program start with one of its functions recorded, without a change of the program?

`precreg capture` puts a folder with a sitecustomize.py in front of the module path of the program. Python imports it at
its start, also in the program's own Python processes. It waits for the import of the module, and records the function
from then on. Every process leaves its kept calls in one folder, and the command makes the suite.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from precreg.errors import nearest

VARIABLE = "PRECREG_CAPTURE"
_SITE = """\
# Made by `precreg capture` for one run of a program.
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_here = os.path.dirname(__file__)
sys.path[:] = [folder for folder in sys.path if folder != _here]
# The one that this folder hides.
_hidden = PathFinder.find_spec("sitecustomize", sys.path)
if _hidden is not None and _hidden.loader is not None:
    _hidden.loader.exec_module(module_from_spec(_hidden))
try:
    from precreg.suite.capture.hook import record_on_import

    record_on_import()
except Exception as problem:
    print(f"precreg: nothing is captured in this process: {problem}", file=sys.stderr)
"""


def captured_environment(target: str, spool: Path, limit: int, max_bytes: int) -> dict[str, str]:
    """Make the files of the hook in a folder, and return the environment of a program that is captured."""
    site = spool / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(_SITE, encoding="utf-8")
    settings = {"target": target, "spool": str(spool), "limit": limit, "max_bytes": max_bytes}
    path = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        VARIABLE: json.dumps(settings),
        "PYTHONPATH": str(site) if not path else f"{site}{os.pathsep}{path}",
    }


def record_on_import() -> None:
    """Record the function that the environment names, as soon as its module is imported."""
    settings = json.loads(os.environ[VARIABLE])
    module = settings["target"].partition(":")[0]
    if module in sys.modules:
        _record(sys.modules[module], settings)
    else:
        sys.meta_path.insert(0, _Finder(module, settings))


class _Finder(MetaPathFinder):
    """Finds one module as others do, and records its function after its import."""

    def __init__(self, module: str, settings: dict[str, Any]) -> None:
        self.module, self.settings, self.is_searching = module, settings, False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the module, with a loader that records the function."""
        if fullname != self.module or self.is_searching:
            return None
        self.is_searching = True
        try:
            found = find_spec(fullname)
        finally:
            self.is_searching = False
        if found is None or found.loader is None:
            return None
        found.loader = _Loader(found.loader, self.settings)
        return found


class _Loader(Loader):
    """Loads a module as its own loader does, and records the function after that."""

    def __init__(self, inner: Any, settings: dict[str, Any]) -> None:
        self.inner, self.settings = inner, settings

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave the creation to the module's own loader."""
        created: ModuleType | None = self.inner.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, and record its function."""
        # The module may look at its loader, and must find its own.
        if module.__spec__ is not None:
            module.__spec__.loader = self.inner
        module.__loader__ = self.inner
        self.inner.exec_module(module)
        _record(module, self.settings)


def _record(module: ModuleType, settings: dict[str, Any]) -> None:
    """Put a recording function in place of the module's own."""
    from precreg.suite.capture.live import Capture

    spool = Path(settings["spool"])
    owner: Any = module
    *outer, name = settings["target"].partition(":")[2].split(".")
    try:
        for each in outer:
            owner = getattr(owner, each)
        function = getattr(owner, name)
    except AttributeError:
        near = nearest(name, vars(owner) if hasattr(owner, "__dict__") else ())
        problem = f"expected a function of {module.__name__} but got {'.'.join((*outer, name))}{near}"
        print(f"precreg: nothing is captured in this process: {problem}", file=sys.stderr)
        return
    capture = Capture(settings["target"], limit=settings["limit"], max_bytes=settings["max_bytes"])
    capture.leave_to(spool)
    setattr(owner, name, capture.wrap(function))
