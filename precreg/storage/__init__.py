"""How does precreg read and write files?

Files are replaced in one step, YAML keeps its lines, and array files and records are checked before they are used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
