"""How good is the gate?

Replicates measure the noise of a case, planted faults measure the rate of detection, and self-tests check the backends.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
