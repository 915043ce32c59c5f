"""How does one comparison look?

Pure functions from measurements to SVG, or to PNG with matplotlib.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
