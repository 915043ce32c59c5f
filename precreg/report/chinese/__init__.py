"""How do people read a report in Chinese? Each module writes its sentences from the facts of the English ones."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
