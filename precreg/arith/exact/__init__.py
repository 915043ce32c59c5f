"""The scalar forms, on rationals: slow, and short enough to be checked by eye."""
