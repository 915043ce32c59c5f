"""Products of matrices and tensors on devices: against rational arithmetic, and numpy's own on whole numbers."""

import numpy as np
import pytest

from precreg.arithmetic.devices.array import SimulatedArray, plain_array
from precreg.arithmetic.exact import exact_matmul
from precreg.arithmetic.formats import numpy_dtype
from tests.arithmetic.devices.on_devices import DEVICES, device, on, same_bits

MULTIPLIED = [(name, dtype) for name in DEVICES for dtype in device(name).device.matmul]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
DRAW = np.random.default_rng(5)


def whole(*shape):
    """Return whole numbers, whose products and sums are exact in every format and order here."""
    return DRAW.integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize(("name", "dtype"), MULTIPLIED)
def test_a_product_is_that_of_the_table_bit_for_bit(name, dtype, k):
    draw = np.random.default_rng(k)
    a, b = (draw.normal(size=shape).astype(numpy_dtype(dtype)) for shape in ((3, k), (k, 2)))
    rows = [[[float(x) for x in row] for row in matrix] for matrix in (a, b)]
    expected = exact_matmul(*rows, device(name).device.matmul[dtype])
    product = on(name, a) @ b
    assert isinstance(product, SimulatedArray)
    assert product.dtype == a.dtype
    assert same_bits(product, expected)
    x, y = on(name, a, b)
    for other in (np.matmul(a, y), x.dot(b), np.dot(a, y), np.einsum("ik,kj->ij", x, b)):
        assert same_bits(other, expected)


