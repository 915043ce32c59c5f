"""How did the metrics develop over many runs?

A SQLite file or a PostgreSQL database stores the metrics of a case at each run that changed them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
