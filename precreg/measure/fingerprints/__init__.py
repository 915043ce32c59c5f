"""Which shape do the errors of an output have, from its arrays alone?

Each detector looks for one shape in a sample of the elements, and gives a fact with its figures. An error without one
of these shapes gives none.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
