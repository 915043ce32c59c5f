"""Which remedy removes a precision fault of a training, measured on a short rerun?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
