"""Faults as data: what devices and kernels get wrong, to be planted in any case, and harmless changes beside them."""
