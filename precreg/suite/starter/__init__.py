"""Which suite does a new project begin with?

Guesses of calls come from a docstring, annotations and names. The bounds come from the first figures.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
