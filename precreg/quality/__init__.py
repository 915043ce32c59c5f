"""The room quality."""
