"""What benchmarks/measure.py is made of: data, peers, the limit of the memory, the clock, peak memory in a child."""
