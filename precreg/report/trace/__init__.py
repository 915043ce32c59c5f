"""How do people see a trace: where precision is lost, operation by operation or step by step?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
