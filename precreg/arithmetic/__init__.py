"""Which numbers exist, and which result does an operation give?

Number formats are values. Every fast function has an exact counterpart on rationals, and both give the same bits.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
