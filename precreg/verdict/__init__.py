"""The rules: pure functions of comparison, tolerance and baseline."""
