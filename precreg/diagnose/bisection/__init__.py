"""Which commit, statement, release or setting made a case worse?

A search runs the case by one version after the other, each in a process of its own. The good version's bits, the bad
version's bits, or a paired test with the good version judge each of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
