"""Why does a case fail?

A diagnosis executes each hypothesis: it rewrites one operation of a computation that is right, and compares the result
with the failing one bit by bit.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
