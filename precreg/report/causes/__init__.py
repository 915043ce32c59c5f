"""How do people see causes: of one case, of a commit, of a layer, of an input?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
