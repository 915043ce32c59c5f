"""Which uncertainty has a change of errors?

Group sums, jackknife errors, Student's t, sequential tests and change points, on plain floats.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
