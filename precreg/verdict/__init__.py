"""The room verdict."""
