"""ResNet-50 as ONNX: a valid model, with the logits of torch in float64, at each level of optimization."""

import numpy as np
import onnx
import pytest

from tests.extras.suites import plain_networks
from tests.suites.kernel_files import load

MODULE = load("networks/onnx_resnet")
LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_ALL")


def test_the_model_is_valid_and_the_same_each_time():
    models = [MODULE.exported(MODULE.resnet50()) for _ in range(2)]
    onnx.checker.check_model(models[0], full_check=True)
    assert models[0].SerializeToString(deterministic=True) == models[1].SerializeToString(deterministic=True)
    assert sum(node.op_type == "Conv" for node in models[0].graph.node) == 53


@pytest.mark.parametrize("level", LEVELS)
def test_onnx_runtime_computes_the_plain_network(level):
    images = np.random.default_rng(5).standard_normal((2, 3, 32, 48)).astype(np.float32)
    weights = {name: values.double().numpy() for name, values in MODULE.resnet50().state_dict().items()}
    expected = plain_networks.resnet50(images.astype(np.float64), weights)
    result = MODULE.classify(images, optimization=level)
    assert result["logits"].dtype == np.float32
    assert np.abs(result["logits"] - expected).max() < 1e-4 * np.abs(expected).max()
    assert result["top1"].tolist() == expected.argmax(1).tolist()
