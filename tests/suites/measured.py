"""What a shipped suite measures here and now: its comments state figures, and tests hold them to these."""

from functools import lru_cache

from precreg.run.case_run import run_case
from precreg.suite.expand import expand_suite
from precreg.suite.load import load_suites
from tests.e2e.command import ROOT
from tests.shipped import project_of_suites


@lru_cache
def comparisons(suite_id):
    """Return the comparisons of every case of a suite, by the case's name, in order of seeds."""
    suite = next(suite for suite in load_suites(ROOT) if suite.id == suite_id)
    project = project_of_suites()
    return {case.name: run_case(case, project, ("generic",)).comparisons for case in expand_suite(suite, ROOT)}


def largest(suite_id, case, metric):
    """Return the largest value of a metric over the seeds of a case."""
    return max(comparison.metrics[metric] for comparison in comparisons(suite_id)[case])


def average(suite_id, case, metric):
    """Return the mean of a metric over the seeds of a case."""
    values = [comparison.metrics[metric] for comparison in comparisons(suite_id)[case]]
    return sum(values) / len(values)
