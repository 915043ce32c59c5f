"""Which parts of a computation need a wider dtype for a bound to hold?

The trace ranks the parts by their shares of the error. A search over the ranking runs the case a few times.
"""
