"""Where does a training in reduced precision lose information?

Gradients that underflow or overflow, updates that a weight's format cannot hold, loss scales, clipping, and the step at
which two runs of one training part.
"""

from typing import Any

import lazy_loader

_getattr, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Return a name of this room, or `observe`, which is precreg.observe."""
    if name == "observe":
        # Its page comes from report/, which is above this room.
        import precreg

        return precreg.observe
    return _getattr(name)
