"""Options of a trace reach both engines, and values that pass from one front end to the other are named."""

import numpy as np
import pytest
import torch

from precreg.shadow.engines import RunningEngines
from precreg.shadow.recorder import Recorder


@pytest.mark.parametrize("shares", [True, False])
def test_no_engine_keeps_a_tape_without_shares(shares):
    with RunningEngines(Recorder(), shares=shares) as engines:
        result = {"a": np.tanh(engines.wrap(np.float32([0.1, 0.3]))), "t": torch.tensor([0.1, 0.3]).tanh()}
        sums = engines.shares(result)
    assert sums == (pytest.approx({"a": 1, "t": 1}, abs=0.01) if shares else {})
    tapes = [engine.tape if hasattr(engine, "tape") else engine._mode.tape for engine in engines._engines]
    assert [tape is not None for tape in tapes] == [shares, shares]


def kernel(front_end, x, w):
    """Two products, an exact scale by a power of two, and a mean."""
    y = x @ w
    return (front_end.tanh(y * 0.5) * 2.0).mean(-1)


def traced(front_end, x, w):
    """Return the result, its error, and the operations with their errors."""
    recorder = Recorder()
    with RunningEngines(recorder) as engines:
        result = kernel(front_end, engines.wrap(x), engines.wrap(w))
        engines.shares({"out": result})
        shadow = engines.shadow_of(result)
        made = [each for each in recorder.operations if each.note != "created"]
        return engines.plain_array("out", result), shadow, made


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numpy_and_torch_give_one_trace_of_one_computation(dtype):
    drawn = np.random.default_rng(5)
    x, w = (drawn.standard_normal(shape).astype(dtype) for shape in ((24, 48), (48, 32)))
    low, shadow, operations = traced(np, x, w)
    other, other_shadow, others = traced(torch, torch.from_numpy(x), torch.from_numpy(w))

    # The shadows are one computation in float64, and the sums of a product may have another order.
    np.testing.assert_allclose(other_shadow, shadow, rtol=1e-12, atol=1e-14)
    roundoff = float(np.finfo(dtype).eps) / 2
    kinds = ["product", "half", "tanh", "twice", "mean"]
    assert len(operations) == len(others) == len(kinds)
    for kind, one, two in zip(kinds, operations, others, strict=True):
        assert one.shape == two.shape, kind
        if kind in ("half", "twice"):
            # Powers of two make no error in either.
            assert one.own.relative == two.own.relative == 0.0
        assert 0.0 <= one.own.relative <= 48 * roundoff
        assert one.own.relative == pytest.approx(two.own.relative, rel=0.9, abs=roundoff / 2), kind
        assert one.total.relative == pytest.approx(two.total.relative, rel=0.9, abs=roundoff / 2), kind
    for found in (operations, others):
        assert sum(each.shares.get("out", 0.0) for each in found) == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(other.astype(float), low.astype(float), rtol=0, atol=16 * roundoff)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_own_errors_of_single_roundings_agree(dtype):
    """Addition and multiplication round once in both front ends, so that all figures are those of one rounding."""
    drawn = np.random.default_rng(6)
    x, y = (drawn.standard_normal((16, 9)).astype(dtype) for _ in range(2))
    found = []
    for a, b in ((x, y), (torch.from_numpy(x), torch.from_numpy(y))):
        recorder = Recorder()
        with RunningEngines(recorder) as engines:
            a, b = engines.wrap(a), engines.wrap(b)
            result = (a + b) * a
            engines.shares({"out": result})
        found.append([(each.own.relative, each.total.relative, each.shares["out"]) for each in recorder.operations])
    wide = x.astype(np.float64) + y.astype(np.float64)
    expected = np.linalg.norm((x + y).astype(np.float64) - wide) / np.linalg.norm(wide)
    assert found[0][0][0] == pytest.approx(expected, rel=1e-12)
    # The same bits give the same errors. A share is of first order, with gradients at other points in the two.
    np.testing.assert_allclose(np.float64(found[1])[:, :2], np.float64(found[0])[:, :2], rtol=1e-9)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)


