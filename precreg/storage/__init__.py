"""The room storage."""
