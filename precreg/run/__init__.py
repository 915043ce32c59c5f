"""Which steps does a run take?

The session composes them: cases run in workers, a journal stores their outcomes, and each outcome is judged.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