def exact_chain(x):
    """Return the chain of the tests below in float64."""
    return np.tanh(np.exp(x.astype(np.float64)) * 1.5)


CROSSINGS = {
    "from torch": lambda x: np.tanh((torch.from_numpy(x).exp() * 1.5).numpy()),
    "from torch by asarray": lambda x: np.tanh(np.asarray(torch.from_numpy(x).exp() * 1.5)),
    "from torch by a copy": lambda x: np.tanh(np.array(torch.from_numpy(x).exp() * 1.5)),
    "from torch by a view": lambda x: np.tanh((torch.from_numpy(x).exp() * 1.5).view(2, -1).t().numpy().T.reshape(-1)),
    "there and back": lambda x: torch.tanh(torch.from_numpy((torch.from_numpy(x).exp()).numpy() * np.float32(1.5))),
    "an exact tensor": lambda x: torch.from_numpy(np.exp(torch.from_numpy(x).numpy())).mul(1.5).tanh(),
    **{
        name: lambda x, name=name: getattr(torch, name)(np.exp(x)).mul(1.5).tanh()
        for name in ("from_numpy", "as_tensor", "tensor", "asarray", "from_dlpack")
    },
}


@pytest.mark.parametrize("name", CROSSINGS)
def test_shadows_go_along_between_arrays_and_tensors(name):
    x = np.random.default_rng(3).standard_normal(24).astype(np.float32)
    plain = CROSSINGS[name](x)
    recorder = Recorder()
    with RunningEngines(recorder) as engines:
        result = CROSSINGS[name](engines.wrap(x))
        low, shadow = engines.plain_array("out", result), engines.shadow_of(result)
    np.testing.assert_array_equal(low, np.asarray(plain))
    np.testing.assert_allclose(shadow, exact_chain(x), rtol=1e-14)
    assert np.linalg.norm(low - shadow) > 0
    assert not [each for each in recorder.events if each.kind in ("cut", "untraced")]
    # The way of shares ends where values change hands.
    assert {each.kind for each in recorder.events} <= {"shares_cut"}


def test_an_array_of_a_tensor_that_is_an_output_has_shares():
    recorder = Recorder()
    with RunningEngines(recorder) as engines:
        result = (torch.linspace(0.1, 1, 9).exp() * 1.5).numpy()
        assert engines.shares({"out": result}) == {"out": pytest.approx(1, abs=0.01)}
        assert engines.shadow_of(result) is not None
    assert recorder.events == ()


def test_writes_on_one_side_are_seen_on_the_other():
    """A tensor and its array have one memory, and so have their shadows."""
    x = torch.linspace(0.1, 1, 6)
    with RunningEngines(Recorder()) as engines:
        tensor = torch.zeros(6)
        array = tensor.numpy()
        array[:3] = np.exp(x.numpy()[:3])
        tensor[3:] = x[3:].tanh()
        found, other = engines.shadow_of(tensor * 1), engines.shadow_of(array * np.float32(1))
    wide = x.numpy().astype(np.float64)
    expected = np.concatenate([np.exp(wide[:3]), np.tanh(wide[3:])])
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    np.testing.assert_array_equal(found, other)


def test_an_array_that_no_engine_knows_is_named():
    def plain():
        return np.sqrt(np.linspace(1, 2, 4, dtype=np.float32))

    hidden = plain()
    recorder = Recorder()
    with RunningEngines(recorder) as engines:
        result = torch.from_numpy(engines.unwrap(hidden)) * 1.1
        # numpy converts a tensor in C code, and makes a tensor of the result.
        np.exp(result)
        assert engines.shadow_of(result) is not None
    events = [(each.kind, each.name, each.detail) for each in recorder.events if each.kind != "shares_cut"]
    assert events == [("untraced", "from_numpy", "plain array")] * 2
