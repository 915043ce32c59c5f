"""docs/pairs.md: its commands are run in a real project, its tables held against the program and computed again."""

import re
from math import pi, sqrt

import numpy as np
import pytest

from precreg.baseline.environments import FIRST_FACTS
from precreg.cli.run import run_command
from precreg.environment.machine import detect_environment
from precreg.run.pairs.pair import CASE_SECONDS, MAX_SEEDS, RUN_SECONDS
from precreg.verdict import case_alpha
from precreg.verdict.statistics import looks, seeds_to_detect
from tests.docs.test_docs import commands, matches, page, table
from tests.e2e.command import change, git, precreg, repository, with_suite
from tests.e2e.test_pair import KERNEL, MUCH_WORSE, SLIGHTLY_WORSE, SUBJECT, SUITE

PAGE = page("pairs.md", "pair-test.md", "mixed-machines.md")


@pytest.fixture
def project(tmp_path):
    """A repository with a committed baseline, which was accepted with one thread."""
    folder = repository(with_suite(tmp_path / "project", SUITE, KERNEL))
    precreg(folder, "run", OMP_NUM_THREADS="1")
    precreg(folder, "baseline", "accept", "--all", "--reason", "first", OMP_NUM_THREADS="1")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "accepted")
    return folder


def worse_elsewhere(project):
    """Run a much worse version beside the accepted one with two threads."""
    change(project / "suites/unit/k.py", SLIGHTLY_WORSE, MUCH_WORSE)
    precreg(project, "run", "--pair", "main", OMP_NUM_THREADS="2")


def test_commands_print_what_the_page_shows(project):
    change(project / "suites/unit/k.py", SUBJECT, SLIGHTLY_WORSE)
    shown = commands(PAGE)
    assert [line.split()[0] for line, _ in shown] == ["run", "run", "baseline"]
    for line, expected in shown:
        words = line.split()
        if words[0] == "baseline":
            worse_elsewhere(project)
        # A word about workers, because tests run cases in one process otherwise.
        done = precreg(project, *words, *(("--jobs", "1") if words[0] == "run" else ()))
        code = re.search(r"^exit (\d)", expected, re.MULTILINE)
        assert done.returncode == (int(code[1]) if code else 0), done.stdout + done.stderr
        for part in expected.splitlines():
            assert any(matches(part, found) for found in done.stdout.splitlines()), (part, done.stdout)


def test_options_and_their_defaults():
    rows = {row["option"].split()[0]: row["default"] for row in table(PAGE, "option", "default", "meaning")}
    options = {option.opts[0]: option for option in run_command.params}
    assert rows["--pair"] == options["--pair"].default == "auto"
    assert (rows["--strict"], options["--strict"].is_flag) == ("off", True)
    numbers = {"--max-seeds": MAX_SEEDS, "--pair-seconds": CASE_SECONDS, "--pair-run-seconds": RUN_SECONDS}
    assert rows.keys() == {"--pair", "--strict", *numbers}
    for name, most in numbers.items():
        assert float(rows[name]) == most
        assert f"Default: {most:g}." in options[name].help


def test_the_seeds_that_a_scalar_needs_are_computed_again():
    """Errors of a scalar are half-normal: their standard deviation is sqrt(pi/2 - 1) of their mean."""
    rng = np.random.default_rng(5)
    errors = np.abs(rng.normal(size=200_000))
    assert np.std(errors) / np.mean(errors) == pytest.approx(sqrt(pi / 2 - 1), rel=0.01)
    for row in table(PAGE, "loss of a scalar", "seeds for a power of 90 %"):
        loss = float(row["loss of a scalar"].split()[0])
        spread = sqrt((pi / 2 - 1) * (loss**2 + 1.05**2))
        # Five series, and the looks of the default budget.
        alpha = case_alpha(600) / len(looks(MAX_SEEDS)) / 5
        found = seeds_to_detect([spread, -spread] * 500, 1.05, loss, alpha)
        assert float(row["seeds for a power of 90 %"]) == pytest.approx(found, rel=0.02)


def test_every_fact_is_in_the_table():
    named = [row["fact"] for row in table(PAGE, "fact", "content")]
    assert sorted(named) == sorted(FIRST_FACTS)
    assert set(named) >= set(detect_environment().decisive)
