"""How are functions and modules of torch run as subjects?

The kind "torch" gives them tensors on the hardware that the specification names, and sets every option of torch for
the time of a call. Suites read specifications when they load, without torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
