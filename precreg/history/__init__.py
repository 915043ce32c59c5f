"""How did the metrics develop over many runs?

A SQLite file or a PostgreSQL database keeps the rows that changed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
