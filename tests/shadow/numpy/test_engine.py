import math

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic import FORMATS, round_to
from precreg.arithmetic.devices import (
    DeviceArithmetic,
    WatchedArithmetic,
    cast_through_device,
    device_named,
    simulate_array,
)
from precreg.shadow import Detail, Recorder
from precreg.shadow.numpy import NumpyEngine
from tests.shadow.numpy.traced import as_float64, distance, trace


def drawn(*shape, dtype=np.float32, seed=0, shift=0.0):
    return (np.random.default_rng(seed).standard_normal(shape) + shift).astype(dtype)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def views(x):
    y = x.copy()
    y[:, ::-2] *= 0.75
    y[1:3] = y[3:1:-1] + y[0]
    z = y.T.reshape(4, -1)
    z[..., 0] = 0.5
    np.add(y, z.reshape(y.shape), out=y)
    y[[0, 2], 1:3] -= y[[1, 3], 2:4]
    y[y > 1.0] = 1.0
    return y[:, 1:].swapaxes(0, 1)


def scalars(x):
    total = x[0, 0]
    first = total
    for row in x:
        for value in row[:3]:
            total += value * 2.0
    return np.array([total, first, total**2, max(total, first), abs(first)])


def loops(x):
    m = np.zeros_like(x[0])
    for row in x:
        m = 0.9 * m + 0.1 * row
    return m / np.sqrt(np.square(m).mean() + 1e-5)


def functions(x):
    parts = np.split(np.concatenate([x, np.flip(x, 0)], axis=1), 2, axis=1)
    stacked = np.stack(parts, -1).sum(-1)
    return np.where(stacked > 0, np.tanh(stacked), np.cumsum(np.pad(stacked, ((0, 0), (1, 0)))[:, :-1], axis=1))


def ordered(x):
    best = np.sort(x, axis=-1)[:, -3:]
    chosen = np.take_along_axis(x, np.argsort(x, axis=-1), -1)
    return np.concatenate([best, chosen, np.partition(x, 2, axis=-1)], -1).var(-1)


def ufunc_methods(x):
    a = np.add.reduce(x, axis=1) + np.multiply.accumulate(x, axis=0)[-1, 0]
    b = np.add.reduceat(x, [0, 2, 4], axis=1).sum(1) + np.subtract.outer(x[0], x[1]).mean()
    c = np.zeros_like(x[:, 0])
    np.add.at(c, [0, 1, 1, 3], x[0, :4])
    d = np.add(x[:, 0], x[:, 1], out=np.ones_like(x[:, 0]), where=x[:, 0] > 0)
    return a + b + c + d


def contractions(x):
    w = x[:, :4] @ x[:4, :].astype(x.dtype)
    return np.einsum("ij,kj->ik", w, x) + np.dot(x, x.T) + np.tensordot(x, x, ([1], [1])) + np.inner(x, x)


KERNELS = [softmax, views, scalars, loops, functions, ordered, ufunc_methods, contractions]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_result_is_the_plain_one_and_the_shadow_is_an_independent_float64_run(kernel, dtype):
    x = drawn(6, 6, dtype=dtype)
    plain = kernel(x.copy())
    found = trace(kernel, x.copy())
    assert type(found.out) is type(plain)
    np.testing.assert_array_equal(found.out, plain)
    assert found.out.dtype == plain.dtype
    # Choices follow the low-precision run, so a shadow differs where float64 would choose otherwise.
    if not any(event.kind == "flip" for event in found.events):
        assert distance(found.shadow, as_float64(kernel, x.copy())) < 1e-12
    assert [event for event in found.events if event.kind in ("cut", "untraced", "not_shadowed")] == []


def test_a_float64_computation_has_a_longer_shadow():
    x = drawn(8, 8, dtype=np.float64)
    found = trace(softmax, x)
    np.testing.assert_array_equal(found.out, softmax(x))
    assert found.shadow.dtype == np.longdouble
    np.testing.assert_array_equal(found.shadow, softmax(x.astype(np.longdouble)))
    if np.finfo(np.longdouble).nmant > 52:
        assert found.engine.shadow_dtype == "longdouble"
        assert 0.0 < found.operations[-1].total.relative < 1e-15


def test_own_error_is_that_of_the_operation_alone():
    x = drawn(16, 16, dtype=np.float16)

    def kernel(x):
        return np.exp(x).sum(0)

    exp, total = trace(kernel, x).operations
    low = np.exp(x)
    exact = np.exp(x.astype(np.float64))
    assert exp.own.relative == pytest.approx(distance(low, exact), rel=1e-9)
    assert exp.inherited.relative == 0.0
    assert total.own.relative == pytest.approx(distance(low.sum(0), low.astype(np.float64).sum(0)), rel=1e-9)
    inherited = distance(low.astype(np.float64).sum(0), exact.sum(0))
    assert total.inherited.relative == pytest.approx(inherited, rel=1e-9)
    assert total.total.relative == pytest.approx(distance(low.sum(0), exact.sum(0)), rel=1e-9)
    assert total.amplification == pytest.approx(inherited / distance(low, exact), rel=1e-9)


