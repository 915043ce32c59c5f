"""Who computes: the kinds of subject, found by entry point."""
