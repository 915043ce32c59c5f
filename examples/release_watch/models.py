"""Write an ONNX model for each watched operator. This needs the package onnx; running the models does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from functions import Function, watched_functions

# ONNX Runtime 1.15, the oldest watched release, reads IR version 9 and opset 17 of ai.onnx.
IR_VERSION = 9
OPSET = 17
MICROSOFT = ("Gelu", "FastGelu", "QuickGelu")
# The power of two of exact.py.
QUANTIZATION_SCALE, QUANTIZATION_ZERO = 0.0625, 128


def model_of(function: Function, dtype: str) -> Any:
    """Return a model of one node, whose inputs are x0, x1, ..."""
    arrays = function.arrays(dtype)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    names = [f"x{place}" for place in range(len(arrays))]
    inputs = [
        helper.make_tensor_value_info(name, element, array.shape) for name, array in zip(names, arrays, strict=True)
    ]
    constants, result = [], element
    attributes = dict(function.options)
    if function.path == "QuantizeLinear":
        constants = [
            numpy_helper.from_array(np.float32(QUANTIZATION_SCALE), "scale"),
            numpy_helper.from_array(np.uint8(QUANTIZATION_ZERO), "zero"),
        ]
        result = TensorProto.UINT8
    domain = "com.microsoft" if function.path in MICROSOFT else ""
    ordered = [*names, *(constant.name for constant in constants)]
    node = helper.make_node(function.path, ordered, ["y"], domain=domain, **attributes)
    output = helper.make_tensor_value_info("y", result, None)
    graph = helper.make_graph([node], function.path, inputs, [output], constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def write_models(folder: Path) -> None:
    """Write the models of all operators and dtypes."""
    folder.mkdir(parents=True, exist_ok=True)
    for function in watched_functions("onnxruntime"):
        for dtype in function.dtypes:
            save(model_of(function, dtype), folder / f"{function.name}.{dtype}.onnx")
