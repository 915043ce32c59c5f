"""Every kind of tensor as an array, and back."""

import collections
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
import torch

import precreg
from precreg.arithmetic import DTYPE_NAMES, numpy_dtype
from precreg.errors import UserError
from precreg.subject.call import name_outputs
from precreg.subject.tensors import TORCH_DTYPES, TORCH_FLOATS, array_to_tensor, tensor_to_array

SMALL = [name for name in TORCH_FLOATS if name not in ("float32", "float64")]


def patterns(name):
    """Return every bit pattern of a format of one or two bytes."""
    size = numpy_dtype(name).itemsize
    return np.arange(2 ** (8 * size), dtype=f"uint{8 * size}")


@pytest.mark.parametrize("name", SMALL)
def test_every_bit_pattern_survives_in_each_direction(name):
    bits = patterns(name)
    tensor = array_to_tensor(bits.view(numpy_dtype(name)), "x")
    assert tensor.dtype is getattr(torch, name)
    # torch's own view of the bits, apart from precreg's.
    integers = torch.int16 if bits.itemsize == 2 else torch.uint8
    assert tensor.view(integers).numpy().tobytes() == bits.tobytes()
    array = tensor_to_array(tensor, "x")
    assert array.dtype == numpy_dtype(name)
    assert array.tobytes() == bits.tobytes()
    with np.errstate(invalid="ignore"):
        values, wide = array.astype(np.float64), tensor.to(torch.float64).numpy()
    np.testing.assert_array_equal(values, wide)


@pytest.mark.parametrize("name", TORCH_DTYPES)
def test_every_dtype_in_each_direction(name):
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(numpy_dtype(name))
    tensor = array_to_tensor(array, "x")
    assert tensor.dtype is getattr(torch, name)
    assert tuple(tensor.shape) == (2, 3)
    back = tensor_to_array(tensor, "x")
    assert (back.dtype, back.tobytes()) == (array.dtype, array.tobytes())


def test_payloads_of_wide_nans_survive():
    for name, bits in (("float32", [0x7FC12345, 0xFF812345]), ("float64", [0x7FF8123456789ABC, 0xFFF4000000000001])):
        array = np.array(bits, dtype=f"uint{8 * numpy_dtype(name).itemsize}").view(name)
        assert tensor_to_array(array_to_tensor(array, "x"), "x").tobytes() == array.tobytes()


@pytest.mark.parametrize("name", [name for name in DTYPE_NAMES if name not in TORCH_DTYPES])
def test_a_dtype_that_torch_lacks_is_named(name):
    with pytest.raises(UserError, match=r"expected a dtype that torch has \(float16, .*but got x of"):
        array_to_tensor(np.zeros(2).astype(numpy_dtype(name)), "x")


def test_an_input_has_memory_of_its_own_in_any_layout():
    backing = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for array in (backing, backing.T, backing[::-1], backing[:, ::2], backing.astype(">f4"), backing[0, 0]):
        tensor = array_to_tensor(array, "x")
        np.testing.assert_array_equal(tensor.numpy(), array)
        tensor.fill_(-1)
    assert backing[0, 1] == 1
    assert array_to_tensor(backing.T, "x").stride() == (1, 4), "kernels depend on the order of axes"


def test_an_output_shares_no_memory():
    tensor = torch.arange(4.0)
    array = tensor_to_array(tensor, "y")
    tensor.fill_(9)
    assert array.tolist() == [0, 1, 2, 3]


