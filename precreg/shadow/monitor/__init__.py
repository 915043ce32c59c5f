"""Which errors do the layers of a module of torch make while it is trained or used?

A monitor samples every Nth step. A sampled step runs in lockstep with float64 values of its tensors.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
