"""The benchmark that scores the gate: labels are those of the changes, statistics hold, and the table is printed."""

import json
import math
import pickle
import re
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest

from precreg.report.findings import add_verdict_messages
from precreg.types.verdict import ChangedEnvironment, EnvironmentFact, OtherEnvironment
from tests.benchmarks.test_benchmarks import run
from tests.e2e.command import ROOT

SHARE = r"(?:[\d.]+ %|-)"


@pytest.fixture(autouse=True)
def parts(monkeypatch):
    """Let the modules of benchmarks/ be imported."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def stored():
    from detecting import labels

    return labels.read()


def test_every_change_has_a_label_and_nothing_else_has():
    from detecting.operators import OPERATORS

    assert {name: list(operator.changes()) for name, operator in OPERATORS.items()} == {
        name: list(of) for name, of in sorted(stored().items(), key=lambda item: list(OPERATORS).index(item[0]))
    }
    for operator in OPERATORS.values():
        assert not operator.harmful.keys() & operator.harmless.keys()


def test_there_are_enough_operators_and_changes_as_measured():
    assert len(stored()) >= 24
    for operator, changes in stored().items():
        found = [one.label for one in changes.values()]
        assert found.count("harmful") >= 8, operator
        assert found.count("not_worse") >= 5, operator


def test_no_two_harmful_changes_are_the_same():
    from detecting.labels import FEW
    from detecting.operators import OPERATORS

    known = stored()
    for operator in OPERATORS.values():
        few = operator.original(*operator.inputs(8)).size <= FEW  # a few elements are often the same by chance
        inputs = [operator.inputs(seed) for seed in range(8, 8 + (64 if few else 1))]
        harmful = [change for change, found in known[operator.name].items() if found.label == "harmful"]
        with np.errstate(all="ignore"):
            bits = {b"".join(operator.changes()[change](*one).tobytes() for one in inputs) for change in harmful}
        assert len(bits) == len(harmful), operator.name


def test_labels_follow_from_what_was_measured_and_span_all_severities():
    from detecting.labels import FEWEST, judged, most_seeds
    from detecting.operators import OPERATORS
    from detecting.table import BANDS, band_of

    every = [one for changes in stored().values() for one in changes.values()]
    for name, changes in stored().items():
        most = most_seeds(OPERATORS[name])
        assert all(FEWEST <= one.seeds <= most for one in changes.values()), name
    assert [one for one in every if judged(one.ratios, one.non_finite > 0)[0] != one.label] == []
    bands = [band_of(one) for one in every if one.label == "harmful"]
    assert all(bands.count(name) >= 10 for name in ("hard", *(name for name, _ in BANDS)))
    assert sum(name in ("<1.1", "1.1-1.5") for name in bands) > 100
    assert sum(one.label == "not_worse" and one.same_bits < 1 for one in every) > 200


@pytest.mark.parametrize(
    "name",
    [
        "layer_norm_float16",
        "cumsum_float32",
        "row_length_float16",
        "int8_product_exact",
        "mean_squared_error_float32",
        "cholesky_solve_float32",
    ],
)
def test_labels_hold_at_seeds_that_were_not_used(name):
    from detecting.labels import contradictions
    from detecting.operators import OPERATORS

    assert list(contradictions(OPERATORS[name], stored()[name], seeds=12)) == []


def test_a_wrong_label_is_contradicted():
    from detecting.labels import contradictions
    from detecting.operators import OPERATORS

    known = stored()["polynomial_float64"]
    swapped = {"steps of 51 bits": known["steps of 52 bits"], "negated": known["negated"]}
    (told, *more) = contradictions(OPERATORS["polynomial_float64"], swapped, seeds=8)
    assert told.startswith("polynomial_float64: steps of 51 bits: mean_abs_error was 2.")
    assert all("steps of 51 bits" in line for line in more)
    hard = {"negated": known["negated"]._replace(label="harmful", severity=math.inf)}
    assert list(contradictions(OPERATORS["polynomial_float64"], hard, seeds=2)) == [
        "polynomial_float64: negated: a hard effect was there"
    ]


def test_intervals_are_those_of_the_bootstrap():
    from detecting.labels import QUANTILE, ratio

    random = np.random.default_rng(1)
    then = random.gamma(5, 1, 400)
    now = 1.3 * then * random.lognormal(0, 0.1, 400)
    picks = random.integers(0, 400, (2000, 400))
    for measure, resampled in (
        ("mean_abs_error", np.log(now[picks].sum(1) / then[picks].sum(1))),
        ("mean_log2_ulp", (now - then)[picks].mean(1) * np.log(2)),
    ):
        found = ratio(measure, now, then)
        half = np.log(found.upper / found.lower) / 2
        assert half == pytest.approx(QUANTILE * resampled.std(), rel=0.1)
        assert np.log(found.value) == pytest.approx(resampled.mean(), abs=0.003)


def test_ratios_without_errors():
    from detecting.labels import Ratio, ratio

    nothing, something = np.zeros(5), np.array([0, 0, 1e-9, 0, 0])
    assert ratio("rms_error", nothing, nothing) == Ratio(1, 1, 1)
    assert ratio("rms_error", something, nothing) == Ratio(math.inf, math.inf, math.inf)
    assert ratio("rms_error", nothing, something) == Ratio(0, 0, 0)


def test_labels_of_clear_and_of_disputed_cases():
    from detecting.labels import Ratio, judged

    def of(absolute, rms=(1, 1, 1), log=(1, 1, 1), ulp=(1, 1, 1)):
        names = ("mean_abs_error", "rms_error", "mean_log2_ulp", "mean_ulp")
        return {name: Ratio(*found) for name, found in zip(names, (absolute, rms, log, ulp), strict=True)}

    assert judged(of((1.2, 1.06, 1.3)), False) == ("harmful", 1.2)
    assert judged(of((1.2, 1.04, 1.3)), False) == ("grey", 1.2)
    assert judged(of((0.5, 0.4, 0.6)), False) == ("not_worse", 1)
    assert judged(of((1, 0.99, 1.03)), False)[0] == "grey"
    assert judged(of((0.9, 0.9, 0.9), log=(1.3, 1.2, 1.4)), False) == ("harmful", 1.3)
    assert judged(of((1, 1, 1), ulp=(9, 2, 40)), False) == ("grey", 1)
    assert judged(of((1, 1, 1), ulp=(9, 0.1, 40)), False) == ("not_worse", 1)
    assert judged(of((1, 1, 1)), True) == ("harmful", math.inf)


def test_labels_survive_being_stored(tmp_path):
    from detecting import labels

    known = {name: stored()[name] for name in ("int8_product_exact", "adam_float32")}
    labels.write(known, tmp_path / "labels.json")
    assert labels.read(tmp_path / "labels.json") == known
    assert json.loads((tmp_path / "labels.json").read_text())["measured on"]["numpy"] == np.__version__
    assert labels.machines(tmp_path / "labels.json") == dict.fromkeys(known, labels.machine())
    apart = {"adam_float32": {"numpy": "0.1"}}
    labels.write(known | {"another": {}}, tmp_path / "labels.json", apart)
    assert labels.machines(tmp_path / "labels.json") == dict.fromkeys((*known, "another"), labels.machine()) | apart


def test_numbers_are_made_shorter_as_formats_are():
    from detecting.rounding import brain, brain_cut, cut, double, fused, half, half_cut, kept

    x = np.random.default_rng(2).normal(0, 1, 2000).astype(np.float32)
    assert (kept(x, 8) == brain(x).astype(np.float32)).all()
    normal = x[np.abs(x) > 1e-4]
    assert (kept(normal, 11) == half(normal).astype(np.float32)).all()
    for short, bits in ((half_cut(normal), 11), (brain_cut(normal), 8), (cut(normal, 20), 20)):
        for number, shorter in zip(normal[:200].tolist(), short[:200].astype(np.float64).tolist(), strict=True):
            unit = Fraction(2) ** (math.frexp(number)[1] - bits)
            assert Fraction(shorter) == int(Fraction(number) / unit) * unit
    wide = double(x) * 1.1
    assert (np.abs(cut(wide, 53) - wide) == 0).all()
    assert (np.abs(kept(wide, 40) - wide) <= np.ldexp(1.0, np.frexp(wide)[1] - 41)).all()
    a, b, c = x[:300], x[300:600], x[600:900]
    exact = [Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)) for p, q, r in zip(a, b, c, strict=True)]
    assert fused(a, b, c).tolist() == [float(np.float32(float(number))) for number in exact]


def test_orders_of_summation_add_every_term_once():
    from detecting import summing

    orders = [summing.serial, summing.backward, summing.tree, summing.halves, summing.lanes, summing.lanes_backward]
    orders += [summing.lanes_halved, summing.runs, summing.swapped, summing.wide, summing.compensated]
    x = np.random.default_rng(3).integers(-1000, 1000, (7, 48)).astype(np.float32)
    for order in orders:
        assert (order(x) == x.sum(-1)).all(), order.__name__
    assert (summing.blocks(x, 16) == x.sum(-1)).all()
    assert (summing.narrow(x, np.float64) == x.sum(-1)).all()
    assert (summing.without_last(x) == x[:, :-1].sum(-1)).all()
    assert (summing.stale_tail(x) == x[:, :-4].sum(-1) + x[:, -8:-4].sum(-1)).all()
    y = np.random.default_rng(4).normal(1, 1, (5, 40)).astype(np.float32)
    near = [float(np.float32(math.fsum(row))) for row in y.tolist()]
    assert np.allclose(summing.compensated(y), near, rtol=1.2e-7, atol=0)


def by_mpmath(name):
    """Return the formula of an operator of one number each, in arbitrary precision."""
    from detecting.interpolation import TERMS

    return {
        "exp_float32": mpmath.exp,
        "softplus_float32": lambda x: mpmath.log1p(mpmath.exp(x)),
        "sin_float64": mpmath.sin,
        "silu_float32": lambda x: x / (1 + mpmath.exp(-x)),
        "gelu_float16": lambda x: (
            x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)))
        ),
        "newton_rsqrt_float32": lambda x: 1 / mpmath.sqrt(x),
        "hann_window_float32": lambda x: mpmath.sin(mpmath.pi * x) ** 2,
        "polynomial_float64": lambda x: sum(mpmath.mpf(term) * x**at for at, term in enumerate(TERMS)),
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        "exp_float32",
        "softplus_float32",
        "sin_float64",
        "silu_float32",
        "gelu_float16",
        "newton_rsqrt_float32",
        "hann_window_float32",
        "polynomial_float64",
    ],
)
def test_exact_results_are_exact_beside_the_errors_that_are_measured(name):
    from detecting.operators import OPERATORS

    operator = OPERATORS[name]
    (x,) = operator.inputs(5)
    few = x.ravel()[:40]
    exact, actual = operator.exact(few), operator.original(few)
    with mpmath.workdps(40):
        true = [by_mpmath(name)(mpmath.mpf(float(number))) for number in few]
        off = [abs(mpmath.mpf(str(number)) - one) for number, one in zip(exact, true, strict=True)]
        error = [abs(mpmath.mpf(float(number)) - one) for number, one in zip(actual, true, strict=True)]
        assert sum(off) < sum(error) / 100


def test_other_operators_draw_other_inputs_and_a_seed_the_same():
    from detecting.operators import OPERATORS

    one, other = OPERATORS["softmax_float32"], OPERATORS["log_softmax_float32"]
    assert (one.inputs(3)[0] == one.inputs(3)[0]).all()
    assert not (one.inputs(3)[0][:64] == other.inputs(3)[0][:64]).any()
    assert not (one.inputs(3)[0] == one.inputs(4)[0]).any()


def test_half_of_the_operators_that_were_there_before_are_held_out():
    from detecting.operators import GROUPS, OPERATORS, group_of, held_out, written_last

    before = OPERATORS.keys() - written_last()
    assert held_out() < before
    assert len(held_out()) == len(before) // 2
    assert {"cumsum_float32", "layer_norm_float32"} < held_out()  # as it was before others were written
    assert {name for name in OPERATORS if group_of(name) == "chosen on"} == before - held_out()
    assert {group_of(name) for name in OPERATORS} == set(GROUPS)


def test_at_least_eight_operators_were_written_last_and_five_of_them_are_small():
    from detecting.operators import OPERATORS, written_last

    sizes = {name: OPERATORS[name].original(*OPERATORS[name].inputs(0)).size for name in written_last()}
    assert len(sizes) >= 8
    assert sum(size <= 15 for size in sizes.values()) >= 5
    assert sum(size == 1 for size in sizes.values()) >= 3


def test_null_controls_are_harmless_and_as_accurate_as_the_original():
    from detecting.operators import OPERATORS

    known = stored()
    null = [(name, change) for name, operator in OPERATORS.items() for change in sorted(operator.null)]
    assert all(change in OPERATORS[name].harmless for name, change in null)
    found = [known[name][change] for name, change in null]
    assert sum(one.label == "not_worse" and one.same_bits < 1 for one in found) >= 100
    assert "harmful" not in {one.label for one in found}
    # Four ratios of each, at 99.9 %: of 480 intervals one leaves 1 out in about every second set of labels.
    ratios = [ratio for one in found for ratio in one.ratios.values()]
    assert sum(not ratio.lower <= 1 <= ratio.upper for ratio in ratios) <= 3
    assert abs(np.mean([np.log(ratio.value) for one in found for ratio in list(one.ratios.values())[:3]])) < 0.001


def test_a_null_control_is_the_original_on_inputs_that_are_as_likely():
    """The reflections and orders that docs and comments name give the bits of the change."""
    from detecting import systems
    from detecting.operators import OPERATORS

    x, q = (operator := OPERATORS["quantiles_float32"]).inputs(3)
    assert (operator.changes()["the other product rounded"](x, q) == -operator.original(-x, 1 - q)).all()
    x, positions = (operator := OPERATORS["rotary_float32"]).inputs(3)
    turned = operator.original(np.concatenate([x[..., 16:], -x[..., :16]], axis=-1), positions)
    expected = np.concatenate([-turned[..., 16:], turned[..., :16]], axis=-1)
    assert (operator.changes()["the other products in one"](x, positions) == expected).all()
    x, weights, bias = (operator := OPERATORS["depthwise_filter_float32"]).inputs(3)
    reflected = operator.original(x[:, ::-1], weights[:, ::-1], bias)[:, ::-1]
    assert (operator.changes()["taps backward"](x, weights, bias) == reflected).all()
    a, y = (operator := OPERATORS["runge_kutta_float64"]).inputs(3)
    renumbered = operator.original(a[:, ::-1, ::-1], y[:, ::-1])[:, ::-1]
    assert (operator.changes()["terms from the last"](a, y) == renumbered).all()
    a, b = (operator := OPERATORS["cholesky_solve_float32"]).inputs(3)
    order = np.arange(8) ^ 1
    other = systems.cholesky(a[:, order][:, :, order], b[:, order])[:, order]
    assert (operator.changes()["neighbouring unknowns exchanged"](a, b) == other).all()
    (x,) = (operator := OPERATORS["bilinear_float16"]).inputs(3)
    assert (operator.changes()["columns first"](x) == operator.original(x.swapaxes(1, 2)).swapaxes(1, 2)).all()


@pytest.mark.parametrize(
    "name",
    [
        "mean_squared_error_float32",
        "mean_cross_entropy_float32",
        "gradient_norm_float64",
        "class_scores_float32",
        "pooled_features_float32",
        "quantiles_float32",
        "histogram_entropy_float32",
        "expert_gates_float32",
        "focal_gradient_float32",
        "group_norm_bfloat16",
        "depthwise_filter_float32",
        "rotary_float32",
        "cholesky_solve_float32",
    ],
)
def test_the_last_operators_are_near_what_they_should_compute_and_their_harmless_changes_are_too(name):
    from detecting.operators import OPERATORS

    operator = OPERATORS[name]
    for seed in (1, 2):
        inputs = operator.inputs(seed)
        exact = operator.exact(*inputs)
        unit = float(ml_dtypes.finfo(operator.original(*inputs).dtype).eps)
        for change, compute in {"": operator.original, **operator.harmless}.items():
            off = np.abs(compute(*inputs).astype(exact.dtype) - exact).max()
            assert off < 100 * unit * np.abs(exact).max(), change


def test_exact_results_of_the_last_operators_are_those_of_other_formulas():
    from detecting.operators import OPERATORS

    def drawn(name):
        inputs = OPERATORS[name].inputs(4)
        return OPERATORS[name].exact(*inputs), *(np.asarray(one, np.float64) for one in inputs)

    exact, guess, target = drawn("mean_squared_error_float32")
    pairs = zip(guess[0].tolist(), target[0].tolist(), strict=True)
    assert exact[0] == pytest.approx(float(sum((Fraction(p) - Fraction(t)) ** 2 for p, t in pairs) / 384), rel=1e-14)
    exact, x, sign = drawn("focal_gradient_float32")
    alpha = mpmath.mpf(float(np.float32(0.3)))
    for z, s, slope in zip(x[0, :20], sign[0], exact[0], strict=False):

        def loss(z, s=s):
            p = 1 / (1 + mpmath.exp(-s * z))
            return -alpha * (1 - p) ** 2 * mpmath.log(p)

        assert slope == pytest.approx(float(mpmath.diff(loss, z)), rel=1e-12)
    exact, x, q = drawn("quantiles_float32")
    assert exact == pytest.approx(np.quantile(x, q), rel=1e-13, abs=1e-15)
    exact, x, positions = drawn("rotary_float32")
    turned = (x[..., :16] + 1j * x[..., 16:]) * np.exp(1j * np.outer(positions, 1e4 ** (-np.arange(16) / 16)))[:, None]
    assert exact == pytest.approx(np.concatenate([turned.real, turned.imag], axis=-1), abs=1e-11)
    exact, a, y = drawn("runge_kutta_float64")
    step = np.eye(8) + sum(np.linalg.matrix_power(0.1 * a, n) / math.factorial(n) for n in (1, 2, 3, 4))
    assert exact.astype(np.float64) == pytest.approx(
        (np.linalg.matrix_power(step, 4) @ y[..., None])[..., 0], rel=1e-10
    )
    exact, a, b = drawn("cholesky_solve_float32")
    assert (a @ exact[..., None])[..., 0] == pytest.approx(b, abs=1e-12)
    exact, counts = drawn("histogram_entropy_float32")
    shares = [[Fraction(int(n), 3000) for n in row if n] for row in counts]
    assert exact == pytest.approx([-sum(float(p) * math.log(p) for p in row) for row in shares], rel=1e-13)
    exact, x = drawn("expert_gates_float32")
    best = np.sort(np.exp(x - x.max(-1, keepdims=True)), axis=-1)[:, :-3:-1]
    assert exact == pytest.approx(best / best.sum(-1, keepdims=True), rel=1e-13)


def test_orders_of_equal_quality_are_permutations_of_the_terms():
    from detecting import summing

    x = np.random.default_rng(5).integers(-1000, 1000, (3, 48)).astype(np.float32)
    y = np.random.default_rng(6).normal(1, 1, (200, 48)).astype(np.float32)
    found = {name: order(y).tobytes() for name, order in summing.EQUAL_ORDERS.items()}
    assert len({summing.lanes(y).tobytes(), *found.values()}) == 1 + len(found)
    for name, order in summing.EQUAL_ORDERS.items():
        assert (order(x) == x.sum(-1)).all(), name
    assert summing.EQUAL_ORDERS.keys() > summing.LANE_ORDERS


def sampled(change, name="row_sum_float32"):
    """Return samples of the original and of a change at three seeds."""
    from detecting.measured import ORIGINAL, samples
    from detecting.operators import OPERATORS

    operator = OPERATORS[name]
    found = samples(operator._replace(harmful={change: operator.changes()[change]}, harmless={}), range(3))
    return found[change], found[ORIGINAL]


def test_rules_see_what_they_look_at():
    from detecting.rules import RULES, baseline_of, verdict

    def flagged(change, name="row_sum_float32"):
        current, accepted = sampled(change, name)
        ours = verdict(current, baseline_of(accepted)).status == "failed"
        return {rule for rule, says in RULES.items() if says(current, accepted)} | ({"precreg"} if ours else set())

    everything = {*RULES, "precreg"}
    assert flagged("the last term lost") == everything
    assert flagged("one accumulator instead of eight lanes") == everything - {"allclose"}
    assert flagged("the second half first") <= {"other bits", "max_abs * 1.1", "max_rel * 1.1", "any of the three"}
    assert flagged("factors change places", "dot_float64") == set()
    assert flagged("the maximum is not taken away", "softmax_float16") == everything


def test_tolerances_grow_with_what_the_original_needs():
    from detecting.rules import allclose

    def beyond(now, then):
        (one, *_), (other, *_) = sampled("terms read as bfloat16")
        return allclose([one._replace(excess=now)], [other._replace(excess=then)])

    assert beyond(1.1, 0.9)
    assert not beyond(1.0, 0.9)
    assert beyond(250, 20)
    assert not beyond(250, 101)


def test_elements_are_compared_one_by_one():
    from detecting.measured import errors_of, truth
    from detecting.operators import OPERATORS
    from detecting.rules import by_elements

    operator = OPERATORS["silu_float32"]
    current, accepted = sampled("truncated to 23 bits", "silu_float32")
    known = [truth(operator, seed) for seed in range(3)]
    change = operator.harmful["truncated to 23 bits"]
    growth = np.concatenate([(errors_of(change(*one.inputs), one.exact) - one.errors).ravel() for one in known])
    z = growth.mean() / (growth.std() / np.sqrt(growth.size))
    assert sum(one.pairs for one in current) == growth.size
    assert z > 3
    assert by_elements(current, accepted)
    nothing = [one._replace(growth=2.9 / z * one.growth) for one in current]
    assert not by_elements(nothing, accepted)


def blocks_of(shown, title):
    """Return the lines under each place of a title."""
    return [block.splitlines() for block in re.findall(rf"^{title}\n((?:.+\n)+)", shown, re.MULTILINE)]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the benchmark prints of two operators, judged by stored originals, too."""
    file = tmp_path_factory.mktemp("stored") / "originals.pickle"
    asked = ("row_sum_float32", "int8_product_exact", "--trials", 2, "--seeds", 3)
    run("detection.py", *asked, "--dump", file, "--originals")
    return run("detection.py", *asked, "--paired", 1, "--against", file)


