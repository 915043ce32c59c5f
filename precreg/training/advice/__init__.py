"""Which remedy removes a precision fault of a training, measured on a short rerun?

Symptoms are facts of one short run and of its float64 twin. Each remedy alters the recipe, which then runs again from
the same weights on the same batches.
"""
