"""Who computes?

A subject is a Python function, a function or module of torch, an ONNX model, a program, a set of recorded files or a
row of a table. Packages bring further kinds. precreg calls functions in their own module space, and restores its
surroundings afterwards. A check of the process after each case shows what it left.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
