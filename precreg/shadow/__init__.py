"""Where does a computation lose precision?

A value of higher precision, the shadow, travels beside each array. One engine each for numpy, torch and ONNX computes
it in lockstep. A recorder collects the operations with their errors, and the ledger ranks them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
