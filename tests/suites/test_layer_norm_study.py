"""The LayerNorm study: its two findings in the suite's metrics, as the independent script has them."""

import re
import subprocess
import sys

import pytest

from tests.e2e.command import ROOT, environ
from tests.suites.measured import comparisons

FINDINGS = {"float16_by_64": (6858, 0.637), "float32": (178, 0.692), "float16_by_1": (571981, 0.836)}
"""Errors above 1e-3, and their correlation with |x|: of the first as published, of the others as measured."""


def test_the_findings_are_those_of_the_independent_script():
    command = [sys.executable, ROOT / "benchmarks" / "published_figures.py", "layer_norm"]
    shown = subprocess.run(command, env=environ(), capture_output=True, text=True, check=True).stdout
    for count, correlation in FINDINGS.values():
        assert re.search(rf" {count:,}( |$)", shown, re.MULTILINE)
        assert re.search(rf" {correlation:.3f}( |$)", shown, re.MULTILINE)


@pytest.mark.parametrize("statistics", FINDINGS)
def test_the_suite_judges_the_findings(statistics):
    """The metric correlates with |reference|, which is nearly |x|: within 0.002."""
    count, correlation = FINDINGS[statistics]
    (found,) = comparisons("unit/layer_norm_study")[statistics]
    assert round((1 - found.metrics["match_ratio"]) * found.counts["n"]) == pytest.approx(count, abs=5)
    assert found.metrics["error_magnitude_correlation"] == pytest.approx(correlation, abs=2e-3)