def test_cancellation_is_named_with_its_amplification_and_lost_bits():
    x = drawn(64, 256, shift=30.0)

    def kernel(x):
        mean = x.mean(1, keepdims=True)
        return (x * x).mean(1, keepdims=True) - mean * mean

    worst = max(trace(kernel, x).operations, key=lambda each: each.amplification or 0.0)
    assert worst.name == "subtract"
    assert worst.site.code == "return (x * x).mean(1, keepdims=True) - mean * mean"
    assert worst.own.relative == 0.0
    assert 100.0 < worst.amplification < 10_000.0
    assert 9.0 < worst.lost_bits < 11.0


def test_an_accumulator_of_float16_explains_the_error():
    x, w = drawn(16, 128), drawn(128, 8, seed=1)

    def kernel(x, w):
        z = np.zeros((16, 8), np.float16)
        for start in range(0, 128, 16):
            z += (x[:, start : start + 16] @ w[start : start + 16]).astype(np.float16)
        return z.astype(np.float32) * np.float32(2.0)

    found = trace(kernel, x, w)
    by_dtype = {name: sum(found.shares.get(each.number, 0.0) for each in found.operations if each.dtype == name)
                for name in ("float16", "float32")}  # fmt: skip
    assert by_dtype["float16"] == pytest.approx(1.0, abs=0.01)
    assert abs(by_dtype["float32"]) < 0.01


def test_values_that_leave_are_named_and_counted():
    x = drawn(4, 4)

    def kernel(x):
        scale = float(x.max())
        root = math.sqrt(x[0, 0] ** 2)
        bits = x.view(np.int32) & 1
        return x / scale + root + x.mean().item() + bits

    found = trace(kernel, x)
    np.testing.assert_array_equal(found.out, kernel(x))
    cuts = [(event.name, event.site.code.partition(" ")[0]) for event in found.events if event.kind == "cut"]
    assert cuts == [("__float__", "scale"), ("__float__", "root"), ("view", "bits"), ("item", "return")]


def test_choices_that_higher_precision_would_make_otherwise_are_flips():
    tied = np.array([1.0, 1.0], np.float32)

    def rounding(x):
        small = np.array([0.0, 1e-9], np.float32)
        return np.where((x + small)[1:] > x[:1], x[1:], 2 * x[1:])

    found = trace(rounding, tied)
    assert [(event.kind, event.name, event.changed, event.elements) for event in found.events] == [
        ("flip", "greater", 1, 1)
    ]
    # The shadow follows the branch that the computation took.
    np.testing.assert_array_equal(found.shadow, [2.0])


def test_random_numbers_are_the_same_and_noted():
    def kernel(x):
        return x + np.random.default_rng(3).normal(size=x.shape).astype(np.float32)

    x = drawn(3, 3)
    found = trace(kernel, x)
    np.testing.assert_array_equal(found.out, kernel(x))
    assert [each.note for each in found.operations] == ["random", "", ""]
    assert found.events == ()


def test_an_unknown_array_is_named():
    outside = drawn(3, seed=5)

    def kernel(x, box=outside):
        return x * box

    (event,) = trace(kernel, drawn(3)).events
    assert (event.kind, event.name, event.detail) == ("untraced", "multiply", "plain array")


def test_a_function_without_a_wide_form_has_no_own_error():
    """numpy.linalg has no longdouble, so the shadow takes what float64 gives for its shadows."""
    x = drawn(6, 6, dtype=np.float64)
    found = trace(np.linalg.svd, x)
    operation = found.operations[-1]
    assert (operation.note, operation.own) == ("not_shadowed", None)
    (event,) = (each for each in found.events if each.kind == "not_shadowed")
    assert event.name == "svd"
    assert event.detail == "float64"


