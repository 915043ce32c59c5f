"""The room arithmetic."""
