"""How do shadows travel beside the values of an ONNX model?

The program that ONNX Runtime runs is computed in windows of its nodes, and each node beside it in float64.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
