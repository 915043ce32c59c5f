"""Tensors of torch in live calls: any dtype, with gradients, as inputs of a torch subject."""

import ml_dtypes
import numpy as np
import pytest
import torch

import precreg
from precreg.storage.npy import read_npz
from precreg.storage.yaml_source import read_yaml
from precreg.subject.call import name_outputs
from precreg.suite.capture.arguments import UncapturedCall, as_array, recorded_outputs


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.float32, "float32"),
        (torch.float16, "float16"),
        (torch.bfloat16, "bfloat16"),
        (torch.float8_e4m3fn, "float8_e4m3fn"),
        (torch.float8_e5m2, "float8_e5m2"),
        (torch.int64, "int64"),
        (torch.bool, "bool"),
        (torch.complex64, "complex64"),
    ],
)
def test_a_tensor_keeps_its_bits(dtype, name):
    tensor = torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 6.0]]).to(dtype).T
    array = as_array(tensor)
    assert array.dtype == np.dtype(getattr(ml_dtypes, name, None) or name)
    assert array.astype(np.complex128).tolist() == tensor.to(torch.complex128).tolist()


def test_a_tensor_with_a_gradient_or_conjugated_is_an_array():
    tensor = torch.ones(3, requires_grad=True) * 2
    assert as_array(tensor).tolist() == [2.0, 2.0, 2.0]
    assert as_array(torch.tensor([1 + 2j]).conj()).tolist() == [1 - 2j]
    with pytest.raises(UncapturedCall, match="quantized or sparse"):
        as_array(torch.eye(3).to_sparse())


def test_results_inside_results_have_the_names_of_a_subject():
    hidden, cell = torch.ones(2), torch.zeros(3, dtype=torch.bfloat16)
    returned = (torch.ones(4), {"state": (hidden, cell), "loss": None, "sparse": torch.eye(2).to_sparse()})
    outputs = recorded_outputs(returned)
    assert [*outputs] == ["0", "1.state.0", "1.state.1", "1.sparse"]
    assert outputs["1.state.1"].dtype == ml_dtypes.bfloat16
    assert outputs["1.sparse"].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert [*outputs] == [*name_outputs(returned)]


def test_an_input_that_no_suite_can_give_again_is_not_captured():
    scale = torch.ones(4, dtype=torch.float32).to(torch.float8_e8m0fnu)
    with pytest.raises(UncapturedCall, match="dtype=torch"):
        as_array(scale)


def test_a_function_on_tensors_becomes_a_torch_subject(tmp_path, monkeypatch):
    (tmp_path / "suites").mkdir()
    (tmp_path / "captured_layers.py").write_text("def double(x, factor=2):\n    return x * factor\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import captured_layers

    with precreg.capture(captured_layers.double):
        captured_layers.double(torch.ones(2, 3, dtype=torch.bfloat16, requires_grad=True))
    suite = read_yaml(tmp_path / "suites/unit/double.yaml", "double.yaml").data
    assert suite["subject"] == {"torch": "captured_layers:double"}
    assert "reference" not in suite, "the kind has a reference of its own"
    assert suite["params"] == {"factor": 2}
    (stored,) = read_npz(tmp_path / "suites/unit/double/call0-bfloat16-2x3.npz", "x").values()
    assert stored.dtype == ml_dtypes.bfloat16