TENSORS = {
    "with a gradient": (torch.ones(2, requires_grad=True) * 2, [2, 2]),
    "a parameter": (torch.nn.Parameter(torch.ones(2)), [1, 1]),
    "not contiguous": (torch.arange(6.0).reshape(2, 3).T, [[0, 3], [1, 4], [2, 5]]),
    "expanded": (torch.ones(1).expand(3), [1, 1, 1]),
    "conjugated": (torch.tensor([1 + 2j]).conj(), [1 - 2j]),
    "negated": (torch.tensor([1 + 2j]).conj().imag, [-2]),
    "without axes": (torch.tensor(1.5, dtype=torch.bfloat16), 1.5),
    "empty": (torch.zeros(0, 3), []),
    "sparse": (torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(), [[0, 2], [3, 0]]),
    "sparse with a gradient": (torch.tensor([[0.0, 2.0]]).to_sparse().requires_grad_(), [[0, 2]]),
    "compressed rows": (torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse_csr(), [[0, 2], [3, 0]]),
    "inference": (None, [1, 1]),
}


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_tensor_is_detached_dense_and_on_the_host(kind):
    tensor, expected = TENSORS[kind]
    if kind == "inference":
        with torch.inference_mode():
            tensor = torch.ones(2)
    array = tensor_to_array(tensor, "y")
    assert array.flags.c_contiguous
    assert array.tolist() == expected
    assert array.shape == tuple(tensor.shape)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_quantized_tensors_have_their_real_values():
    values = torch.tensor([[0.26, -1.0], [0.5, 3.0]])
    whole = torch.quantize_per_tensor(values, 0.5, 3, torch.quint8)
    # scale * (round(x / scale + zero point) - zero point), in float64
    assert tensor_to_array(whole, "y").tolist() == [[0.5, -1.0], [0.5, 3.0]]
    scales = torch.tensor([0.25, 1.0], dtype=torch.float64)
    rows = torch.quantize_per_channel(values, scales, torch.tensor([0, 1]), 0, torch.qint8)
    assert tensor_to_array(rows, "y").tolist() == [[0.25, -1.0], [1.0, 3.0]]
    assert tensor_to_array(rows, "y").dtype == np.float32


def test_scales_are_float32_and_packed_numbers_are_unpacked():
    bits = torch.arange(256, dtype=torch.int16).to(torch.uint8)
    scales = tensor_to_array(bits.view(torch.float8_e8m0fnu), "y")
    np.testing.assert_array_equal(scales, np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype("f4"))
    packed = tensor_to_array(bits.reshape(2, 128).view(torch.float4_e2m1fn_x2), "y")
    assert (packed.shape, packed.dtype.name) == ((2, 256), "float4_e2m1fn")
    halves = [[byte & 15, byte >> 4] for byte in range(256)]
    assert packed.view(np.uint8).reshape(-1, 2).tolist() == halves


def nested():
    with np.errstate(all="ignore"):
        return torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(2)


REFUSED = {
    "meta": (lambda: torch.ones(2, device="meta"), "without data .meta or fake.; run the model on real tensors"),
    "fake": (fake, "without data .meta or fake."),
    "nested": (nested, "rows of different lengths; pad it first"),
    "lazy": (lambda: torch.nn.LazyLinear(3).weight, "not initialized; call the lazy module"),
    "complex32": (lambda: torch.ones(2, dtype=torch.complex32), "dtype=complex32; convert it to torch.complex64 first"),
    "bits8": (lambda: torch.ones(2, dtype=torch.uint8).view(torch.bits8), "dtype=bits8"),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_tensor_without_readable_numbers_is_refused(kind):
    make, message = REFUSED[kind]
    with pytest.raises(UserError, match=f"got output y.*{message}") as caught:
        name_outputs({"y": make()})
    assert caught.value.slug == "bad-outputs"


@dataclass
class ModelOutput:
    logits: object
    hidden: object = None
    cache: object = None


def test_nested_results_have_dotted_names():
    one, two = torch.zeros(1), torch.ones(2, requires_grad=True)
    returned = ModelOutput(one, (one, {"key": two}), None)
    assert list(name_outputs(returned)) == ["logits", "hidden.0", "hidden.1.key"]
    pair = collections.namedtuple("Pair", "h c")(one, two)
    assert list(name_outputs((one, pair))) == ["0", "1.0", "1.1"]
    assert list(name_outputs(torch.max(torch.ones(2, 2), dim=0))) == ["0", "1"]
    assert list(name_outputs([two, one])) == ["0", "1"]
    assert list(name_outputs({"y": [[one], [two]]})) == ["y.0.0", "y.1.0"]


def test_none_among_tensors_is_left_out():
    attention = torch.nn.MultiheadAttention(4, 2)
    x = torch.ones(2, 1, 4)
    assert list(name_outputs(attention(x, x, x, need_weights=False))) == ["0"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e5m2, torch.float32])
def test_compare_takes_tensors(dtype):
    values = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    found = precreg.compare(values.to(dtype), torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64))
    assert found.dtype == str(dtype).removeprefix("torch.")
    assert found.metrics["max_abs_error"] == 1
    with pytest.raises(UserError, match="got reference, a tensor without data"):
        precreg.compare(values, torch.ones(3, device="meta"))
