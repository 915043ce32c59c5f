"""How far apart are stored arrays?

Arrays of files and folders are paired by name, measured, judged and reported.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
