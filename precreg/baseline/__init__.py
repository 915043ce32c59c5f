"""The room baseline."""
