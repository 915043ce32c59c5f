"""The room measure."""
