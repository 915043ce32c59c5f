"""How much does each quantized layer of a model cost?

The error of each layer alone and accumulated, the layers to which the model is sensitive, and the bits that they need.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
