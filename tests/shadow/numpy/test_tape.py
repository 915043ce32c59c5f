import importlib.util
from pathlib import Path

import numpy as np
import pytest

from precreg.shadow import Detail, Recorder
from precreg.shadow.numpy import NumpyEngine
from precreg.shadow.numpy.contractions import by_differences
from precreg.shadow.numpy.derivatives import Derived
from precreg.shadow.numpy.tape import NumpyTape, rule_of_step
from precreg.shadow.shelf import Kept
from precreg.shadow.tracer import Tracer
from tests.shadow.numpy import test_engine as kernels
from tests.shadow.numpy.traced import trace

ROOT = Path(__file__).parents[3]


def shipped(module, name):
    spec = importlib.util.spec_from_file_location(module, ROOT / "suites" / "unit" / "kernels" / f"{module}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


def layer_norm(x):
    return shipped("layer_norm", "device_style")(x, 1e-5, width=2)


def adam(x):
    m, v = np.zeros_like(x), np.zeros_like(x)
    w = x * np.float32(0.5)
    for step in range(1, 4):
        g = np.tanh(w)
        m += np.float32(0.1) * (g - m)
        v += np.float32(0.001) * (g * g - v)
        w -= np.float32(0.01 / (1 - 0.9**step)) * m / (np.sqrt(v) + np.float32(1e-8))
    return w


KERNELS = [
    kernels.softmax,
    kernels.views,
    kernels.loops,
    kernels.functions,
    kernels.ufunc_methods,
    kernels.contractions,
    layer_norm,
    adam,
]


class Inject:
    """Add the own error of one operation to the shadow, which then has this error alone."""

    def __init__(self, number):
        self.number, self.engine = number, None

    def see(self, observed):
        is_chosen = observed.operation.number == self.number and observed.operation.note != "created"
        if is_chosen and observed.own_exact is not None:
            memory = self.engine.memories.find(observed.actual)
            shadow = self.engine.memories.view(observed.actual, memory)
            shadow += observed.actual.astype(np.float64) - observed.own_exact

    def show_output(self, *_):
        pass


def shadow_with(kernel, x, number):
    inject = Inject(number)
    recorder = Recorder(Detail.OWN, [inject])
    with NumpyEngine(recorder) as inject.engine:
        result = kernel(inject.engine.wrap(x.copy()))
        return inject.engine.shadow_of(result)


def ranks(values):
    return np.argsort(np.argsort(values))


@pytest.mark.parametrize("kernel", KERNELS)
def test_shares_are_those_of_one_error_at_a_time(kernel):
    x = kernels.drawn(6, 6)
    found = trace(kernel, x.copy())
    error = np.asarray(found.out, np.float64) - found.shadow
    numbers = [each.number for each in found.operations]
    effects = [shadow_with(kernel, x, number) - found.shadow for number in numbers]
    exact = np.array([np.sum(effect * error) for effect in effects]) / np.sum(error * error)
    shares = np.array([found.shares.get(number, 0.0) for number in numbers])
    np.testing.assert_allclose(shares, exact, atol=2e-3 * max(1.0, np.abs(exact).max()))
    assert 0.95 < sum(found.shares.values()) < 1.05
    large = np.abs(exact) > 1e-4
    assert np.corrcoef(ranks(shares[large]), ranks(exact[large]))[0, 1] > 0.95


def test_own_error_alone_ranks_wrongly():
    """The first sum has the largest own error of all, and the output has none of it."""
    x = kernels.drawn(8, 8)

    def kernel(x):
        coarse = x.astype(np.float16).astype(np.float32)
        return x * np.float32(1.1) + np.float32(1e-9) * coarse

    found = trace(kernel, x)
    largest = max(found.operations, key=lambda each: each.own.relative)
    assert largest.name == "astype"
    assert abs(found.shares[largest.number]) < 1e-3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.divide(x, x[::-1] + 3),
        lambda x: np.power(x + 3, x),
        lambda x: np.hypot(x, x.T),
        lambda x: np.arctan2(x, x.T),
        lambda x: np.logaddexp(x, x.T),
        lambda x: np.linalg.norm(x, axis=1),
        lambda x: np.linalg.norm(x),
        lambda x: x.mean(0),
        lambda x: np.var(x, axis=1, ddof=1),
        lambda x: x.std(),
        lambda x: x.max(1),
        lambda x: x.prod(0),
        lambda x: np.multiply.reduce(x, axis=1),
        lambda x: np.cumsum(x),
        lambda x: np.cumprod(x, axis=1),
        lambda x: np.maximum.accumulate(x, axis=1),
        lambda x: np.logaddexp.reduce(x, axis=1),
        lambda x: np.clip(x, -0.5, 0.5),
        lambda x: x @ x[0],
        lambda x: x[0] @ x,
        lambda x: np.matmul(x.reshape(2, 2, 4), x[:4, :3]),
        lambda x: np.tensordot(x.reshape(2, 2, 4), x[:, :2], ([2, 0], [0, 1])),
        lambda x: np.einsum("ij,jk->ki", x, x),
        lambda x: np.einsum("ii,ij->j", x, x),
        lambda x: np.einsum("i...,i...", x, x),
        lambda x: np.outer(x[0], x[1]),
        lambda x: np.convolve(x[0], x[1], "same"),
        lambda x: np.vdot(x, x.T),
        lambda x: np.linalg.solve(x + 4 * np.eye(4, dtype=np.float32), x[0]),
        lambda x: np.linalg.inv(x + 4 * np.eye(4, dtype=np.float32)),
        lambda x: np.linalg.det(x + 4 * np.eye(4, dtype=np.float32)),
        lambda x: np.sort(x, axis=0),
        lambda x: np.pad(x, 1, mode="reflect"),
        lambda x: np.where(x > 0, x, 2.0),
        lambda x: np.roll(x, 1),
        lambda x: np.remainder(x, np.float32(0.7)),
        lambda x: np.median(x, axis=1),
    ],
)
def test_a_rule_gives_the_gradient_of_differences(function):
    x = kernels.drawn(4, 4, seed=3)
    # An input has no error, so it gets no gradient: a product of it does.
    found = trace(lambda x: function(x * np.float32(1.1)), x)
    step = next(step for step, _ in reversed(found.engine.tape.steps) if step.operands)
    gradients = [np.random.default_rng(1).standard_normal(each.region.shape) for each in step.written]
    if any(operand.value is None for operand in step.operands):
        for operand in step.operands:
            values = np.random.default_rng(2).standard_normal(operand.region.shape)
            operand.kept = Kept(lambda values=values: values)
    derived = Derived(step.function, step.arguments, step.options, step.operands)
    for one, other in zip(rule_of_step(step)(derived, gradients), by_differences(derived, gradients), strict=True):
        np.testing.assert_allclose(np.broadcast_to(one, other.shape), other, rtol=1e-5, atol=1e-6)


