"""How do items run in processes of their own?

A task says what the items are. The pool feeds the workers, and a crash or a hang costs the running item alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
