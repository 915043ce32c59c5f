"""Where does a training in reduced precision lose information?

Gradients that underflow or overflow, updates that a weight's format cannot hold, loss scales, clipping, and the step at
which two runs of one training part.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
