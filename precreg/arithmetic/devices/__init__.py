"""Which results does a simulated device give?

A table describes the formats, roundings and units of a device. Arrays that look like numpy's compute by it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
