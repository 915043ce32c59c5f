"""What was accepted: the store, proposals, and their review."""
