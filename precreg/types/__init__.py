"""Which values travel from a suite to its reports?

Frozen structs, one module for each stage: the case, its outcome, its verdict, the stored record, and the metrics.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
