"""How do people see the divergence of two trainings: in a terminal, and as a page?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
