"""The room verdict/statistics."""
