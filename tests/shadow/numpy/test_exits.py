"""Values that leave the sight of numpy's protocols are named, and never silently exact."""

import ctypes
import io
import math
import tempfile

import numpy as np
import pytest

from precreg.shadow.numpy.derivatives import Derived
from precreg.shadow.numpy.tape import rule_of_step
from tests.shadow.numpy.traced import as_float64, distance, trace


def drawn(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def through_a_pointer(x):
    y = np.ascontiguousarray(x * 2)
    place = y.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    for i in range(y.size):
        place[i] = place[i] * 3
    return y + 1


def through_flat(x):
    y = x * 3
    flat = y.flat
    flat[0] = 7
    return y * 1.5


def through_bits(x):
    y = x * 3
    y.view(np.uint32)[...] &= 0xFFFF0000
    return y * 1.1


def objects(x):
    return (x.astype(object) * 2 + 1).astype(np.float32)


def product_of_objects(x):
    return np.dot(x.astype(object), x.astype(object).T).astype(np.float32)


def function_of_objects(x):
    return np.frompyfunc(lambda v: v * v + 1, 1, 1)(x).astype(np.float32)


def vectorized(x):
    return np.vectorize(lambda v: np.float32(math.sin(v) * 2))(x) * 3


def texts(x):
    return np.array([[float(f"{v:.3f}") for v in row] for row in x], np.float32)


def printed(x):
    return np.array([float(str(v)) + float(repr(v).rpartition("(")[2].rstrip(")")) for v in x[0]], np.float32)


def saved(x):
    file = io.BytesIO()
    np.save(file, x * 3)
    np.save(file, x + 1)
    file.seek(0)
    return np.load(file) + np.load(file)


def through_bytes(x):
    return np.frombuffer((x * 3).tobytes(), np.float32).reshape(x.shape) + 1


def exact_ratio(x):
    numerator, denominator = (x[0, 0] * 3).as_integer_ratio()
    return np.float32(numerator / denominator) * x


def one_record(x):
    records = np.zeros(len(x), [("a", np.float32), ("b", np.float32)])
    records["a"] = x[:, 0] * 3
    return records[0]["a"] * x


@pytest.mark.parametrize(
    ("kernel", "events"),
    [
        (through_a_pointer, {("cut", "ctypes"), ("untraced", "write")}),
        (through_flat, {("cut", "flat"), ("untraced", "write")}),
        (through_bits, {("cut", "view"), ("untraced", "write")}),
        (objects, {("cut", "astype")}),
        (product_of_objects, {("cut", "astype")}),
        (function_of_objects, {("cut", "<lambda> (vectorized)")}),
        (vectorized, {("cut", "vectorize")}),
        (texts, {("cut", "format")}),
        (printed, {("cut", "str"), ("cut", "repr")}),
        (saved, {("cut", "save")}),
        (through_bytes, {("cut", "tobytes")}),
        (exact_ratio, {("cut", "as_integer_ratio")}),
        (one_record, {("cut", "record")}),
    ],
)
def test_a_value_that_leaves_is_named_and_the_rest_is_traced(kernel, events):
    x = drawn(4, 4)
    plain = kernel(x.copy())
    found = trace(kernel, x.copy())
    np.testing.assert_array_equal(found.out, plain)
    assert {(event.kind, event.name) for event in found.events} == events
    # Values that came back are exact, so the last operation has the only error that the trace knows.
    assert found.operations[-1].own.relative < 1e-6
    assert distance(found.shadow, plain) < 1e-6
    if kernel is not through_flat:
        assert found.operations[-1].inherited.relative == 0.0
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=0.01)


def test_memory_that_was_only_read_outside_keeps_its_shadow():
    def kernel(x):
        y = np.exp(x)
        assert y.ctypes.data
        return y * 3

    found = trace(kernel, drawn(4, 4))
    assert distance(found.shadow, as_float64(lambda x: np.exp(x) * 3, drawn(4, 4))) < 1e-12
    assert [(event.kind, event.name) for event in found.events] == [("cut", "ctypes")]


