"""Loading a shipped kernel by its path, under a name that no other test's `kernels` package can meet."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

SUITES = Path(__file__).parents[2] / "suites"


def load(path: str) -> ModuleType:
    spec = spec_from_file_location("shipped_" + path.replace("/", "_"), SUITES / f"{path}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with suites_on_path():
        spec.loader.exec_module(module)
    return module


@contextmanager
def suites_on_path() -> Iterator[None]:
    """Let a kernel import what stands in suites/ for all tiers, and forget it: a test may run another project here."""
    before = set(sys.modules)
    sys.path.insert(0, str(SUITES))
    try:
        yield
    finally:
        sys.path.remove(str(SUITES))
        shared = {path.stem for path in SUITES.iterdir()}
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in shared:
                del sys.modules[name]
