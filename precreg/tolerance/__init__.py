"""Which errors are allowed?

Layers of bounds form the tolerance pyramid. Published standards are layers, too.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
