"""Did a change also change how it is judged?

The baselines, bounds and definitions of a base commit are compared with those of the working tree.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
