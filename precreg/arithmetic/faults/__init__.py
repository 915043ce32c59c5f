"""Which mistakes do kernels and devices make?

Each fault rewrites operations, inputs or parameters of a case, so that the gate can be tested with it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
