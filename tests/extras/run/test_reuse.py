"""Outcomes of models in ONNX and torch are reused as long as models, weights and code are the same."""

from tests.extras.onnx_models import gelu_net, save
from tests.run.reuse.projects import runs, write

__all__ = ["runs"]

ONNX = """\
suite: a
subject: {onnx: net.onnx}
inputs: {x: {shape: [4, 64], dtype: float32, normal: {}}}
tolerance: {rtol: 1e-2, atol: 1e-4}
"""
TORCH = """\
suite: a
subject: {torch: "a:f"}
reference: {torch: "a:f"}
inputs: {x: {shape: [8], dtype: float32, normal: {}}}
tolerance: {rtol: 1e-3}
"""
MODULE = "import torch\n\n\ndef f(x):\n    return torch.exp(x) * %d\n"


def test_the_file_of_a_model_and_its_weights(runs):
    unit = runs.project / "suites/unit"
    save(unit / "net.onnx", gelu_net(), external="net.bin")
    write(runs.project, {"suites/unit/a.yaml": ONNX})
    runs()
    assert runs() == {"a", "b"}, runs.fates
    weights = bytearray((unit / "net.bin").read_bytes())
    weights[3] ^= 1
    (unit / "net.bin").write_bytes(weights)
    assert "a" not in runs()
    assert "a" in runs(), runs.fates
    (unit / "net.bin").unlink()
    save(unit / "net.onnx", gelu_net(), external="net.bin")
    runs()
    assert "a" in runs(), runs.fates


def test_a_function_of_torch(runs):
    write(runs.project, {"suites/unit/a.yaml": TORCH, "suites/unit/a.py": MODULE % 1})
    runs()
    assert runs() == {"a", "b"}, runs.fates
    write(runs.project, {"suites/unit/a.py": MODULE % 2})
    assert runs() == {"b"}
    write(runs.project, {"suites/unit/table.bin": "1"})
    assert "a" not in runs(), "native code may read any data file of the project"
