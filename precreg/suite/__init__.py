"""The room suite."""
