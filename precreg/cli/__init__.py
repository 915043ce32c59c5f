"""Which arguments does each command take, and which output does it print?

One module for each command, or for a few that share their options. Nothing here composes a run.
"""