def test_errors_of_the_user_pass_through():
    def kernel(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        trace(kernel, drawn(2))
    with pytest.raises(ValueError, match="broadcast"):
        trace(lambda x: x + np.zeros(5, np.float32), drawn(2))
    assert np.zeros.__module__ == "numpy"


def test_names_of_numpy_are_restored():
    before = {name: getattr(np, name) for name in dir(np)}
    trace(softmax, drawn(2, 2))
    assert {name: getattr(np, name) for name in dir(np)} == before


def test_complex_numbers_have_shadows():
    x = (drawn(4, 4) + 1j * drawn(4, 4, seed=1)).astype(np.complex64)

    def kernel(x):
        y = (x * x.conj()).real + np.abs(x) ** 2
        return np.exp(1j * x).imag + y

    found = trace(kernel, x)
    np.testing.assert_array_equal(found.out, kernel(x))
    wide = x.astype(np.complex128)
    assert distance(found.shadow, np.exp(1j * wide).imag + 2 * np.abs(wide) ** 2) < 1e-12
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("name", ["mlu370", "ascend"])
def test_a_simulated_device_gives_its_own_bits(name):
    arithmetic = WatchedArithmetic(DeviceArithmetic(device_named(name)))
    x = drawn(8, 16)

    def kernel(x):
        acc = np.zeros((8, 1), x.dtype)
        acc += x.sum(-1, keepdims=True)
        return (x @ x.T) / np.sqrt(np.abs(acc) + np.float32(1.0))

    plain = np.asarray(kernel(simulate_array(x, DeviceArithmetic(device_named(name)))))
    found = trace(kernel, x, arithmetic=arithmetic)
    np.testing.assert_array_equal(np.asarray(found.out), plain)
    assert arithmetic.has_computed
    assert distance(found.shadow, as_float64(kernel, x)) < 1e-12


def test_memory_follows_live_arrays():
    def kernel(x):
        peak = 0
        y = x
        for _ in range(20):
            y = np.tanh(y * np.float32(1.01))
            peak = max(peak, engine.memories.nbytes)
        return y, peak

    from precreg.shadow import Recorder
    from precreg.shadow.numpy import NumpyEngine

    x = drawn(64, 64)
    with NumpyEngine(Recorder(Detail.TOTALS)) as engine:
        _, peak = kernel(engine.wrap(x))
    assert peak <= 4 * 64 * 64 * 8


def test_rounding_functions_of_precreg_are_operations():
    x = drawn(4, 8)

    def kernel(x):
        return round_to(x * x, FORMATS["bfloat16"]) + x

    found = trace(kernel, x)
    np.testing.assert_array_equal(found.out, kernel(x))
    rounded = next(each for each in found.operations if each.name == "round_to")
    plain = x * x
    own = distance(round_to(plain, FORMATS["bfloat16"]), plain)
    assert rounded.own.relative == pytest.approx(own, rel=1e-6)
    assert found.shares[rounded.number] == pytest.approx(1.0, abs=0.01)
    assert distance(found.shadow, x.astype(np.float64) ** 2 + x) < 1e-12
    assert found.events == ()


def test_each_place_of_a_device_has_its_own_error():
    x = drawn(4, 8)

    def kernel(x):
        return cast_through_device(x)["L0"]

    arithmetic = WatchedArithmetic(DeviceArithmetic(device_named("ascend")))
    found = trace(kernel, x, arithmetic=arithmetic)
    np.testing.assert_array_equal(np.asarray(found.out), x.astype(np.float16))
    own = {each.name.partition(":")[2]: each.own.relative for each in found.operations}
    assert list(own) == ["host", "device_memory", "L1", "L0"]
    assert own.pop("L1") == pytest.approx(distance(x.astype(np.float16), x), rel=1e-6)
    assert set(own.values()) == {0.0}
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=1e-6)
    assert arithmetic.has_computed


def test_infinities_that_agree_leave_the_shares_of_other_elements():
    x = drawn(4, 8)
    x[0, 0] = np.inf
    x[1, 1] = np.nan
    found = trace(lambda x: np.exp(x) * np.float32(3.1), x)
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=0.01)


needs_long = np.finfo(np.longdouble).nmant > 52


def test_float64_work_inside_a_float32_computation_has_a_longer_shadow():
    x = drawn(8, 8)

    def kernel(x):
        return x / np.sqrt(np.float64(15))

    found = trace(kernel, x)
    assert found.out.dtype == np.float64
    assert found.shadow.dtype == np.longdouble
    exact = x.astype(np.longdouble) / np.sqrt(np.float64(15))
    np.testing.assert_array_equal(found.shadow, exact)
    if needs_long:
        assert found.operations[0].own.relative == pytest.approx(
            float(np.linalg.norm((found.out - exact).astype(float)) / np.linalg.norm(found.out)), rel=1e-6
        )
        assert 0.0 < found.operations[0].own.relative < 1e-15


def test_integers_that_become_float64_have_a_longer_shadow():
    x = drawn(4)

    def kernel(x):
        return np.sqrt(np.arange(2, 6)) * x

    found = trace(kernel, x)
    np.testing.assert_array_equal(found.shadow, np.sqrt(np.arange(2, 6).astype(np.longdouble)) * x)
    if needs_long:
        assert [each.own.relative > 0.0 for each in found.operations if each.name == "sqrt"] == [True]


def test_linear_algebra_of_float32_has_a_float64_shadow_in_a_longdouble_trace():
    """A second shadow of longdouble calls LAPACK in float64, and says that it does not check the first one."""
    x = drawn(6, 6)
    recorder = Recorder(Detail.OUTPUTS)
    with NumpyEngine(recorder, None, "longdouble") as engine:
        out = np.linalg.solve(engine.wrap(x), engine.wrap(x[0]))
        shadow = engine.shadow_of(out)
    assert distance(shadow, np.linalg.solve(x.astype(float), x[0].astype(float))) < 1e-15
    assert engine.shadow_dtype == "float64"
    assert recorder.events == ()


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_square_that_overflows_stays_finite_in_the_shadow():
    x = np.full((4, 8), 1e20, np.float32)
    found = trace(lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True)), x)
    np.testing.assert_array_equal(found.out, np.zeros_like(x))
    np.testing.assert_allclose(found.shadow, np.ones((4, 8)), rtol=1e-12)
