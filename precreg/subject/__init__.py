"""The room subject."""
