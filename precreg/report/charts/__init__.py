"""The room report/charts."""
