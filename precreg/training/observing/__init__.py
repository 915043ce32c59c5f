"""Which figures does an observer of a training of torch keep?

It sees the steps of the optimizer, the scaler and the clipping, and samples some of the steps.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
