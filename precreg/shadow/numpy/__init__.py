"""How do shadows travel beside numpy arrays?"""
