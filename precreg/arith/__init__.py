"""Number formats as values, rounding to them, and operations and sums whose every step is rounded to them."""
