"""Which cases does a project define?

Suites are YAML files. Each expands into cases, and a selection never changes a case.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