def in_a_mapped_file(x):
    with tempfile.NamedTemporaryFile() as file:
        mapped = np.memmap(file.name, dtype=x.dtype, mode="w+", shape=x.shape)
        assert isinstance(mapped, np.memmap)
        mapped[:] = x * 3
        mapped.flush()
        return np.exp(np.asarray(mapped))


def in_records(x):
    records = np.zeros(x.shape, [("a", x.dtype), ("n", np.int16), ("pad", np.int16), ("b", x.dtype)])
    records["a"], records["n"], records["b"] = x * 3, 1, np.exp(x)
    records["a"][0] *= 1.1
    return records["a"] + records["b"]


@pytest.mark.parametrize("kernel", [in_a_mapped_file, in_records])
def test_mapped_files_and_records_have_a_shadow(kernel):
    x = drawn(4, 4)
    found = trace(kernel, x)
    np.testing.assert_array_equal(found.out, kernel(x))
    assert distance(found.shadow, as_float64(kernel, x)) < 1e-12
    assert found.events == ()
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=0.01)


def test_a_copy_of_records_leaves_the_shadow():
    def kernel(x):
        records = np.zeros(x.shape, [("a", np.float32), ("b", np.float32)])
        records["a"] = x * 3
        return records.copy()["a"] * 2

    assert [(event.kind, event.name) for event in trace(kernel, drawn(4, 4)).events] == [("cut", "copy")]


def product_of_matrices(x):
    m = np.matrix(x)
    return np.asarray(m * m.T + x @ m)


def masked(x):
    return np.ma.filled(np.exp(np.ma.masked_where(x > 0, x)) * 2, 0) * x


def masked_on_the_right(x):
    return np.ma.filled(x * np.ma.MaskedArray(x * 2, mask=x > 0), -1) * x


class Doubled(np.ndarray):
    def __mul__(self, other):
        return np.ndarray.__mul__(self, other).view(np.ndarray) * 2

    __rmul__ = __mul__


def of_a_class(x):
    return np.asarray(x * x.view(Doubled)) * x


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (product_of_matrices, "numpy.matrix"),
        (masked, "numpy.MaskedArray"),
        (masked_on_the_right, "numpy.MaskedArray"),
        (of_a_class, "tests.Doubled"),
    ],
)
def test_arrays_with_operations_of_their_own_compute_by_themselves(kernel, kind):
    x = drawn(4, 4)
    found = trace(kernel, x)
    np.testing.assert_array_equal(found.out, kernel(x))
    assert ("untraced", kind) in {(event.kind, event.detail) for event in found.events}
    # The result comes back as a plain array, which is an event of its own.
    assert ("untraced", "plain array") in {(event.kind, event.detail) for event in found.events}


def test_choices_of_python_are_checked_as_those_of_numpy():
    def kernel(x):
        close = np.allclose(x * np.float32(0.1), x / 10, rtol=1e-12, atol=0)
        return x * (2 if close else 3), np.count_nonzero(x * np.float32(3) - x - x - x)

    events = trace(kernel, np.full(4, 0.7, np.float32)).events
    assert {(event.kind, event.name) for event in events} >= {("flip", "allclose")}


def test_numbers_that_are_written_to_integers_are_choices():
    def kernel(x):
        counts = np.zeros(x.shape, np.int64)
        counts[...] = x - np.float32(1e-9)
        return counts

    (event,) = trace(kernel, np.arange(1, 10, dtype=np.float32)).events
    assert (event.kind, event.name) == ("flip", "setitem")


def test_a_plain_array_that_becomes_a_watched_one_is_named():
    box = np.full(3, 0.1, np.float32)

    def kernel(x):
        box[:] = x * 3
        return np.asarray(box) * 2

    (event,) = trace(kernel, drawn(3)).events
    assert (event.kind, event.name, event.detail) == ("untraced", "asarray", "plain array")


def through_an_iterator(x):
    y = x * 3
    with np.nditer(y, op_flags=["readwrite"]) as values:
        for value in values:
            value[...] = value * 1.1
    return y * 1.1


def through_places(x):
    y = np.empty_like(x)
    for place, value in np.ndenumerate(x * 3):
        y[place] = value * 1.1
    return y


