"""Stored arrays held against stored arrays: which against which, all of them measured, each pair judged."""
