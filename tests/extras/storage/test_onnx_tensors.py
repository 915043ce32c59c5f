"""What onnx writes as a TensorProto is what the reader without onnx finds."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from precreg.storage.tensor_proto import find_tensor_proto

DTYPES = [np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32]
DTYPES += [np.uint64, np.bool_, np.complex64, np.complex128, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]


def same(path, tensor, expected):
    path.write_bytes(tensor.SerializeToString())
    found = find_tensor_proto(path, "y.pb").load()
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_raw_and_typed_data(tmp_path, dtype):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    raw = numpy_helper.from_array(values)
    same(tmp_path / "y.pb", raw, values)
    typed = helper.make_tensor("y", raw.data_type, values.shape, values.ravel())
    same(tmp_path / "y.pb", typed, values)


def test_the_first_node_test_of_onnx_is_read(tmp_path):
    """onnx itself parses what the test writes, so the two readers agree on one file."""
    values = np.float32([[1, -0.0], [np.inf, np.nan]])
    onnx.save_tensor(numpy_helper.from_array(values), tmp_path / "y.pb")
    assert find_tensor_proto(tmp_path / "y.pb", "y.pb").load().tobytes() == values.tobytes()
