"""What torch.save writes is what the reader without torch finds, for every dtype that torch has a name for."""

import ml_dtypes
import numpy as np
import pytest
import torch

from precreg.errors import UserError
from precreg.storage.torch_file import find_torch_tensors

DTYPES = {
    torch.float64: np.float64,
    torch.float32: np.float32,
    torch.float16: np.float16,
    torch.int64: np.int64,
    torch.int32: np.int32,
    torch.int16: np.int16,
    torch.int8: np.int8,
    torch.uint8: np.uint8,
    torch.bool: np.bool_,
    torch.complex64: np.complex64,
    torch.complex128: np.complex128,
    torch.bfloat16: ml_dtypes.bfloat16,
    torch.uint16: np.uint16,
    torch.uint32: np.uint32,
    torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    torch.float8_e5m2: ml_dtypes.float8_e5m2,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(tmp_path, dtype):
    values = torch.arange(12, dtype=torch.float32).reshape(3, 4).to(dtype)
    torch.save({"a": values, "b": [values.t()]}, tmp_path / "y.pt")
    found = find_torch_tensors(tmp_path / "y.pt", "y.pt")
    expected = np.arange(12, dtype=np.float32).reshape(3, 4).astype(DTYPES[dtype])
    assert found["a"].load().tobytes() == expected.tobytes()
    assert found["b.0"].load().tobytes() == np.ascontiguousarray(expected.T).tobytes()
    assert found["a"].load().dtype == DTYPES[dtype]


def test_a_state_dict_has_the_names_of_the_module(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    torch.save(module.state_dict(), tmp_path / "y.pt")
    found = find_torch_tensors(tmp_path / "y.pt", "y.pt")
    assert [*found] == [*module.state_dict()]
    np.testing.assert_array_equal(found["0.weight"].load(), module[0].weight.detach().numpy())


@pytest.mark.parametrize(
    "saved",
    [torch.nn.Linear(2, 2), torch.ones(3).to_sparse(), torch.zeros(3, dtype=torch.complex64).conj()],
    ids=["module", "sparse", "conjugate"],
)
def test_what_is_no_plain_tensor_is_refused(tmp_path, saved):
    torch.save(saved, tmp_path / "y.pt")
    with pytest.raises(UserError, match="save"):
        find_torch_tensors(tmp_path / "y.pt", "y.pt")


def test_the_format_before_torch_1_6_is_refused(tmp_path):
    torch.save(torch.ones(3), tmp_path / "y.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(UserError, match="save it again with torch"):
        find_torch_tensors(tmp_path / "y.pt", "y.pt")
