"""Who computes: the kinds of subject, found by entry point, and the one shape in which they take and give arrays."""
