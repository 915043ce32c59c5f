"""docs/pairs.md: its commands are run in a real project, its tables held against the program and simulated again."""

import re
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.baseline.environments import FIRST_FACTS
from precreg.cli.run import run_command
from precreg.environment.machine import detect_environment
from precreg.verdict.judge import Policy
from precreg.verdict.regression import case_alpha, find_regressions, gather_evidence
from precreg.verdict.statistics.sequential import MAX_SECONDS, MAX_SEEDS, interim_analyses, is_conclusive, split_alpha
from tests.docs.test_docs import commands, matches, table
from tests.e2e.command import change, precreg, repository, with_suite
from tests.e2e.test_pair import KERNEL, MUCH_WORSE, SLIGHTLY_WORSE, SUBJECT, SUITE
from tests.verdict.statistics.test_sequential import TOLERANCE, entry, outcome, passed

PAGE = (Path(__file__).parents[2] / "docs" / "pairs.md").read_text()


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path / "project", SUITE, KERNEL))


def worse_elsewhere(project):
    """Accept what the first version gives with one thread, and run a much worse one beside it with two."""
    kernel = project / "suites/unit/k.py"
    change(kernel, SLIGHTLY_WORSE, SUBJECT)
    precreg(project, "run", OMP_NUM_THREADS="1")
    precreg(project, "baseline", "accept", "--all", "--reason", "first", OMP_NUM_THREADS="1")
    change(kernel, SUBJECT, MUCH_WORSE)
    precreg(project, "run", "--pair", "main", OMP_NUM_THREADS="2")


def test_commands_print_what_the_page_shows(project):
    change(project / "suites/unit/k.py", SUBJECT, SLIGHTLY_WORSE)
    shown = commands(PAGE)
    assert [line.split()[0] for line, _ in shown] == ["run", "run", "baseline"]
    for line, expected in shown:
        if line.startswith("baseline"):
            worse_elsewhere(project)
        done = precreg(project, *line.split())
        code = re.search(r"^exit (\d)", expected, re.MULTILINE)
        assert done.returncode == (int(code[1]) if code else 0), done.stdout + done.stderr
        for part in expected.splitlines():
            assert any(matches(part, found) for found in done.stdout.splitlines()), (part, done.stdout)


def test_options_and_their_defaults():
    rows = {row["option"].split()[0]: row["default"] for row in table(PAGE, "option", "default", "meaning")}
    options = {option.opts[0]: option for option in run_command.params}
    assert list(rows) == ["--pair", "--max-seeds", "--pair-seconds"]
    assert rows["--pair"] == "none"
    assert not options["--pair"].required
    assert (float(rows["--max-seeds"]), float(rows["--pair-seconds"])) == (MAX_SEEDS, MAX_SECONDS)
    for name, most in (("--max-seeds", MAX_SEEDS), ("--pair-seconds", MAX_SECONDS)):
        assert f"Default: {most:g}." in options[name].help


def test_every_fact_is_in_the_table():
    named = [row["fact"] for row in table(PAGE, "fact", "what it is")]
    assert sorted(named) == sorted(FIRST_FACTS)
    assert set(named) >= set(detect_environment().decisive)


def test_what_more_seeds_bring_is_simulated_again():
    for row in table(PAGE, "true ratio", "found with 3 seeds", "found in a pair", "seeds drawn, on average"):
        told = [float(cell.removesuffix(" %")) for cell in row.values()]
        _, at_once, in_pair, seeds = told
        runs = 12
        found = [simulated(np.random.default_rng([11, run]), told[0]) for run in range(runs)]
        for number, rate in (
            (sum(first for first, _, _ in found), at_once),
            (sum(late for _, late, _ in found), in_pair),
        ):
            deviation = sqrt(max(rate * (100 - rate), 100) / runs)
            assert abs(number / runs * 100 - rate) <= 3 * deviation, row
        assert sum(drawn for _, _, drawn in found) / runs == pytest.approx(seeds, rel=0.2)


def simulated(rng, ratio):
    """Return whether a loss is found with three seeds, and in a pair, and after how many seeds that ends."""
    looks = interim_analyses(3, 32)
    current, accepted = outcome(rng, looks[-1], ratio, "b"), outcome(rng, looks[-1])
    alone = found(first_seeds(current, 3), first_seeds(accepted, 3), Policy())
    for seeds in looks:
        now, then = first_seeds(current, seeds), first_seeds(accepted, seeds)
        if found(now, then, split_alpha(Policy(), len(looks))):
            return alone, True, seeds
        if is_conclusive(passed(), now, entry(then), {"out": TOLERANCE}):
            break
    return alone, False, seeds


def first_seeds(outcome, seeds):
    digests = {name: digests[:seeds] for name, digests in outcome.execution.outputs.items()}
    execution = replace(outcome.execution, inputs=outcome.execution.inputs[:seeds], outputs=digests)
    return replace(outcome, comparisons=outcome.comparisons[:seeds], execution=execution)


def found(current, accepted, policy):
    level = case_alpha(policy.baselines)
    output = gather_evidence(
        current.comparisons, entry(accepted), TOLERANCE, "reference", same_environment=True, alpha=level
    )
    return any(True for _ in find_regressions(output))