def in_pairs(x):
    assert np.broadcast(x, x[0]).shape == x.shape
    return np.array([one * other for one, other in np.broadcast(x * 3, x)], x.dtype)


def as_memory(x):
    return np.array(memoryview(x * 3)) * 1.1


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (through_an_iterator, "nditer"),
        (through_places, "ndenumerate"),
        (in_pairs, "broadcast"),
        (as_memory, "memoryview"),
    ],
)
def test_iterators_are_ways_out(kernel, name):
    x = drawn(4, 4)
    found = trace(kernel, x)
    np.testing.assert_array_equal(found.out, kernel(x))
    assert ("cut", name) in {(event.kind, event.name) for event in found.events}


def parts(x):
    z = x * 3 + 1j * x
    z.real = x * 1.1
    z.imag *= 2
    return z.real + z.imag


def repeated(x):
    y = x * 3
    y.flat = x[0] * 1.1
    return y * 1.1


def strided(x):
    y = x * 3
    return np.lib.stride_tricks.as_strided(y, (3, 2), y.strides) * 1.1


def polynomial(x):
    return np.polynomial.polynomial.polyval(x[1], x[0] * 3) + np.polynomial.Polynomial(x[0] * 3)(x[1])


def with_whole_numbers(x):
    y = np.where(x > 0, x * 3, 1)
    return np.array([[y[0, 0] * 3, 1.0], [2, y[1, 1] * 5]], x.dtype) * y[:2, :2] * 1.1


def there_and_back(x):
    spectrum = np.fft.rfft(x * 3) * 1.1
    return np.fft.irfft(np.fft.ifft(np.fft.fft(spectrum)))


def covariance(x):
    return np.cov(x * 3)


@pytest.mark.parametrize(
    "kernel", [parts, repeated, strided, polynomial, with_whole_numbers, there_and_back, covariance]
)
@pytest.mark.parametrize("size", [4, 40])
def test_other_ways_keep_the_shadow_and_the_shares(kernel, size):
    x = drawn(size, size)
    found = trace(kernel, x)
    np.testing.assert_array_equal(found.out, kernel(x))
    assert [event for event in found.events if event.kind in ("cut", "untraced", "not_shadowed")] == []
    assert distance(found.shadow, as_float64(kernel, x)) < 1e-12
    if (kernel, size) != (covariance, 40):
        assert sum(found.shares.values()) == pytest.approx(1.0, abs=0.02)


def test_a_share_does_not_go_through_a_whole_number():
    """An integer among the values of `where` is no element of the other operand."""

    def kernel(x):
        y = x * np.float32(1.1)
        return np.where(np.arange(4) < 2, y, 3)

    found = trace(kernel, drawn(4))
    (step,) = (step for step, _ in found.engine.tape.steps if step.name == "where")
    derived = Derived(step.function, step.arguments, step.options, step.operands)
    assert [list(each) for each in rule_of_step(step)(derived, [np.ones(4)])] == [[1.0, 1.0, 0.0, 0.0]]


def test_an_iterator_is_read_once():
    def kernel(x):
        numbers = iter(range(8))
        return np.fromiter(numbers, np.float32, 4) + np.fromiter(numbers, np.float32, 4) * x

    found = trace(kernel, drawn(4))
    np.testing.assert_array_equal(found.out, kernel(drawn(4)))


@pytest.mark.parametrize("shape", [(12, 2), (3,), (4, 5)])
def test_an_array_that_is_resized_in_place_takes_its_shadow_along(shape):
    def resized(x):
        y = x * 3 + 1
        y.resize(*shape, refcheck=False)
        return y * y

    x = drawn(4, 5)
    found = trace(resized, x)
    np.testing.assert_array_equal(found.out, resized(x))
    assert distance(found.shadow, as_float64(resized, x)) < 1e-15
    assert sum(found.shares.values()) == pytest.approx(1, abs=0.01)
    assert found.events == ()


def test_a_view_cannot_be_resized():
    with pytest.raises(ValueError, match="does not own its data"):
        trace(lambda x: (x * 2)[:2].resize(3), drawn(4, 5))
