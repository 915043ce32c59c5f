"""docs/drift.md: its commands are run in a real project, its figures and tables held against the program."""

import re

import pytest

from precreg.cli.drift import drift_command
from precreg.cli.history import DEFAULT
from precreg.history.drift import judge, sizes
from precreg.history.drift import judge as changes
from precreg.history.drift import sizes as recent
from precreg.history.drift.monitor import BIAS_SHARE
from precreg.history.drift.record import DriftReference, DriftSettings, DriftState, drift_exit_code
from precreg.verdict.statistics import change_points as detect
from tests.docs.test_docs import commands, matches, names, page, sections, table
from tests.e2e.command import change, git, precreg, repository, with_suite
from tests.history.drift.test_study import study

PAGE = page("drift.md", "drift-statistics.md")
KERNEL = "def mean(x):\n    return x.mean(axis=0)\n\n\ndef exact(x):\n    return x.mean(axis=0)\n"
SUITE = """\
suite: s
subject: k:mean
reference: k:exact
inputs: {x: {shape: [64, 64], dtype: float32, normal: {mean: 1, std: 1}}}
tolerance: {rtol: 1}
"""


@pytest.fixture
def project(tmp_path):
    """A project of one case with an accepted baseline, four runs of a release, and no run of what came after."""
    project = repository(with_suite(tmp_path, SUITE, KERNEL))
    precreg(project, "run", "--jobs", "0")
    precreg(project, "baseline", "accept", "--all", "--reason", "first version")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "baselines")
    git(project, "tag", "v1.0")
    keep(project, 4)
    return project


def keep(project, runs):
    for _ in range(runs):
        precreg(project, "run", "--jobs", "0")
        assert precreg(project, "history", "add", "--create", "reports").returncode == 0


def test_commands_print_what_the_page_shows(project):
    shown = commands(PAGE)
    assert [line.split()[0] for line, _ in shown] == ["drift", "drift"]
    for worse, (line, expected) in enumerate(shown):
        if worse:
            change(project / "suites/unit/k.py", "return x.mean(axis=0)\n\n", "return x.mean(axis=0) * 1.0000003\n\n")
            git(project, "commit", "-q", "-am", "coarser")
            keep(project, 2)
        done = precreg(project, *line.split())
        assert done.returncode == int(re.search(r"^exit (\d)", expected, re.MULTILINE)[1]), done.stdout + done.stderr
        for part in expected.splitlines():
            assert any(matches(part, found) for found in done.stdout.splitlines()), (part, done.stdout)


def test_every_option_is_in_the_table_with_its_default():
    rows = {row["option"]: row["default"] for row in table(PAGE, "option", "default", "meaning")}
    options = {option.opts[0]: option for option in drift_command.params}
    assert list(rows) == ["PATTERN", *(name for name in options if name.startswith("--"))]
    for name, option in options.items():
        if isinstance(option.default, int | float):
            assert float(rows[name]) == option.default
    assert rows["--junit-dialect"] == options["--junit-dialect"].default
    assert rows["--history"] == f".precreg/{DEFAULT}"
    limits = options["--window"].type
    assert f"{limits.min} to {limits.max}" in PAGE
    assert DriftSettings() == DriftSettings(
        *(options[f"--{name}"].default for name in ("window", "confirm", "materiality"))
    )


def test_the_states_and_their_exit_codes():
    rows = table(PAGE, "state", "when", "exit code")
    assert [row["state"] for row in rows] == list(DriftState)
    for row in rows:
        assert drift_exit_code([DriftState.STEADY, DriftState(row["state"])]) == int(row["exit code"])


def test_the_comparisons_are_those_there_are():
    rows = table(PAGE, "against", "finds", "ends with")
    assert [row["against"] for row in rows] == list(DriftReference.__args__)


def test_the_metrics_are_those_that_are_judged():
    means, maxima, analyzers = (row["metrics"] for row in table(PAGE, "metrics", "growth that counts"))
    assert tuple(names(means)) == sizes.drift_means()
    assert tuple(names(maxima)) == sizes.drift_maxima()
    assert not names(analyzers)
    assert f"| to more than {sizes.MIN_RELEVANT_MAXIMUM_RATIO:g} times |" in PAGE
    assert BIAS_SHARE == 0.1


def test_the_figures_of_the_statistics():
    text = " ".join(sections(PAGE)["Exactly, or by statistics"].split())
    for said in (
        f"a significance level of {detect.DRIFT_ALPHA:g}".replace("e-05", "e-5"),
        f"at most {detect.MAX_EXACT_SIDE} runs",
        f"by {detect.JUMP_SIGMAS:g} (1 + {detect.SMALL_SAMPLE_CORRECTION} / n)",
        f"{detect.OFFSET_SIGMAS:g} (1 + {detect.SMALL_SAMPLE_CORRECTION} / n)",
        f"{detect.SIGMA_OF_MAD:g} times",
        f"the last {recent.MEDIAN_RUNS} runs",
        f"Fewer than {judge.MIN_RUNS_FOR_NOISE} runs",
        f"each of the last {judge.MIN_NOISY_RUNS} must be more than {judge.FEW_RUNS_FACTOR:g} times",
        f"Fewer than {judge.MIN_NOISY_RUNS} are not judged",
        f"No order of {detect.MIN_RUNS} runs",
        f"at least {changes.MIN_FLICKERS} times",
        f"more than {recent.MIN_LEVEL_CHANGES - 1} times",
        f"above {recent.LARGE_STEP:g} times is reported at its first run",
        f"The limit is {detect.ORDER_ALPHA:g}",
        f"{recent.MIN_EQUAL_RUNS} runs in a row",
        f"at least {detect.CLEAR_RISE_SIGMAS} standard deviations",
        f"Fewer than {detect.MIN_RUNS_FOR_CORRELATION} runs",
        f"the last {detect.LATE_RUNS} runs have more than {detect.CHANCE_GROWTH:g} times",
    ):
        assert said in text, said


def test_the_study_has_these_histories_and_what_has_no_noise_is_found_when_the_page_says():
    drifting = table(PAGE, "history that drifts", "found", "after run", "mostly against")
    steady = table(PAGE, "history without drift", "false alarms", "too noisy")
    assert [row["history that drifts"] for row in drifting] == [scenario.name for scenario in study.DRIFTING]
    assert [row["history without drift"] for row in steady] == [scenario.name for scenario in study.STEADY]
    for row, scenario in zip(drifting, study.DRIFTING, strict=True):
        if "exact" in scenario.name:
            assert study.first_told(scenario, 0).run == int(row["after run"].split()[0])


def test_independent_gaussian_noise_is_within_the_promise():
    rows = table(PAGE, "history without drift", "false alarms", "too noisy")
    gaussian = [float(row["false alarms"].split()[0]) for row in rows if row["history without drift"].startswith("Gau")]
    assert len(gaussian) == 3
    assert max(gaussian) <= 2
