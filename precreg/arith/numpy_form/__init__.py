"""The array forms on numpy, which serve where no compiler built the core."""
