"""Loading a shipped kernel by its path, under a name that no other test's `kernels` package can meet."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

SUITES = Path(__file__).parents[2] / "suites"


def load(path: str) -> ModuleType:
    spec = spec_from_file_location("shipped_" + path.replace("/", "_"), SUITES / f"{path}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
