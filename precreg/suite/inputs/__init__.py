"""Which arrays does a case take as inputs?

A specification, a name and a seed determine every bit, on every platform and with every version of numpy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
