"""Which kernels get planted causes? Each module has a kernel in user's code and its formula in float64."""
