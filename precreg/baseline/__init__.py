"""Which results were accepted?

The store of baselines, the proposals of runs, and their review.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
