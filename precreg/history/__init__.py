"""Runs over time: where they are kept."""
