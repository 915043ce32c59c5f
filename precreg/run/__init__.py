"""How does a run happen?

The session composes it: cases run in workers, a journal keeps their outcomes, and each outcome is judged.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
