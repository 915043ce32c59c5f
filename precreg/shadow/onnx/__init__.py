"""How do shadows travel beside the values of an ONNX model?"""