def test_the_table_has_a_row_for_every_rule_in_each_group(shown):
    from detecting.rules import OURS, RULES
    from detecting.table import COLUMNS

    assert re.match(r"2 operators, 39 changes: \d+ harmful, \d+ not worse, \d+ grey\n", shown)
    assert (
        "\nshare of 2 trials of 3 seeds in which each rule reports a change; 1 of them go on to fresh seeds\n" in shown
    )
    rules = (*OURS, *RULES)
    for title in ("chosen on", "held out", "both halves"):
        lines = blocks_of(shown, title)[0]
        assert re.split(r"  +", lines[0].strip()) == list(COLUMNS)
        assert len(lines) == 2 + len(rules)
        for rule, row in zip(rules, lines[2:], strict=True):
            assert row.startswith(f"{rule}  ")
            assert re.fullmatch(rf" +{SHARE}" * len(COLUMNS), row[len(rule) :]), row
    assert len(blocks_of(shown, "written last")[0]) == 2
    (lines,) = blocks_of(shown, "alarms on null controls: 4 changes with other bits.*")
    for rule, line in zip(rules, lines, strict=True):
        assert re.fullmatch(rf"  {re.escape(rule)} +{SHARE} of [48] trials", line), line


def test_seeds_and_seconds_of_changed_cases_stand_below_the_table(shown):
    from detecting.effort import HEADER, ROWS
    from detecting.rules import DEFAULT, DEFAULT_ELSEWHERE

    for rule in (DEFAULT, DEFAULT_ELSEWHERE):
        assert f"\nfresh seeds of {rule}, and seconds of one core for both versions and the reference, by" in shown
    for lines in blocks_of(shown, "both halves")[1:]:
        assert re.split(r"  +", lines[0].strip()) == list(HEADER[1:])
        assert [line[:16].strip() for line in lines[1:]] == [*ROWS, "every change"]
        assert re.fullmatch(r"every change +\d+ +[\d.]+ %( +\d+){3}( +[\d.e-]+){2} +[\d.]+ %", lines[-1])
    for title in ("missed by", "worse maxima and biases found by", "false alarms by"):
        assert all(f"\n{title} {rule}\n" in shown for rule in ("precreg", "precreg, other baseline"))
    assert shown.endswith("\nnot changed: 4 identical\nas if it were the same environment: 4 identical\n")


