"""A kernel that adds in an order nobody chose, in real processes: declared, not declared, made worse, interrupted."""

import pytest

from tests.e2e.command import change, precreg, repository, with_suite
from tests.e2e.test_execution import lines, results

KERNEL = '''
import os
from pathlib import Path

import numpy as np

CALLS = Path(__file__).parents[2] / ".git" / "calls"  # no file of the project, which would change its digest


def shuffled(x):
    """Another order at every call, as threads have it that add in the order in which they come."""
    with CALLS.open("ab") as calls:  # a byte a call: each call has a number of its own, in every process and run
        calls.write(b".")
        calls.flush()
        call = os.fstat(calls.fileno()).st_size
    return x[np.random.default_rng(call).permutation(len(x))]


def total(x):
    return np.cumsum(shuffled(x), axis=0)[-1]


def exact(x):
    return x.sum(axis=0)
'''
SUITE = """suite: total
subject: k:total
reference: k:exact
matrix: {columns: [48, 64, 80]}
inputs: {x: {shape: [600, $columns], dtype: float32, uniform: {low: 1, high: 2}}}
seeds: 3
repeats: 4
deterministic: false
tolerance: {rtol: 1e-4}
"""
DECLARED = "deterministic: false\n"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A project whose baselines were accepted; tests leave it as it was."""
    project = repository(with_suite(tmp_path_factory.mktemp("determinism"), SUITE, KERNEL))
    precreg(project, "run", "--jobs", "0")  # one process: the accepted figures are the same in every test run
    precreg(project, "baseline", "accept", "--all", "--reason", "first")
    return project


@pytest.fixture
def files(accepted):
    """The suite and the kernel, which are as before when the test is over."""
    place = accepted / "suites" / "unit"
    paths = (place / "s.yaml", place / "k.py")
    kept = [path.read_text() for path in paths]
    yield paths
    for path, text in zip(paths, kept, strict=True):
        path.write_text(text)


def reasons(project):
    return [result["verdict"]["reason"] for result in results(project)]


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_what_need_not_repeat_passes_time_and_again_and_proposes_nothing(accepted, jobs):
    bits = set()
    for _ in range(2):
        done = precreg(accepted, "run", "--jobs", jobs)
        assert (done.returncode, reasons(accepted)) == (0, ["within_tolerance"] * 3), done.stdout
        assert "proposal" not in done.stdout
        for result in results(accepted):
            message, execution = result["verdict"]["message"], result["outcome"]["execution"]
            assert message.startswith("repeats differ as declared, starting in output 'out' at [")
            assert "between run 1 and 2 of seed 0" in message
            assert {one["counts"]["n"] for one in result["outcome"]["comparisons"]} == {
                4 * execution["differences"][0]["size"]
            }
            bits.add(str(execution["outputs"]))
    assert len(bits) == 6, "no run gives what another gave"


def test_what_is_not_declared_fails_with_the_first_position(accepted, files):
    change(files[0], DECLARED, "")
    done = precreg(accepted, "run")
    assert (done.returncode, reasons(accepted)) == (1, ["nondeterministic"] * 3)
    assert "starts in output 'out' at [" in done.stdout


def test_one_case_may_be_declared_alone(accepted, files):
    change(files[0], DECLARED, 'cases:\n- {match: "columns=64", deterministic: false}\n')
    assert precreg(accepted, "run").returncode == 1
    assert reasons(accepted) == ["nondeterministic", "within_tolerance", "nondeterministic"]


@pytest.mark.parametrize("repeats", ["2", "4"])
def test_a_loss_is_caught_whatever_the_order_and_however_often_it_ran(accepted, files, repeats):
    change(files[0], "repeats: 4", f"repeats: {repeats}")
    change(files[1], "    return np.cumsum(shuffled(x), axis=0)[-1]\n", LOSSY)
    assert precreg(accepted, "run").returncode == 1
    assert reasons(accepted) == ["regressed"] * 3
    assert all("x over the baseline" in result["verdict"]["message"] for result in results(accepted))


LOSSY = "    return np.cumsum(shuffled(x), axis=0)[-1] * np.float32(1 + 2e-6)\n"
"""Off by some ULP more than any order is."""


def test_three_runs_are_too_few_for_a_statistic(accepted, files):
    change(files[0], "repeats: 4", "repeats: 1")
    assert precreg(accepted, "run").returncode == 0
    messages = [result["verdict"]["message"] for result in results(accepted)]
    assert all(
        "bits may change from run to run, as declared, and out: fewer than 5 samples" in each for each in messages
    )


def test_runs_that_all_agree_say_that_the_declaration_may_go(accepted, files):
    change(files[1], "np.cumsum(shuffled(x), axis=0)", "np.cumsum(x, axis=0)")
    assert precreg(accepted, "run").returncode == 0
    assert all("all 4 runs of each seed agree" in result["verdict"]["message"] for result in results(accepted))


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_what_an_interrupted_run_had_is_not_drawn_again(accepted, jobs):
    journal = accepted / ".precreg" / "journal.jsonl"
    precreg(accepted, "run", "--jobs", jobs)
    before = {result["id"]: result["outcome"] for result in results(accepted)}
    kept = journal.read_bytes().splitlines(keepends=True)[:3]
    journal.write_bytes(b"".join(kept))
    assert precreg(accepted, "run", "--jobs", jobs, "--resume").returncode == 0
    after = {result["id"]: result["outcome"] for result in results(accepted)}
    same = [case for case in before if after[case] == before[case]]
    assert (len(same), len(after), lines(journal)) == (2, 3, 4), "the third was drawn anew, and gave other bits"
    assert reasons(accepted) == ["within_tolerance"] * 3
