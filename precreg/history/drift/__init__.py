"""Does a metric drift?

precreg compares the latest runs of each series with its accepted baseline, an anchor and its own recent runs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