def test_a_case_that_ends_on_its_own_seeds_takes_no_fresh_one():
    from detecting.effort import cells
    from detecting.pairs import Paired

    ends = [Paired(None, 0, 0.0, "worse"), Paired(None, 20, 0.5, "worse"), Paired(None, 40, 1.0, "not_clear")]
    assert cells(ends) == ["3", "33.3 %", "20", "40", "20", "0.5", "1", "33.3 %"]
    assert cells([]) == ["0", *["-"] * 7]


def test_a_table_can_be_put_on_a_page():
    from detecting.rules import RULES
    from detecting.table import COLUMNS

    shown = run("detection.py", "int8_product_exact", "--trials", 1, "--markdown")
    block, *_ = re.findall(r"^both halves\n\n((?:\|.+\n)+)", shown, re.MULTILINE)
    header, rule, *lines = block.splitlines()
    assert header == f"|  | {' | '.join(COLUMNS)} |"
    assert rule == "|" + "---|" * (len(COLUMNS) + 1)
    assert len(lines) == 3 + len(RULES)
    assert lines[1].startswith("| precreg | 100.0 % | - |")
    assert lines[2].startswith("| precreg --pair off | 100.0 % | - |")


def test_a_trial_has_the_seeds_of_a_suite_that_states_none():
    import detection

    from precreg.types import DEFAULT_SEEDS

    assert detection.options([]).seeds == DEFAULT_SEEDS


