"""The room arithmetic/faults."""
