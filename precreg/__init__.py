"""precreg: CI regression testing for numerical precision.

From Python: `compare` measures two arrays and returns a `Comparison`. docs/api.md has examples, docs/metrics.md the
unit and formula of every metric.
"""

import lazy_loader

__version__ = "0.1.0"

# `import precreg` alone imports neither numpy nor msgspec: each name is imported at its first use.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [*__all__, "__version__"]