def test_measurements_are_stored(tmp_path):
    from detecting.measured import ORIGINAL
    from detecting.operators import OPERATORS

    file = tmp_path / "samples.pickle"
    run("detection.py", "silu_float32", "--trials", 2, "--seeds", 3, "--dump", file)
    found = pickle.loads(file.read_bytes())
    assert found["samples"]["silu_float32"].keys() == {ORIGINAL, *OPERATORS["silu_float32"].changes()}
    original = found["samples"]["silu_float32"][ORIGINAL]
    assert [one.comparison.seed for one in original] == list(range(6))
    assert len(original[0].comparison.groups) == 2
    assert found["labels"] == {"silu_float32": stored()["silu_float32"]}
    assert "mean_squared_error_float32" in found["written_last"]
    assert found["null"] == {"silu_float32": []}


def test_changes_of_an_environment_are_told_and_judged_as_such():
    from detecting import elsewhere
    from detecting.rules import ENVIRONMENT

    current, accepted = sampled("one accumulator instead of eight lanes")
    facts = {"f00d": ENVIRONMENT.decisive | {"numpy": "0.1"}}
    there = elsewhere.Elsewhere({"row_sum_float32": accepted}, facts)
    found = elsewhere.unchanged("row_sum_float32", current, 3, there)
    (given,) = found.verdicts
    assert given.status == "failed"
    upgraded = ChangedEnvironment((EnvironmentFact("numpy", "0.1", np.__version__),))
    assert given.accepted_in == OtherEnvironment("exact", upgraded)
    assert [one.accepted_in for one in found.here] == [None]
    now, then = (sum(one.comparison.metrics["mean_abs_error"] for one in each) for each in (current, accepted))
    first, *others = elsewhere.lines([found])
    assert first.startswith(f"row_sum_float32: 1 regressed; times the other's: mean_abs_error {now / then:.3g}, rms")
    assert others == [
        f"  trial 0: {add_verdict_messages(given).message}",
        "not changed: 1 regressed",
        "as if it were the same environment: 1 regressed",
    ]


