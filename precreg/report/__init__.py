"""How do people see a run?

Every report is made from the run record alone: terminal, JUnit XML, HTML, Markdown and code quality.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
