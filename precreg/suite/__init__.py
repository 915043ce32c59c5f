"""What is run: YAML suites, their expansion into cases, selection, and the tolerance pyramid."""
