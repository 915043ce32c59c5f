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

import lazy_loader  # noqa: E402  (after the path is safe)

__version__ = "0.1.0"

# `import precreg` alone imports neither numpy nor msgspec: each name is imported at its first use.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [*__all__, "__version__"]
