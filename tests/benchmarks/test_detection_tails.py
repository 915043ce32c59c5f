"""The labels of maxima and biases: figures are those of examples worked by hand, and labels follow from intervals."""

import json
import math
import re

import ml_dtypes
import numpy as np
import pytest

from tests.e2e.command import ROOT


@pytest.fixture(autouse=True)
def parts(monkeypatch):
    """Let the modules of benchmarks/ be imported."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def stored():
    from detecting import labels

    return labels.read()


def measured(output, exact):
    """Return the figures of an output by name."""
    from detecting import tails

    with np.errstate(all="ignore"):
        return dict(zip((*tails.FIGURES, "unit"), tails.figures_of(output, exact), strict=True))


def test_figures_are_those_of_an_example_worked_by_hand():
    # Around 1.5, -3 and 0.75 the neighbours of float32 are 2^-23, 2^-22 and 2^-24 apart.
    exact = np.array([1.5, -3.0, 0.75, 0.0])
    output = np.array([1.5 + 2**-22, -3.0 - 2**-22, 0.75, 0.0], np.float32)
    assert measured(output, exact) == {
        "max_abs_error": 2**-22,
        "max_ulp": 2.0,
        "top_abs_error": 2**-22,
        "top_ulp": 2.0,
        "rms_ulp": math.sqrt((4 + 1) / 4),
        "mean_ulp": 3 / 4,
        "bias": 0.0,
        "outward_bias": 2**-23,
        "unit": 2**-23,
    }


def test_the_mean_of_the_largest_is_of_one_in_sixty_four():
    output = 1 + np.arange(256, dtype=np.float64)
    found = measured(output, np.ones(256, np.longdouble))
    assert found["max_abs_error"] == 255
    assert found["top_abs_error"] == (255 + 254 + 253 + 252) / 4
    assert measured(output[:127], np.ones(127))["top_abs_error"] == 126


def test_elements_that_are_not_finite_have_no_part():
    exact = np.array([1.0, 2.0, np.inf, 4.0])
    found = measured(np.array([1.0, np.nan, np.inf, 4.5], np.float32), exact)
    assert (found["max_abs_error"], found["unit"]) == (0.5, 0.25)
    assert np.isnan([*measured(np.full(4, np.nan, np.float32), exact).values()]).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_the_spacing_is_that_of_the_next_number(dtype):
    from detecting.tails import spacing

    smallest = float(ml_dtypes.finfo(dtype).smallest_normal)
    for value in (1.0, 1.5, -2.0, 3.99, 0.1, -1000.0, smallest, 1.75 * smallest):
        nearest = np.array(abs(value), dtype)
        near = nearest if float(nearest) <= abs(value) else np.nextafter(nearest, np.array(0, dtype))
        step = float(np.nextafter(near, np.array(np.inf, dtype))) - float(near)
        assert spacing(np.array([value], np.longdouble), np.dtype(dtype))[0] == step, value
    least = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    assert (spacing(np.array([0.0, smallest / 2], np.longdouble), np.dtype(dtype)) == least).all()


def test_integers_are_one_apart():
    assert measured(np.array([3, -5], np.int32), np.array([1.0, -5.0]))["max_ulp"] == 2


def test_the_growth_of_a_magnitude_is_a_geometric_mean_with_the_interval_of_its_logarithm():
    from detecting.tails import magnitude_growth

    found = magnitude_growth(np.array([2.0, 8.0]), np.array([1.0, 1.0]))
    assert found.value == pytest.approx(4)
    # The logarithms log 2 and log 8 have a standard error of log 2.
    assert (found.lower, found.upper) == pytest.approx((4 / 2**3.2905, 4 * 2**3.2905))
    assert magnitude_growth(np.zeros(3), np.zeros(3)) == (1, 1, 1)
    assert magnitude_growth(np.array([0.0, 2.0]), np.array([2.0, 2.0])).value == 1


@pytest.mark.parametrize(
    ("now", "then", "growth"), [(0.3, 0.1, 0.2), (-0.3, 0.1, 0.2), (0.1, -0.3, -0.2), (-0.2, -0.2, 0), (0.2, -0.2, 0)]
)
def test_the_growth_of_a_bias_is_that_of_its_size(now, then, growth):
    from detecting.tails import bias_growth

    assert bias_growth(np.full(9, now), np.full(9, then)) == pytest.approx((1 + growth,) * 3)


@pytest.mark.parametrize(("now", "then"), [(0.0, 0.0), (0.05, 0.0), (0.1, 0.1), (-0.1, 0.1), (0.02, 0.3)])
def test_intervals_of_biases_hold(now, then):
    """Of 2000 simulated sets of seeds two leave out the truth by chance; the interval is a conservative one."""
    from detecting.tails import bias_growth

    random = np.random.default_rng(7)
    outside = 0
    for _ in range(2000):
        shared = random.normal(0, 0.5, 100)
        found = bias_growth(now + shared + random.normal(0, 0.3, 100), then + shared)
        outside += not found.lower <= 1 + abs(now) - abs(then) <= found.upper
    assert outside <= 8


def test_labels_follow_from_intervals():
    from detecting.tails import Growth, label_of

    small, grown, wide = Growth(1.0, 0.98, 1.04), Growth(1.2, 1.06, 1.3), Growth(1.1, 0.9, 1.3)
    assert label_of([small, small]) == "not_worse"
    assert label_of([small, grown, wide]) == "worse"
    assert label_of([small, wide]) == "unclear"


def operator_of(changes, null=()):
    """Return an operator that rounds 1024 numbers to float32."""
    from detecting.operator import Operator

    return Operator(
        "rounded",
        lambda random: (random.uniform(1, 2, 1024),),
        lambda x: x,
        lambda x: x.astype(np.float32),
        {},
        changes,
        frozenset(null),
    )


def test_a_maximum_that_grew_is_found():
    from detecting.tails import measure_tails

    def spoiled(x):
        """Move one element by two units: mean |d| grows by less than 1 %, and the maximum to 1.5 to 2.5 units."""
        found = x.astype(np.float32)
        found[0] += 2 * np.float32(2**-23)
        return found

    some = operator_of({"spoiled": spoiled, "same": lambda x: x.astype(np.float32)})
    found = measure_tails(some, ("spoiled", "same"))
    assert (found["spoiled"].label, found["spoiled"].seeds) == ("worse", 256)
    assert found["spoiled"].figure in ("max_abs_error", "max_ulp")
    assert 3 < found["spoiled"].growth.value < 5.01
    assert found["same"] == ("not_worse", "max_abs_error", (1, 1, 1), 256)


def test_a_bias_that_grew_is_found():
    from detecting.tails import FIRST_SEED, extend, growths_of

    def upward(x):
        """Round every eighth number up: its mean error is 1/2 unit, and |d| of the nearest is 1/4 unit on average."""
        found = x.astype(np.float32)
        up = np.where(found < x, np.nextafter(found, np.float32(9)), found)
        return np.where(np.arange(found.size) % 8 == 0, up, found)

    kept = {"": [], "upward": []}
    for seed in range(FIRST_SEED, FIRST_SEED + 64):
        extend(operator_of({"upward": upward}), kept, ("upward",), seed)
    found = growths_of(np.array(kept["upward"]), np.array(kept[""]))
    for bias in ("bias", "outward_bias"):
        assert found[bias].value == pytest.approx(1 + 1 / 8 * 2, abs=0.02)
        assert found[bias].lower > 1.2
    assert found["max_ulp"].value == pytest.approx(2, rel=0.02)


def test_a_null_control_needs_no_more_seeds():
    from detecting.tails import Growth, Tails, settled

    unclear = Tails("unclear", "bias", Growth(1.0, 0.9, 1.1), 256)
    assert settled(unclear, True) == unclear._replace(label="not_worse")
    assert settled(unclear, False) == unclear
    worse = unclear._replace(label="worse")
    assert settled(worse, True) == worse


def test_every_change_that_may_be_a_false_alarm_has_a_label_of_its_tails():
    from detecting.operators import OPERATORS
    from detecting.tails import FEWEST, FIGURES, LIMIT

    for operator, changes in stored().items():
        for change, found in changes.items():
            assert (found.tails is not None) == found.asks_for_tails, (operator, change)
            if found.tails is None:
                continue
            label, figure, growth, seeds = found.tails
            assert figure in FIGURES
            assert seeds >= FEWEST
            if change in OPERATORS[operator].null:
                assert label == "not_worse", (operator, change)
            else:
                by_bounds = "worse" if growth.lower > LIMIT else "not_worse" if growth.upper < LIMIT else "unclear"
                assert label == by_bounds, (operator, change)


def test_what_is_known_of_tails_is_measured():
    """Epsilon outside of the root moves rows of small variance, of which a batch has few."""
    found = stored()["layer_norm_float16"]["epsilon outside of the root"]
    assert (found.label, found.tails.label) == ("not_worse", "worse")
    assert found.worse_in_tails
    assert not found.harmless


# None of these calls sine or cosine, whose errors in float32 depend on the vector units that numpy uses.
@pytest.mark.parametrize("name", ["layer_norm_float16", "dequantize_float16", "class_scores_float32"])
def test_labels_of_tails_hold_at_seeds_that_were_not_used(name):
    from detecting.operators import OPERATORS
    from detecting.tails import contradictions

    known = {change: found.tails for change, found in stored()[name].items() if found.tails}
    assert list(contradictions(OPERATORS[name], known, seeds=24)) == []


def test_a_wrong_label_of_tails_is_contradicted():
    from detecting.operators import OPERATORS
    from detecting.tails import Growth, Tails, contradictions

    wrong = {"scales of 13 bits": Tails("not_worse", "max_ulp", Growth(1.0, 0.99, 1.01), 256)}
    (line,) = contradictions(OPERATORS["dequantize_float16"], wrong, seeds=8)
    assert re.match("dequantize_float16: scales of 13 bits: growth of max_ulp was 1 times and is 1.3", line)


def test_labels_of_tails_survive_being_stored_and_older_files_have_none(tmp_path):
    from detecting import labels
    from detecting.tails import Growth, Tails

    label = stored()["polynomial_float64"]["negated"]
    some = label._replace(tails=Tails("worse", "max_ulp", Growth(math.inf, 1.2, math.inf), 512))
    labels.write({"polynomial_float64": {"negated": some}}, tmp_path / "labels.json")
    assert labels.read(tmp_path / "labels.json") == {"polynomial_float64": {"negated": some}}
    line = json.loads((tmp_path / "labels.json").read_text())["labels"]["polynomial_float64"]["negated"]
    del line["tails"]
    assert labels.from_json(line).tails is None


def test_worse_tails_are_no_false_alarms_and_unclear_ones_are():
    from detecting.table import column, tails_summary
    from detecting.tails import Growth, Tails

    label = stored()["layer_norm_float16"]["epsilon outside of the root"]
    kinds = {
        name: label._replace(tails=Tails(name, "bias", Growth(1, 1, 1), 256))
        for name in ("worse", "not_worse", "unclear")
    }
    kinds["grey"] = kinds["worse"]._replace(label="grey")
    kinds["older"] = label._replace(tails=None)

    class Row:
        operator, same_bits = "one", False

    def counted(name):
        rows = [type("Row", (Row,), {"change": change}) for change in kinds]
        return {row.change for row in rows if column(name, {"one": kinds})(row)}

    assert counted("tails") == {"worse"}
    assert counted("alarms") == counted("alarms, other bits") == {"not_worse", "unclear", "older"}
    assert counted("all") == set()
    scored = [found for found in kinds.values() if found.label == "not_worse"]
    assert tails_summary(scored).startswith("of 4 that are not worse, with other bits: 1 worse in a maximum or a bias")
    assert "2 unclear" in tails_summary(scored)
