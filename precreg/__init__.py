"""precreg: CI regression testing for numerical precision.

From Python: `compare` measures two arrays and returns a `Comparison`. docs/api.md has examples, docs/metrics.md the
unit and formula of every metric.
"""

import sys

# `python -m precreg` puts the current folder first on the path. A module of the user's project, such as selectors.py,
# must not take the place of Python's or of a library in this process. Imports of precreg's own modules need no path.
_after = sys.orig_argv[sys.orig_argv.index("-m") + 1 :] if "-m" in sys.orig_argv else []
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and _after and _after[0].partition(".")[0] == "precreg":
    del sys.path[0]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import a public name at its first use: `import precreg` alone imports neither numpy nor msgspec."""
    import lazy_loader  # late: `precreg --version` and the hook of a push without changes need none of the names

    get, names_of, names = lazy_loader.attach_stub(__name__, __file__)
    # They take the place of these functions from now on.
    globals().update(__getattr__=get, __dir__=names_of, __all__=[*names, "__version__"])
    return globals()[name] if name == "__all__" else get(name)


def __dir__() -> list[str]:
    return list(__getattr__("__all__"))  # type: ignore[call-overload,no-any-return]
