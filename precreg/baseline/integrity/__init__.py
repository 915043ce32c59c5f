"""The room baseline/integrity."""
