"""ResNet-50 exported to ONNX and run by ONNX Runtime: the graph of networks/resnet.py, node by node.

The file would have 100 MB, so it is made in memory at the first call of a process. torch.onnx.export is not used: its
old form is deprecated, its new form needs another package, and both may change the graph with each release.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from networks.resnet import Bottleneck, ResNet, resnet50
from onnx import TensorProto, helper, numpy_helper
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

OPSET, IR_VERSION = 17, 8
"""Both are old enough for every ONNX Runtime from 1.20 on."""


class Graph:
    """The nodes and weights of a model, which grow as its layers are called by name of their input."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.numbers = count()

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        """Add a node with one output, and return the output's name."""
        output = output or f"{operator}_{next(self.numbers)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def weight(self, values: Tensor) -> str:
        """Add a weight, and return its name."""
        name = f"weight_{next(self.numbers)}"
        self.weights.append(numpy_helper.from_array(values.detach().numpy(), name))
        return name

    def convolution(self, layer: nn.Conv2d, x: str) -> str:
        """Add a convolution without bias."""
        pads, sizes = [*layer.padding, *layer.padding], list(layer.kernel_size)
        return self.add("Conv", x, self.weight(layer.weight), kernel_shape=sizes, strides=list(layer.stride), pads=pads)

    def norm(self, layer: nn.BatchNorm2d, x: str) -> str:
        """Add a batch norm with its running statistics."""
        values = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
        return self.add("BatchNormalization", x, *map(self.weight, values), epsilon=layer.eps)

    def block(self, block: Bottleneck, x: str) -> str:
        """Add a bottleneck."""
        branch = self.add("Relu", self.norm(block.bn1, self.convolution(block.conv1, x)))
        branch = self.add("Relu", self.norm(block.bn2, self.convolution(block.conv2, branch)))
        branch = self.norm(block.bn3, self.convolution(block.conv3, branch))
        if block.downsample is not None:
            x = self.norm(block.downsample[1], self.convolution(block.downsample[0], x))
        return self.add("Relu", self.add("Add", branch, x))


def exported(model: ResNet) -> onnx.ModelProto:
    """Return the model as ONNX, with a free number of images and free sizes."""
    graph = Graph()
    x = graph.add("Relu", graph.norm(model.bn1, graph.convolution(model.conv1, "x")))
    x = graph.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage in (model.layer1, model.layer2, model.layer3, model.layer4):
        for block in stage:
            x = graph.block(block, x)
    x = graph.add("Flatten", graph.add("GlobalAveragePool", x))
    graph.add("Gemm", x, graph.weight(model.fc.weight), graph.weight(model.fc.bias), output="logits", transB=1)
    graph.add("ArgMax", "logits", output="top1", axis=-1, keepdims=0)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["images", 3, "height", "width"])]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["images", model.fc.out_features]),
        helper.make_tensor_value_info("top1", TensorProto.INT64, ["images"]),
    ]
    made = helper.make_graph(graph.nodes, "resnet50", inputs, outputs, graph.weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


@cache
def session(optimization: str) -> onnxruntime.InferenceSession:
    """Load the exported model, on one thread, with ORT_DISABLE_ALL, ORT_ENABLE_ALL or a level between."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, optimization)
    model = exported(resnet50()).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def classify(x: npt.NDArray[np.float32], *, optimization: str) -> dict[str, npt.NDArray]:
    """Classify images (images, 3, height, width): the logits, and the class with the largest one."""
    return dict(zip(("logits", "top1"), session(optimization).run(["logits", "top1"], {"x": x}), strict=True))
