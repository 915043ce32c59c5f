"""What benchmarks/numerics.py is made of: ways to round arrays, and ways to write a sum of products in an order."""
