"""The room arithmetic/devices."""
