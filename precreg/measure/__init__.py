"""How far apart are two arrays?

One pass over the pairs adds up a tally, and every metric is a formula of the tally. Nothing here judges.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