def test_a_product_in_a_wider_dtype_is_that_dtypes():
    a, b = (np.random.default_rng(0).normal(size=(4, 4)).astype(np.float16) for _ in range(2))
    wide = np.matmul(on("ascend", a), b, dtype=np.float32)
    assert wide.dtype == np.float32
    assert same_bits(wide, on("ascend", a.astype(np.float32)) @ b.astype(np.float32))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 2)),
        ((3, 4), (4, 2)),
        ((5, 3, 4), (4, 2)),
        ((5, 3, 4), (5, 4, 2)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((0, 4), (4, 2)),
        ((3, 0), (0, 2)),
    ],
)
@pytest.mark.parametrize("function", [np.matmul, np.dot, np.tensordot], ids=lambda f: f.__name__)
def test_every_shape_that_numpy_multiplies(function, left, right):
    a, b = whole(*left), whole(*right)
    options = {"axes": 1} if function is np.tensordot else {}
    try:
        expected = function(a, b, **options)
    except ValueError:
        with pytest.raises(ValueError, match="do not match"):
            function(on("mlu370", a), b, **options)
        return
    result = function(on("mlu370", a), b, **options)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    assert np.array_equal(plain_array(result), expected)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 2)]),
        ("ij,jk", [(3, 4), (4, 2)]),
        ("ij,kj->ik", [(3, 4), (2, 4)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("i...,i...->...", [(3, 2, 4), (3, 4)]),
        ("i,j->ij", [(3,), (4,)]),
        ("i,i->", [(5,), (5,)]),
        ("i,i->i", [(5,), (5,)]),
        ("ij->ji", [(3, 4)]),
        ("ij->", [(3, 4)]),
        ("ij->j", [(3, 4)]),
        ("ii->i", [(4, 4)]),
        ("ii", [(4, 4)]),
        ("ba", [(3, 4)]),
        ("ij,ij->ij", [(3, 4), (3, 4)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("i,ij,j->", [(3,), (3, 4), (4,)]),
        ("ijk,jil->kl", [(3, 4, 2), (4, 3, 5)]),
        ("ij,k->ik", [(3, 4), (2,)]),
        ("ij,jk->ik", [(3, 4), (1, 2)]),
        ("iij,jk->ik", [(3, 3, 4), (4, 2)]),
        (" i j , j -> i ", [(3, 4), (4,)]),
    ],
)
def test_einsum(subscripts, shapes):
    arrays = [whole(*shape) for shape in shapes]
    expected = np.einsum(subscripts, *arrays)
    result = np.einsum(subscripts, *(on("mlu370", array) for array in arrays), optimize=True)
    assert np.shape(result) == np.shape(expected)
    assert np.array_equal(plain_array(result), expected)


def test_wrong_subscripts_are_numpys_error():
    with pytest.raises(ValueError, match=r"einstein|sum|operand|label|size"):
        np.einsum("ij,jk->ik", on("ascend", whole(3, 4)), whole(5, 2))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (np.dot, (whole(), whole(3))),
        (np.inner, (whole(2, 3), whole(4, 3))),
        (np.inner, (whole(3), whole(3))),
        (np.inner, (whole(3), np.float32(2))),
        (np.vdot, (whole(2, 3), whole(3, 2))),
        (np.tensordot, (whole(2, 3, 4), whole(4, 3, 2), ([1, 2], [1, 0]))),
        (np.tensordot, (whole(2, 3), whole(3, 2), (1, 0))),
        (np.tensordot, (whole(2, 3), whole(2, 3))),
        (np.outer, (whole(2, 2), whole(3))),
        (np.cross, (whole(4, 3), whole(3))),
        (np.convolve, (whole(7), whole(3))),
        (np.convolve, (whole(3), whole(7), "same")),
        (np.convolve, (whole(7), whole(4), "valid")),
        (np.correlate, (whole(7), whole(3))),
        (np.correlate, (whole(3), whole(7), "full")),
        (np.correlate, (whole(7), whole(4), "same")),
        (np.kron, (whole(2, 2), whole(2, 3))),
        (np.linalg.norm, (np.array([3, 4], np.float32),)),
        (np.linalg.norm, (whole(2, 3), 1, 1)),
        (np.linalg.norm, (whole(2, 3), np.inf, 0)),
        (np.linalg.multi_dot, ([whole(2, 3), whole(3, 4), whole(4, 2)],)),
        (np.linalg.matrix_power, (whole(3, 3), 3)),
        (np.trace, (whole(3, 3),)),
        (np.polyval, (whole(4), whole(3))),
        (np.diff, (whole(5),)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_numpys_other_functions_on_whole_numbers(function, arguments):
    def on_device(value):
        if isinstance(value, list) and isinstance(value[0], np.ndarray):
            return [on("mlu370", array) for array in value]
        return on("mlu370", value) if isinstance(value, np.ndarray) else value

    expected = function(*arguments)
    result = function(*map(on_device, arguments))
    assert isinstance(result, SimulatedArray)
    assert (result.shape, result.dtype) == (np.shape(expected), expected.dtype)
    assert np.array_equal(plain_array(result), expected)


def test_norms_are_made_of_the_devices_operations():
    x = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
    here = on("mlu370", x)
    assert same_bits(np.linalg.norm(here), np.sqrt((here * here).sum()))
    assert same_bits(np.linalg.norm(here, axis=-1, keepdims=True), np.sqrt((here * here).sum(-1, keepdims=True)))
    assert same_bits(np.linalg.norm(here, "fro"), np.sqrt((here * here).sum()))


@pytest.mark.parametrize("function", [np.linalg.inv, np.linalg.qr, np.fft.fft, np.cov], ids=lambda f: f.__name__)
def test_what_is_not_simulated_is_refused_and_not_computed_in_secret(function):
    with pytest.raises(NotImplementedError, match=f"{function.__name__} is not simulated on mlu370"):
        function(on("mlu370", np.eye(3, dtype=np.float32)))
    function(on("cpu", np.eye(3, dtype=np.float32)))
    function(on("mlu370", np.eye(3)))


@pytest.mark.skipif(not hasattr(np, "matvec"), reason="numpy 2.2 brought them")
def test_stacks_of_vectors():
    a, b, c = whole(2, 3, 4), whole(2, 4), whole(2, 3)
    assert np.array_equal(plain_array(np.matvec(on("ascend", a), b)), np.matvec(a, b))
    assert np.array_equal(plain_array(np.vecmat(on("ascend", c), a)), np.vecmat(c, a))
    assert np.array_equal(plain_array(np.vecdot(on("ascend", a), a)), np.vecdot(a, a))
