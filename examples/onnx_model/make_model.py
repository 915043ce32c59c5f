"""Export the trained network: write model.onnx."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

from trained import CLASSES, FEATURES, weights

# The dtype of the weights in the file. All nodes compute in float32.
STORED = np.float32


def model():
    """Return the model: dense, tanh, dense, softmax."""
    stored = [numpy_helper.from_array(values.astype(STORED), f"{name}_stored") for name, values in weights().items()]
    casts = [helper.make_node("Cast", [f"{name}_stored"], [name], to=TensorProto.FLOAT) for name in weights()]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"], "dense1"),
        helper.make_node("Tanh", ["hidden"], ["active"], "tanh"),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["logits"], "dense2"),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax", axis=-1),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", FEATURES])]
    outputs = [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", CLASSES])]
    graph = helper.make_graph([*casts, *nodes], "classifier", inputs, outputs, stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    checker.check_model(made, full_check=True)
    return made


if __name__ == "__main__":
    save(model(), Path(__file__).with_name("model.onnx"))
