"""The run record, and everything made from it alone."""
