"""Runs over time: where they are kept, and whether a metric drifts."""
