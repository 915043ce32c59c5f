"""What a result is allowed: layers of bounds, the pyramid they make, published standards."""
