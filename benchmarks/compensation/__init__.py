"""Compensation at size: class flips of deep networks in 8, 16 and 20 bits, with carried errors and without."""