def only(operator, changes):
    """Return an operator with some of its changes."""
    return operator._replace(harmful={}, harmless={name: operator.changes()[name] for name in changes})


def test_a_pair_draws_seeds_until_it_is_clear():
    from detecting import pairs, rules
    from detecting.measured import ORIGINAL, samples
    from detecting.operators import OPERATORS

    changes = ["in float64", "blocks of 4", "blocks of 8", "carries in float16", "negated"]
    some = only(OPERATORS["cumsum_float32"], changes)
    own = samples(some, range(3))
    baseline = rules.baseline_of(own[ORIGINAL])
    found = pairs.paired(some, {change: rules.verdict(own[change], baseline) for change in changes}, 0)
    assert {name: (str(one.verdict.reason), one.seeds, one.end) for name, one in found.items()} == {
        "in float64": ("improved", 20, "clear"),
        "blocks of 4": ("regressed", 20, "worse"),
        "blocks of 8": ("regressed", 80, "worse"),
        "carries in float16": ("regressed", 0, "worse"),
        "negated": ("identical", 0, "same_bits"),
    }
    assert found["blocks of 8"].seconds > found["blocks of 4"].seconds > 0 == found["negated"].seconds


def test_seconds_limit_the_looks_of_a_case():
    from detecting.pairs import BUDGET, affordable

    assert affordable(1e-9) == BUDGET.seeds
    assert affordable(BUDGET.case_seconds / 100) == 80
    assert affordable(BUDGET.case_seconds) == 20


