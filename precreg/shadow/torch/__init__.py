"""How do shadows travel beside tensors of torch?"""
