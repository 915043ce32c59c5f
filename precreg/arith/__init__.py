"""Number formats: the dtypes precreg knows, their spacing and rounding."""
