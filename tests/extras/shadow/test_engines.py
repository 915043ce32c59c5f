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
    np.testing.assert_allclose(found[1], found[0], rtol=1e-2)
