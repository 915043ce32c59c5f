"""Small ONNX models, float and quantized by ONNX Runtime."""

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

from tests.extras.onnx_models import constant, model, node, save, value


def weights(seed=0):
    rng = np.random.default_rng(seed)
    first = rng.standard_normal((6, 3, 3, 3)).astype(np.float32) / 5
    second = rng.standard_normal((6, 32)).astype(np.float32) / 2
    second[:, 3] *= 30
    third = rng.standard_normal((32, 5)).astype(np.float32) / 5
    return first, second, third


def float_net(path):
    """Save conv, relu, global pool, two products: the second one has a channel of outliers."""
    first, second, third = weights()
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c"], "conv"),
        node("Relu", ["c"], ["r"], "relu"),
        node("GlobalAveragePool", ["r"], ["p"], "pool"),
        node("Flatten", ["p"], ["f"], "flatten"),
        node("MatMul", ["f", "w2"], ["h"], "up"),
        node("Tanh", ["h"], ["t"], "tanh"),
        node("Gemm", ["t", "w3"], ["y"], "head"),
    ]
    bias = np.linspace(-0.5, 0.5, 6, dtype=np.float32)
    constants = [constant("w1", first), constant("b1", bias), constant("w2", second), constant("w3", third)]
    made = model(nodes, [value("x", shape=("n", 3, 8, 8))], [value("y", shape=("n", 5))], constants, opset=17)
    return save(path, made)


def images(seed=1, count=64):
    return np.random.default_rng(seed).standard_normal((count, 3, 8, 8)).astype(np.float32)


class Reader(CalibrationDataReader):
    def __init__(self, array, size=16):
        self.batches = iter([{"x": array[at : at + size]} for at in range(0, len(array), size)])

    def get_next(self):
        return next(self.batches, None)


def quantized_net(path, source, *, per_channel=False, method=CalibrationMethod.MinMax, **options):
    quantize_static(
        source,
        path,
        Reader(images()),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=method,
        **options,
    )
    return path
