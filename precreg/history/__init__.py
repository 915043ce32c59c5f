"""The room history."""
