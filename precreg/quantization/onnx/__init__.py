"""Which results does an ONNX model give with some of its layers quantized?

The graph has the float and the quantized form of each tensor; a run connects each layer to one of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