def test_an_operation_without_a_derivative_ends_the_way_of_shares():
    x = kernels.drawn(40, 40)
    found = trace(lambda x: np.median(np.exp(x), axis=1) * np.float32(1.3), x)
    assert [(event.kind, event.name) for event in found.events] == [("shares_cut", "median")]
    exp, median, product = found.operations
    assert exp.number not in found.shares
    assert {median.number, product.number} <= set(found.shares)


def test_a_tape_drops_the_oldest_operations_and_counts_them():
    x = kernels.drawn(32, 32)
    recorder = Recorder(Detail.OWN)
    with NumpyEngine(recorder) as engine:
        tape = engine.operations.tape = engine.tape = NumpyTape(engine.values, limit=40_000)
        y = engine.wrap(x)
        for _ in range(20):
            y = np.tanh(y)
        shares = engine.shares({"out": y})["out"]
    assert tape.bytes <= 40_000
    assert tape.dropped == 20 - len(tape.steps) > 0
    assert set(shares) == set(range(21 - len(tape.steps), 21))
    assert [(event.kind, event.detail, event.changed) for event in recorder.events] == [
        ("shares_cut", "memory", tape.dropped)
    ]


def test_a_trace_without_shares_keeps_no_tape_and_the_same_errors():
    x = kernels.drawn(32, 32)
    with_shares = Recorder(Detail.OWN)
    without = Recorder(Detail.OWN)
    for recorder, shares in ((with_shares, True), (without, False)):
        tracer = Tracer(recorder, shares=shares)
        tracer.call(lambda x: np.tanh(x) * np.float32(3), (x,), {})
        assert bool(tracer.outputs[0].sum_of_shares) == shares
    with NumpyEngine(Recorder(Detail.OWN), shares=False) as engine:
        assert engine.tape is None
    assert [each.own for each in without.operations] == [each.own for each in with_shares.operations]
    assert not any(each.shares for each in without.operations)


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x, y: x / y.astype(np.float16),
        lambda x, y: x * y.astype(np.float16),
        lambda x, y: x @ y.astype(np.float16).T,
        lambda x, y: np.einsum("ij,kj->ik", x, y.astype(np.float16)),
    ],
)
def test_infinities_of_an_input_take_no_share_from_others(kernel):
    """An infinite element equals its exact one, so the shares of all others still add up."""
    generator = np.random.default_rng(0)
    x = generator.uniform(1, 2, (16, 8)).astype(np.float32)
    y = generator.uniform(0.5, 2, (1, 8)).astype(np.float32)
    x[3, 2], x[5, 5] = np.inf, -np.inf
    found = trace(kernel, x, y)
    assert sum(found.shares.values()) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    # The own errors of numbers like 1e-33 fit no float32, and those of float64 are longdouble.
    [(np.float32, 1e-33), (np.float64, 1.0)],
)
def test_the_error_of_a_single_number_is_kept(dtype, scale):
    x = (np.random.default_rng(0).uniform(1, 2, 64) * scale).astype(dtype)
    found = trace(lambda x: np.sum(x) * dtype(0.3), x)
    assert sum(found.shares.values()) == pytest.approx(1, abs=0.01)
