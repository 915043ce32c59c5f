"""How do people see a quantization: its table in a terminal, its JSON, and its page?"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
