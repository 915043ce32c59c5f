"""Which calls of a function does a program make, and which suite repeats them?

A program that is captured never fails because of precreg: problems are counted, and printed at the end.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
