"""precreg: CI regression testing for numerical precision.

From Python: `compare` measures two arrays, and gives a `Comparison`. docs/api.md has examples, docs/metrics.md the unit
and formula of everything in it.
"""

__version__ = "0.1.0"

__all__ = ["METRICS", "Comparison", "Metric", "UserError", "__version__", "analyzer", "compare"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from precreg.api import compare
    from precreg.errors import UserError
    from precreg.measure.metrics import METRICS
    from precreg.measure.protocol import analyzer
    from precreg.types.metric import Metric
    from precreg.types.types import Comparison

_HOMES = {
    "METRICS": "precreg.measure.metrics",
    "Comparison": "precreg.types.types",
    "Metric": "precreg.types.metric",
    "UserError": "precreg.errors",
    "analyzer": "precreg.measure.protocol",
    "compare": "precreg.api",
}
"""Where public names live. They are imported when they are first asked for: `import precreg` alone brings no numpy."""


if not TYPE_CHECKING:  # where a type checker saw it, it would take any name for public

    def __getattr__(name: str) -> object:
        """Import a public name, once."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    """List what can be asked for."""
    return sorted({*globals(), *__all__})
