"""Which changes of a computation are hypotheses about the cause of an error?

A hypothesis is a rewrite at a place. precreg makes all of them for the places of a computation, the likely ones first.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
