"""How do people see a training: its gradients, its loss scale and its clipping?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
