"""Which results does a module of torch give with some of its layers quantized?

These modules import torch at their top: only code that has a module already imports them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
