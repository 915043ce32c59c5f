"""Stochastic cases: known numbers of digits, the same random numbers everywhere, and nothing that passes by absence."""

import random
from fractions import Fraction
from math import log2, log10

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from precreg.measure.significant_digits import normal_allowance
from precreg.quality.variants import make_variant, run_variant
from precreg.run.case_run import run_case
from precreg.run.pipeline import IN_PROCESS, Plan, run_cases
from precreg.run.stochastic import sample_seed
from precreg.types.case import Stochastic
from precreg.types.verdict import Reason
from tests.verdict.made import ENVIRONMENT

CHAIN = ("cpu-x86_64", "cpu", "generic")
SAMPLES = Stochastic(samples=30)
ONE_BIT = log10(2)

KERNELS = """\
import numpy as np


def naive(x):
    total = x[0]
    for term in x[1:]:
        total = total + term
    return total


def compensated(x):
    total, lost = x[0], x[0] * 0
    for term in x[1:]:
        following = total + (term - lost)
        lost = (following - total) - (term - lost)
        total = following
    return total


def total(x):
    return np.sum(x)


def cancelled(x):
    return (1 + x) - 1


def itself(x):
    return x * 1


def muller(x, steps):
    # u -> 111 - 1130/u + 3000/(u v), from u = 5.5 and v = 61/11: exactly it tends to 6, and rounded to 100.
    before, now = x[0] + 5.5, x[1] + 61 / 11
    for _ in range(steps):
        before, now = now, 111 - 1130 / now + 3000 / (now * before)
    return now


def six(x, steps):
    from fractions import Fraction

    before, now = Fraction(11, 2), Fraction(61, 11)
    for _ in range(steps):
        before, now = now, 111 - 1130 / now + 3000 / (now * before)
    return np.float64(now)


def less_one(x):
    return x - 1


def ranks(x):
    return np.argsort(x)


def both(x):
    return {"y": x * 3, "order": np.argsort(x)}


def by_list(x):
    return np.array([2 * value for value in x.tolist()], x.dtype)


def growing(x):
    return x[x * 3 > 1] * 3


def unsteady(x):
    y = x * 3
    y[0] = np.where((y[1] / 7) * 7 != y[1], np.float32(np.nan), y[0])
    return y
"""


@pytest.fixture
def measured(project, case):
    """Return a function that runs a subject with samples, and returns the outcome."""
    (project / "suites/unit/sampled.py").write_text(KERNELS)

    def run(subject, reference="itself", stochastic=SAMPLES, **fields):
        made = case(**fields)
        computations = {
            "subject": replace(made.subject, spec=f"sampled:{subject}"),
            "oracle": replace(made.oracle, spec=f"sampled:{reference}"),
        }
        return run_case(replace(made, stochastic=stochastic, **computations), project, CHAIN)

    return run


def fewest(outcome):
    assert outcome.execution.failure is None, outcome.execution.failure
    return outcome.comparisons[0].metrics["min_significant_digits"]


def uniform(n, low=0.0, high=1.0, dtype="float32"):
    return {"x": {"shape": [n], "dtype": dtype, "uniform": {"low": low, "high": high}}}


def exact_random_sum(terms, generator):
    """Add float32 numbers in order with random rounding, in exact rationals."""
    total = Fraction(float(terms[0]))
    for term in terms[1:]:
        exact = total + Fraction(float(term))
        near = np.float32(float(exact))  # within one float64 rounding, which is exact here: 24 bits and a shift
        other = np.nextafter(near, np.float32(np.inf if Fraction(float(near)) < exact else -np.inf))
        low, high = sorted((Fraction(float(near)), Fraction(float(other))))
        share = (exact - low) / (high - low) if low <= exact <= high else 0
        total = high if generator.random() < share else low if share or exact == low else Fraction(float(near))
    return float(total)


def test_a_naive_sum_has_the_digits_of_exact_random_rounding(measured, project, case):
    outcome = measured("naive", "total", inputs=uniform(500))
    from precreg.run.case_run import suite_folder
    from precreg.run.computation import draw_inputs

    made = case(inputs=uniform(500))
    x = draw_inputs(made, 0, suite_folder(project, made.directory), project)["x"]
    generator = random.Random(4)
    sums = np.array([exact_random_sum(x, generator) for _ in range(200)])
    expected = -log10(np.std(sums) / np.mean(sums)) - normal_allowance(30, 0.95, 0.95) * ONE_BIT
    assert abs(fewest(outcome) - expected) < ONE_BIT


def test_a_compensated_sum_has_more_digits_than_a_naive_one(measured):
    # The other two have 1.9 bits more. Twice the terms take twice the time and show no more.
    naive = fewest(measured("naive", "total", inputs=uniform(500)))
    compensated = fewest(measured("compensated", "total", inputs=uniform(500)))
    pairwise = fewest(measured("total", "total", inputs=uniform(500)))
    assert compensated > naive + 1.5 * ONE_BIT
    assert pairwise > naive + 1.5 * ONE_BIT


@pytest.mark.parametrize("size", [-12.3, -8.4, -4.7])
def test_a_cancellation_has_the_digits_of_its_rounding(measured, size):
    """1 + x lies a share f between two numbers, so that (1 + x) - 1 has a standard deviation of sqrt(f (1 - f)) ULP."""
    x = np.float32(2.0**size)
    inputs = {"x": {"shape": [1], "dtype": "float32", "constant": {"value": float(x)}}}
    share = float(x) * 2**23 % 1
    spread = (share * (1 - share)) ** 0.5 * 2.0**-23
    expected = -log10(spread / float(x)) - normal_allowance(30, 0.95, 0.95) * ONE_BIT
    assert abs(fewest(measured("cancelled", inputs=inputs)) - expected) < ONE_BIT


