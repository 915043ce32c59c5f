"""How do two versions of the code compare, run side by side?

The accepted version and the present one compute fresh inputs, seed after seed, until a sequential test decides.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
