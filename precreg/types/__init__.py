"""The room types."""
