"""Who computes?

A subject is a Python function or a set of recorded files. precreg calls it in its own module space, and restores
its surroundings afterwards. A check of the process after each case shows what it left.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
