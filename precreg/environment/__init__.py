"""The room environment."""
