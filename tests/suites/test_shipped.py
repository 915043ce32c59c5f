"""The shipped suites as a reader meets them: each says what it guards, and each known-bad case why it is bad."""

from pathlib import Path

import pytest

from precreg.suite.expand import load_cases
from precreg.suite.load import load_suites
from precreg.types.case import TIERS

PROJECT = Path(__file__).parents[2]
SUITES = load_suites(PROJECT)


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.id)
def test_says_what_it_guards(suite):
    assert suite.file.about
    assert suite.file.category
    assert suite.file.tags
    assert suite.source.file.endswith(f"/{suite.file.suite}.yaml")


def test_every_tier_has_a_suite_and_a_known_bad_case():
    known_bad = {case.tier for case in load_cases(PROJECT) if case.expect_failure}
    assert {suite.tier for suite in SUITES} == known_bad == set(TIERS)
