"""How is an ONNX model computed?

ONNX Runtime computes it, and the reference is the same graph in float64. The folders of ONNX's backend tests are
subjects, too.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
