"""How do people see drift: the metrics that move away from their baselines over the runs?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
