"""Candidates of the strategies: all combinations, edges, roots, ties, cancelling terms, and what climbing finds."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.arithmetic.exact import exact_round
from precreg.arithmetic.formats import FORMATS, numpy_dtype
from precreg.diagnose.worst_inputs.climb import Elite, climb, mutate, zoom
from precreg.diagnose.worst_inputs.domain import DeclaredRange, _declared_domain
from precreg.diagnose.worst_inputs.strategies import (
    Scores,
    Space,
    bisect_to_roots,
    can_exhaust,
    cancelling_parts,
    edge_values,
    exhaust,
    special_values_first,
    step_to_ties,
    structured_parts,
    sweep_exponents,
)


def domain(dtype="float32", low=-8.0, high=8.0, name="x"):
    return _declared_domain(name, dtype, DeclaredRange(low, high, has_nan=False))


def space(*domains, sizes=None, trials=64):
    return Space(domains, sizes or (1,) * len(domains), trials)


def generator(seed=0):
    return np.random.Generator(np.random.Philox(key=seed))


def played(strategy, function, calls=10_000, format="float16"):
    """Run a strategy on a function of the first input, with its value as the exact output; return all points."""
    points, proposal = [], next(strategy, None)
    while proposal is not None and calls:
        values = next(iter(proposal.parts.values()))
        exact = function(values.astype(np.float64))
        points.append(values[: proposal.counted])
        calls -= 1
        try:
            proposal = strategy.send(Scores(np.abs(exact[:, 0]), exact, FORMATS[format]))
        except StopIteration:
            break
    return np.concatenate(points)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fnuz"])
@pytest.mark.parametrize("trials", [1000, 7])
def test_exhaustive_candidates_are_all_numbers_of_a_range_once(dtype, trials):
    own = domain(dtype, -2.0, 0.5)
    points = played(exhaust(space(own, trials=trials)), lambda x: x)
    patterns = np.arange(2**own.bits).astype(f"u{own.dtype.itemsize}").view(own.dtype)
    with np.errstate(invalid="ignore"):
        wide = patterns.astype(np.float64)
    inside = patterns[(wide >= -2.0) & (wide <= 0.5)]
    assert sorted(points[:, 0].tobytes()) == sorted(inside.tobytes())
    assert len(points) == own.size


def test_exhaustive_candidates_of_two_inputs_are_all_pairs():
    first, second = domain("float8_e5m2", -1.0, 1.0, "x"), domain("float8_e4m3fn", 0.0, 4.0, "y")
    proposals = list(exhaust(space(first, second)))
    pairs = {
        (a.tobytes(), b.tobytes())
        for proposal in proposals
        for a, b in zip(*(values[: proposal.counted] for values in proposal.parts.values()), strict=True)
    }
    assert len(pairs) == first.size * second.size == sum(proposal.counted for proposal in proposals)


def test_sixteen_bits_can_be_tried_one_by_one():
    largest = FORMATS["float16"].largest
    assert can_exhaust(space(domain("float16", -largest, largest)))
    assert can_exhaust(space(domain("float8_e5m2", -1e4, 1e4), domain("float8_e5m2", -1e4, 1e4, "y")))
    assert not can_exhaust(space(domain("float16"), domain("float16", name="y")))
    assert not can_exhaust(space(domain("float32")))
    assert not can_exhaust(space(domain("float16"), sizes=(1000,)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float8_e4m3fn"])
def test_edge_values_have_the_edges_of_the_format_within_the_range(dtype):
    format = FORMATS[dtype]
    every = edge_values(domain(dtype, -format.largest, format.largest)).astype(np.float64)
    wanted = [0.0, 1.0, format.largest, format.smallest_normal, format.smallest_subnormal, 2.0, 0.5]
    wanted.append(format.smallest_normal - format.smallest_subnormal)
    for value in wanted:
        assert value in every
        assert -value in every
    assert 1 + 2 * format.unit_roundoff in every
    inside = edge_values(domain(dtype, 0.25, 1.0)).astype(np.float64)
    assert inside.min() == 0.25
    assert inside.max() == 1.0


STRATEGIES = [special_values_first, sweep_exponents, structured_parts, cancelling_parts]


@given(st.sampled_from(STRATEGIES), st.sampled_from(["float16", "float32", "float64", "bfloat16"]), st.data())
def test_candidates_lie_within_their_ranges_and_follow_from_the_seed(strategy, dtype, data):
    low, high = sorted(data.draw(st.tuples(*[st.floats(-1e4, 1e4)] * 2)))
    sizes = data.draw(st.sampled_from([(1, 1), (5, 5), (6, 3)]))
    high = high + 100.0
    own = space(domain(dtype, low, high), domain(dtype, low, high, "y"), sizes=sizes, trials=9)
    seed = data.draw(st.integers(0, 2**20))
    runs = [[*islice(strategy(own, generator(seed)), 5)] for _ in range(2)]
    for first, second in zip(*runs, strict=True):
        for name, values in first.parts.items():
            assert values.tobytes() == second.parts[name].tobytes()
            assert values.dtype == numpy_dtype(dtype)
            wide = values.astype(np.float64)
            assert np.all((wide >= low) & (wide <= high))


def test_terms_cancel_within_parts_and_between_inputs():
    own = space(domain(low=-100.0, high=100.0), sizes=(8,))
    (proposal,) = islice(cancelling_parts(own, generator()), 1)
    values = proposal.parts["x"].astype(np.float64)
    condition = np.abs(values).sum(axis=1) / np.abs(values.sum(axis=1))
    assert np.median(condition) > 50
    both = space(domain(), domain(name="y"))
    (proposal,) = islice(cancelling_parts(both, generator()), 1)
    x, y = (values.astype(np.float64) for values in proposal.parts.values())
    assert np.median(np.minimum(np.abs(x - y), np.abs(x + y)) / np.abs(x)) < 1e-3


@pytest.mark.parametrize("trials", [1, 64])
@pytest.mark.parametrize("root", [1.0, 2.718281828, -3.0, 1e-30])
def test_bisection_ends_at_the_neighbours_of_a_root(root, trials):
    points = played(bisect_to_roots(space(domain(), trials=trials), generator()), lambda x: x - root, calls=200)
    nearest = np.abs(points.astype(np.float64) - root).min()
    assert nearest <= np.spacing(np.float32(abs(root)))


def test_bisection_of_an_oscillating_function_finds_many_roots():
    own = space(domain(low=-100.0, high=100.0), trials=256)
    points = played(bisect_to_roots(own, generator()), np.sin, calls=200).astype(np.float64)
    turns = points / np.pi
    close = np.abs(np.sin(points)) < 1e-6 * np.abs(points)
    assert len(set(np.round(turns[close]))) > 30


def test_steps_to_ties_bring_results_halfway_between_two_numbers():
    points = played(step_to_ties(space(domain(low=1.0, high=2.0)), generator()), np.exp, calls=50)
    # Three of five calls are the last step and its neighbours.
    shares = []
    for value in points.reshape(-1, 5, 64)[:, 2:].reshape(-1):
        exact = float(np.exp(np.float64(value)))
        rounded = exact_round(exact, FORMATS["float16"])
        shares.append(abs(exact - rounded) / 2.0 ** (np.floor(np.log2(exact)) - 10))
    # Random inputs are this near to a tie in one of 25 trials.
    assert np.mean(np.array(shares) > 0.48) > 0.5


def test_an_elite_keeps_the_largest_errors_once():
    elite = Elite(3)
    values = np.array([[1], [2], [3], [4], [2]], np.float32)
    elite.add({"x": values}, np.array([0.5, 2.0, 0.0, 1.0, 2.0]))
    elite.add({"x": values + 10}, np.array([0.1, 3.0, 0.0, 0.2, 0.0]))
    assert [(error, float(parts["x"][0])) for error, parts in elite.ranked()] == [(3.0, 12.0), (2.0, 2.0), (1.0, 4.0)]


@given(st.sampled_from(["float16", "float32", "float64", "float8_e4m3fnuz"]), st.integers(1, 6), st.integers(0, 10**6))
def test_changed_trials_stay_within_the_domain_and_change_little(dtype, size, seed):
    own = space(domain(dtype), sizes=(size,), trials=40)
    state = own.draw(generator(seed))
    changed = mutate(own, state, generator(seed + 1))["x"].astype(np.float64)
    assert np.all(np.abs(changed) <= 8)
    assert np.median((changed != state["x"].astype(np.float64)).sum(axis=1)) <= 1


@pytest.mark.parametrize("strategy", ["climb", "zoom"])
def test_a_climb_and_a_zoom_find_the_top_of_a_smooth_hill(strategy):
    own = space(domain(), trials=64)
    top = 2.7182817
    made = climb(own, generator(), Elite(32)) if strategy == "climb" else zoom(own, generator())
    points = played(made, lambda x: 1 / (1 + np.abs(x - top)), calls=2000)
    assert np.abs(points.astype(np.float64) - top).min() < 1e-6


def test_a_zoom_of_two_inputs_finds_a_corner():
    own = space(domain(), domain(name="y"), trials=256)
    strategy, best = zoom(own, generator()), 0.0
    proposal = next(strategy)
    for _ in range(3000):
        x, y = (values.astype(np.float64)[:, 0] for values in proposal.parts.values())
        errors = 1 / (1 + np.abs(x - 3) + np.abs(y + 5))
        best = max(best, float(errors.max()))
        proposal = strategy.send(Scores(errors, None, FORMATS["float16"]))
    assert best > 0.99
