"""Which inputs within declared ranges have the largest errors?

A search executes the subject of a case and its reference on many candidates, and keeps those with the largest error.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
