"""Where does this run?

The processor, the libraries and their threads give an environment its fingerprint. Variables show whether it is CI.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