def test_mullers_sequence_loses_digits_at_its_rate(measured):
    """An error grows by 100/6 a step beside the limit 6: 1.22 digits, until none is left."""
    zeros = {"x": {"shape": [2], "dtype": "float64", "constant": {"value": 0.0}}}

    def digits(steps, **settings):
        stochastic = Stochastic(**settings) if settings else SAMPLES
        return fewest(measured("muller", "six", stochastic, inputs=zeros, params={"steps": steps}))

    early, late = digits(4), digits(9)
    assert abs((early - late) - 5 * log10(100 / 6)) < 3 * ONE_BIT
    general = {"samples": 59, "method": "general", "against": "oracle"}
    assert digits(30, **general) == 0  # every sample is near 100
    assert digits(30) > 10  # they agree with each other, which is why a bound on accuracy is another question


def test_moved_last_bits_of_inputs_show_the_condition(measured):
    """x - 1 at x near 1 + 2^-10 has a condition of 2^10, and a move has a standard deviation of sqrt(2/3) ULP."""
    stochastic = Stochastic(noise="inputs")
    outcome = measured("less_one", inputs=uniform(16, 1 + 2.0**-10, 1 + 2.0**-9.99), stochastic=stochastic)
    expected = (13 - log2((2 / 3) ** 0.5) - normal_allowance(30, 0.95, 0.95)) * ONE_BIT
    assert abs(outcome.comparisons[0].metrics["median_significant_digits"] - expected) < ONE_BIT


def test_samples_leave_the_plain_result_as_it_is(measured):
    plain, sampled = measured("naive", "total", None), measured("naive", "total")
    assert sampled.execution.outputs == plain.execution.outputs
    for before, after in zip(plain.comparisons, sampled.comparisons, strict=True):
        assert {name: after.metrics[name] for name in before.metrics} == before.metrics
        assert b"digits" not in msgspec.json.encode(before)
    assert sampled.comparisons[0].digits.settings == SAMPLES


def test_workers_and_the_process_of_the_command_draw_alike(project, case):
    (project / "suites/unit/sampled.py").write_text(KERNELS)
    made = case(inputs=uniform(64), stochastic=SAMPLES, seeds=3)
    made = replace(
        made, subject=replace(made.subject, spec="sampled:naive"), oracle=replace(made.oracle, spec="sampled:total")
    )
    cases = [made, replace(made, id="unit/s/second", name="second")]

    def digits(jobs):
        outcomes = sorted(run_cases(cases, Plan(project, ENVIRONMENT, jobs)), key=lambda outcome: outcome.case)
        return [[each.digits for each in outcome.comparisons] for outcome in outcomes]

    alone = digits(IN_PROCESS)
    assert alone == digits(2)
    assert alone[0] == alone[1]  # the definition decides, and not the name
    assert len({repr(each.worst) for each in alone[0]}) == 3  # each seed has random numbers of its own


def test_seeds_of_samples_differ():
    seeds = {sample_seed(d, s, n) for d in ("1:a", "1:b") for s in range(5) for n in range(30)}
    assert len(seeds) == 300
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_a_case_on_a_device_is_sampled_on_it(measured):
    on_device = measured("naive", "total", inputs=uniform(64), device="mlu370")
    without = measured("naive", "total", inputs=uniform(64))
    assert 0 < fewest(on_device) < fewest(without)


@pytest.mark.parametrize(
    ("subject", "fields", "message"),
    [
        ("ranks", {}, "real floating-point numbers but got out: int64"),
        ("by_list", {}, "random rounding met none of the subject"),
        ("growing", {}, "expected every sample to give out as float32 of shape"),
    ],
)
def test_noise_that_shows_nothing_is_an_error(measured, subject, fields, message):
    inputs = uniform(4096, 1 / 3 - 1e-7, 1 / 3 + 1e-7) if subject == "growing" else uniform(16)
    failure = measured(subject, inputs=inputs, **fields).execution.failure
    assert failure.reason is Reason.SUBJECT_ERROR
    assert message in failure.message


def test_inputs_without_last_bits_are_an_error(measured):
    stochastic = Stochastic(noise="inputs")
    constant = {"x": {"shape": [3], "dtype": "float32", "constant": {"value": 1.0}}}
    failure = measured("itself", inputs=constant, stochastic=stochastic).execution.failure
    assert "expected an input whose last bits may move" in failure.message


def test_only_real_outputs_have_digits(measured):
    y, order = measured("both", "both", inputs=uniform(16)).comparisons
    assert "min_significant_digits" in y.metrics
    assert "min_significant_digits" not in order.metrics


def test_an_element_that_is_nan_in_some_samples_has_no_digit(measured):
    outcome = measured("unsteady", inputs=uniform(16), seeds=4)
    # Where the result without noise is NaN, too, it has no counterpart in the reference, which fails the case.
    found = [each for each in outcome.comparisons if each.digits.non_finite and not each.counts["nan_mismatched"]]
    assert found
    assert {each.metrics["min_significant_digits"] for each in found} == {0.0}


@pytest.mark.parametrize("fault", [None, "narrow_float16", "truncated_casts"])
def test_self_tests_sample_with_their_fault(project, case, fault):
    (project / "suites/unit/sampled.py").write_text(KERNELS)
    made = case(inputs=uniform(64), stochastic=SAMPLES)
    made = replace(
        made, subject=replace(made.subject, spec="sampled:total"), oracle=replace(made.oracle, spec="sampled:total")
    )
    outcome = run_variant(make_variant(made, "planted", fault=fault), project, CHAIN)
    plain = run_case(made, project, CHAIN)
    assert outcome.execution.failure is None
    assert (fewest(outcome) < fewest(plain) - 1) == (fault == "narrow_float16")
