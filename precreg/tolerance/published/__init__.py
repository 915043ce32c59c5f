"""Acceptance standards as their publishers wrote them, as data, a module for each family."""