def test_a_baseline_from_elsewhere_judges_first_and_then_the_original_here():
    from detecting.pairs import Paired
    from detecting.trials import after_other_baseline

    from precreg.types import Reason, Status, Verdict

    passed, failed = (Verdict(Status.PASSED, Reason.WITHIN_TOLERANCE), Verdict(Status.FAILED, Reason.REGRESSED))
    end = Paired(failed, 20, 0.5, "worse")
    first = {"goes on": passed, "fails": failed, "same": Verdict(Status.PASSED, Reason.IDENTICAL)}
    found = after_other_baseline(first, dict.fromkeys(first, end))
    assert found["goes on"] == end
    assert found["fails"] == Paired(failed, 0, 0.0, "worse")
    assert found["same"].end == "same_bits"


def test_a_look_at_more_seeds_has_those_before_and_no_others_twice():
    from detecting.operators import OPERATORS
    from detecting.pairs import Fresh

    drawn = []
    original = OPERATORS["cumsum_float32"]

    def watched(random):
        drawn.append(str(random.bit_generator.state))
        return original.draw(random)

    both = ["blocks of 32", "blocks of 8"]
    some = only(original._replace(draw=watched), both)
    for fresh in (Fresh(some, trial) for trial in (0, 1)):
        fresh.draw(both, 3)
        first = fresh.output("blocks of 32", 3).pairs
        fresh.draw(["blocks of 32"], 6)
        assert fresh.output("blocks of 32", 6).pairs[:3] == first
        assert [pair.accepted for pair in fresh.output("blocks of 8", 3).pairs] == [pair.accepted for pair in first]
        assert [len(fresh.seconds[change]) for change in both] == [6, 3]
    assert len(drawn) == len(set(drawn)) == 12  # six seeds of each trial, which its changes share


def test_an_operator_that_is_not_there_is_told():
    import detection

    assert detection.main(["softmx"]) == 2
