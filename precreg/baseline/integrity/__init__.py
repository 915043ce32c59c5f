"""Did a change also change how it is judged?

precreg compares the baselines, bounds and definitions of a base commit with the working tree.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
