"""The room run."""
