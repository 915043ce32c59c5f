"""What changed in git, and which cases depend on it?

The repository, its commits, the pre-push hook, and the files behind each case.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
