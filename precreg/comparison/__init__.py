"""The room comparison."""
