"""Which suite does a new project begin with: which inputs fit a function, and which tolerances fit its first figures?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
