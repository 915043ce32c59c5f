"""`precreg faults` and `precreg selftest` in a project whose answers are known beforehand."""

import json

import pytest

from tests.e2e.command import precreg, repository, with_suite

KERNELS = '''import numpy as np

SMALL_FIRST = np.array([2.0**-24, 2.0**-24, 2.0**-24, 1], np.float32)


def inverse(x):
    """Needs its epsilon: some x are far below it."""
    return 1 / np.sqrt(x * x + 1e-5)


def total(x):
    """Add small terms before the large one: an error of half a unit, and of one and a half the other way round."""
    return (x * 0 + SMALL_FIRST).sum(-1)


def mean(x):
    return x.mean(-1)


def exact(x):
    return 1 / np.sqrt(x * x + 1e-5)


def exact_total(x):
    return (x * 0 + SMALL_FIRST.astype(np.float64)).sum(-1)


def off(x):
    return x * 1.5


def same(x):
    return x


def root(x, steps):
    y = (1 + x) / 2
    for _ in range(steps):
        y = (y + x / y) / 2
    if steps < 2:
        raise ValueError("too few steps")
    return y


def exact_root(x, steps):
    return np.sqrt(x)
'''
HEAD = "suite: {0}\nsubject: k:{0}\nreference: k:{1}\n"
INPUT = "inputs: {x: {shape: [40, 4], dtype: float32, uniform: {low: 0, high: 0.1}}}\n"
SUITES = {
    "inverse": HEAD.format("inverse", "exact") + INPUT + "seeds: 2\n",
    "total": HEAD.format("total", "exact_total") + INPUT + "tolerance: {max_abs_error: 1e-7}\n",
    "mean": HEAD.format("mean", "mean") + INPUT + "repeats: 2\n",
    "off": HEAD.format("off", "same") + INPUT + "cases: [{match: '*', expect: fail, reason: half off}]\n",
    "root": HEAD.format("root", "exact_root") + INPUT + "params: {steps: 2}\ntolerance: {rtol: 1, atol: 1}\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project of five suites, whose baselines are accepted."""
    folder = tmp_path_factory.mktemp("faults")
    for name, suite in SUITES.items():
        with_suite(folder, suite, KERNELS, name)
    repository(folder)
    precreg(folder, "run", "--jobs", "0")
    accepted = precreg(folder, "baseline", "accept", "--all", "--reason", "first")
    assert accepted.returncode == 0, accepted.stderr
    return folder


@pytest.fixture(scope="module")
def document(project):
    """What selftest says of the whole project, as JSON."""
    done = precreg(project, "selftest", "--jobs", "0", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of_suite(document, suite):
    """Return the scores of one suite's case by fault."""
    return {score["fault"]: score for score in document["scores"] if score["suite"] == suite}


def test_a_dropped_epsilon_is_caught_and_what_is_not_there_has_no_effect(document):
    scores = of_suite(document, "inverse")
    assert scores["dropped_epsilon"]["effect"] == "caught"
    assert scores["dropped_epsilon"]["factor"] > 1000
    assert scores["dropped_epsilon"]["reason"] == "out_of_tolerance"
    without = [name for name, score in scores.items() if score["effect"] == "no effect"]
    assert {"swallowed_nan", "naive_sum", "stale_buffer", "one_step_less", "saturated", "sum_reversed"} <= {*without}


def test_a_bound_that_is_too_narrow_is_a_false_alarm(document):
    scores = of_suite(document, "total")
    assert scores["sum_reversed"]["effect"] == "false alarm"
    assert scores["sum_reversed"]["factor"] == pytest.approx(3)
    assert scores["sum_reversed"]["metric"] == "max_abs_error"
    assert scores["sum_in_float64"]["effect"] == "no effect"


def test_a_stale_buffer_is_seen_by_repeats(document):
    score = of_suite(document, "mean")["stale_buffer"]
    assert (score["effect"], score["reason"]) == ("caught", "nondeterministic")


def test_a_fault_that_makes_the_subject_raise_is_an_error(document):
    score = of_suite(document, "root")["one_step_less"]
    assert (score["effect"], score["reason"]) == ("error", "subject_error")
    assert score["message"] == "ValueError: too few steps"


def test_rates(document):
    assert document["schema"] == "precreg-scores/1"
    assert [row["name"] for row in document["tiers"]] == ["unit"]
    assert document["all"]["cases"] == 4
    assert document["all"]["errors"] == 1
    assert [each["fault"] for each in document["scores"] if each["effect"] == "false alarm"] == ["sum_reversed"]
    assert document["all"]["flagged"]["part"] == 1
    assert [each["why"] for each in document["unplanted"]] == ["it is known to be bad"]


def test_two_processes_say_the_same(project, document):
    assert json.loads(precreg(project, "selftest", "--jobs", "2", "--json").stdout) == document


def test_fewer_seeds_are_judged_by_their_own(project, document):
    options = ("--fault", "hop_float16", "--seeds", "1", "--json", "--jobs", "0")
    (first,) = json.loads(precreg(project, "faults", "unit/inverse", *options).stdout)["scores"]
    every = of_suite(document, "inverse")["hop_float16"]
    assert every["effect"] == first["effect"] == "caught"
    assert every["factor"] != first["factor"]


def test_a_fault_that_is_named_twice_is_planted_once(project):
    options = ("--fault", "hop_float16", "--fault", "hop_float16", "--json", "--jobs", "0")
    assert len(json.loads(precreg(project, "faults", "unit/inverse", *options).stdout)["scores"]) == 1


def test_the_table_for_people(project):
    shown = precreg(
        project, "faults", "unit/inverse", "unit/off", "--fault", "dropped_epsilon", "--fault", "fused"
    ).stdout
    lines = [line.split() for line in shown.splitlines()]
    assert lines[0] == ["unit/inverse/default"]
    assert ["fault", "effect", "factor", "reason", "output", "and", "metric"] in lines
    assert any(line[:2] == ["dropped_epsilon", "caught"] and "out_of_tolerance" in line for line in lines)
    assert "it is known to be bad" in shown


def test_nothing_is_written(project):
    before = sorted(path for path in project.rglob("*") if "__pycache__" not in path.parts)
    precreg(project, "selftest", "--jobs", "0", "unit/inverse")
    assert sorted(path for path in project.rglob("*") if "__pycache__" not in path.parts) == before


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("unit/total", "--at-most", "0"), 1, "are above 0"),
        (("unit/inverse", "--at-least", "0.5", "--at-most", "0"), 0, ""),
        (("unit/off",), 2, ""),
        (("nowhere",), 2, "error[nothing-selected]"),
        (("--at-least", "2"), 2, "2"),
        (("unit/total", "--at-most", "nan"), 2, "nan is not a share"),
    ],
)
def test_exit_codes(project, arguments, code, says):
    done = precreg(project, "selftest", "--jobs", "0", *arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_faults_where_nothing_can_be_judged(project):
    done = precreg(project, "faults", "unit/off", "--jobs", "0")
    assert done.returncode == 2
    assert "not planted in unit/off/default: it is known to be bad" in done.stdout


def test_faults_that_all_make_the_subject_raise_say_why(project):
    done = precreg(project, "faults", "unit/root", "--fault", "one_step_less", "--jobs", "0")
    assert done.returncode == 2
    why = "not judged: one_step_less in unit/root/default: subject_error, ValueError: too few steps\n"
    assert done.stdout.endswith(f"\n\n{why}")
    among_others = precreg(project, "selftest", "unit/root", "--jobs", "0")
    assert among_others.returncode == 0
    assert among_others.stdout.endswith(f"\n\n{why}")


def test_without_scores_there_are_no_tables(project):
    shown = precreg(project, "selftest", "unit/off", "--jobs", "0").stdout
    assert shown == "not planted in unit/off/default: it is known to be bad\n"


def test_the_list_needs_no_project(tmp_path):
    shown = precreg(tmp_path, "faults", "--list").stdout
    assert "swapped_order" in shown
    assert "sum_reversed" in shown
    listed = json.loads(precreg(tmp_path, "faults", "--list", "--json", "--fault", "naive_sum").stdout)
    assert [fault["name"] for fault in listed] == ["naive_sum"]
