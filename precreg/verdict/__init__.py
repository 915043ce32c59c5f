"""Is a result accurate enough, and did it regress?

Pure functions of a comparison, a tolerance and a baseline.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
