"""docs/review.md: its walk and its commands are run, its tables and numbers held against the program."""

import json
import re

import click
import pytest
from click.testing import CliRunner

from precreg.baseline import entry as accepted
from precreg.baseline import review as change
from precreg.baseline.review import diff_proposals
from precreg.cli.baseline import DEFAULT_RERUNS
from precreg.cli.baseline import baseline_command as group
from precreg.cli.changes import ACCEPTED_FILE, MAX_LISTED, MAX_SINGLE_CASES
from precreg.cli.review import ANSWERS, read_accept_terms, review_interactively
from precreg.measure.metrics import mean_metrics
from precreg.report.baseline_changes import MAX_CHANGED_CASES, MAX_CHANGED_SUITES
from precreg.run.rerun import NOT_RERUN
from precreg.tolerance.pyramid import DEFAULT_GROWTHS
from precreg.types.case import CUMULATIVE_LOSS, STATISTIC
from precreg.verdict.limits import ROUNDING_FLOOR_ULP
from precreg.verdict.statistics.uncertainty import MIN_SAMPLES
from precreg.verdict.whole_run import CUMULATIVE_BUDGET
from tests.docs.test_docs import commands, matches, names, page, sections, table, write_files
from tests.e2e.command import OUTSIDE, git, precreg, repository

PAGE = page("review.md")
WALK, LIST, DIFF = "baseline review", "baseline list --creep", "baseline diff --against HEAD --markdown"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The project that the page shows, up to its loss."""
    project = repository(write_files(tmp_path_factory.mktemp("review"), PAGE))
    (run, _), (accept, _), (again, expected) = commands(PAGE)[:3]
    precreg(project, *run.split())
    assert accept == 'baseline accept --all --reason "first version"'
    assert precreg(project, "baseline", "accept", "--all", "--reason", "first version").returncode == 0
    git(project, "add", "-A")
    git(project, "commit", "-qm", "accepted")
    kernels = project / "suites/unit/kernels.py"
    before, after = re.search(r"sed -i.bak 's/(.*)/(.*)/'", PAGE).groups()
    kernels.write_text(kernels.read_text().replace(before, after))
    assert expected.strip() in precreg(project, *again.split()).stdout.splitlines()
    return project


def shown_as(expected, printed):
    """Hold printed lines against a page's, of which one that is `...` stands for any number."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in expected.splitlines()
    )
    return re.fullmatch(pattern, printed) is not None


def test_the_walk_is_what_the_page_shows_and_the_list_after_it(project):
    expected = dict(commands(PAGE))[WALK]
    answers = re.findall(r"(?:uit|reason): (.*)", expected)

    @click.command()
    def command():
        review_interactively(read_accept_terms(project, None, DEFAULT_RERUNS), diff_proposals(project))

    waiting = json.loads(precreg(project, "baseline", "review", "--json").stdout)
    assert set(waiting) == {"schema", "proposals", "seen", "left_out"}
    assert [set(proposal) for proposal in waiting["proposals"]] == [keys()]
    assert {key for metric in waiting["proposals"][0]["metrics"] for key in metric} == {
        *("output", "metric", "before", "after", "ratio", "kind", "paired")
    }
    refused = precreg(project, *WALK.split())
    assert "error[not-a-terminal]" in refused.stderr
    done = CliRunner(env=dict.fromkeys(OUTSIDE)).invoke(command, input="\n".join([*answers, ""]))
    assert shown_as(expected, done.output), done.output
    listed = precreg(project, *LIST.split()).stdout.splitlines()
    for line, printed in zip(dict(commands(PAGE))[LIST].splitlines(), listed, strict=True):
        assert matches(line, printed)
    for line, printed in zip(
        dict(commands(PAGE))[DIFF].splitlines(), precreg(project, *DIFF.split()).stdout.splitlines(), strict=True
    ):
        assert matches(line, printed)


def keys():
    return {name for row in table(PAGE, "key", "content") for name in re.findall(r"\w+", row["key"])}


def options(name):
    return {option for one in group.commands[name].params for option in one.opts if option.startswith("--")}


def test_every_option_that_is_named_is_one_and_every_one_of_the_review_is_named():
    asked = set(re.findall(r"--[a-z]+", PAGE))
    shown = options("accept") | options("list") | options("diff")
    assert options("review") <= asked <= options("review") | shown


def test_bounds_of_the_merge_request_are_the_programs():
    shown = sections(PAGE)["In the merge request"]
    assert MAX_CHANGED_CASES == MAX_CHANGED_SUITES == MAX_SINGLE_CASES == 20
    assert "up to 20 cases" in shown
    assert "more than 20 cases" in shown
    assert f"more than {MAX_LISTED} baselines" in shown
    assert f"`{ACCEPTED_FILE}`" in shown


def test_answers_are_those_that_there_are():
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", sections(PAGE)["In a terminal"], re.MULTILINE)
    assert dict(rows) == ANSWERS


def test_numbers_are_the_programs():
    again, creep = sections(PAGE)["What is run again"], sections(PAGE)["Creep"]
    assert f"more than {change.MIN_RELEVANT_RATIO} times" in again
    assert 1 + DEFAULT_GROWTHS[STATISTIC] == change.MIN_RELEVANT_RATIO
    assert names(re.search(r"a mean \((.*?)\)", again, re.DOTALL)[1]) == list(mean_metrics())
    assert f"`{NOT_RERUN}`" in again
    assert DEFAULT_RERUNS == 2, "twice, as the page says"
    assert f"the last {accepted.MAX_ACCEPTED_VALUES} values" in creep
    assert f"A single loss above {CUMULATIVE_BUDGET} times" in creep
    assert f"below {ROUNDING_FLOOR_ULP} ULP" in creep
    assert f"fewer than {MIN_SAMPLES} samples" in creep
    assert DEFAULT_GROWTHS[CUMULATIVE_LOSS] == CUMULATIVE_BUDGET - 1 == 0.25
    assert "25 % are allowed" in creep
    assert round(1.019**12, 2) == CUMULATIVE_BUDGET
