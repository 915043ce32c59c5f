"""precreg: CI regression testing for numerical precision."""

__version__ = "0.1.0"
