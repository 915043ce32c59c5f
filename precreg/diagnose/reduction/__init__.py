"""Which smallest part of a computation still fails, as a suite of its own?

Each operation has its own error. A search keeps the errors of fewer and fewer operations while the case still breaks
its bounds.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
