"""The LayerNorm study against the independent script, its input by its digest, and the rule that does not hold."""

import re
import subprocess
import sys

import numpy as np
import pytest

from tests.e2e.command import ROOT, environ
from tests.suites.kernel_files import load
from tests.suites.measured import comparisons

study = load("unit/kernels/layer_norm_study")
SHA256 = "e6c0fbbd98d9c9137a781e717fd9a59a6bd9d95c16220c77df03a82f6b9b6800"


def test_the_input_is_the_published_one_or_an_error():
    x = study.legacy_normal(42, SHA256)
    assert (x.shape, x.dtype) == ((8, 128, 768), np.float32)
    assert x.flat[:4].tolist() == pytest.approx([0.49671415, -0.1382643, 0.64768854, 1.52302986], abs=1e-7)
    with pytest.raises(ValueError, match=f"of SHA-256 {SHA256}, but numpy .* draws "):
        study.legacy_normal(43, SHA256)


def test_the_findings_are_those_of_the_independent_script():
    command = [sys.executable, ROOT / "benchmarks" / "published_figures.py", "layer_norm"]
    shown = subprocess.run(command, env=environ(), capture_output=True, text=True, check=True).stdout
    for count, correlation in study.FINDINGS.values():
        assert re.search(rf" {count:,}( |$)", shown, re.MULTILINE)
        assert re.search(rf" {correlation:.3f}( |$)", shown, re.MULTILINE)


def test_the_metrics_say_the_same_as_the_study():
    for statistics, (count, correlation) in study.FINDINGS.items():
        normalized = comparisons("unit/layer_norm_study")[statistics][0]
        assert normalized.output == "normalized"
        assert round((1 - normalized.metrics["match_ratio"]) * 786_432) == pytest.approx(count, abs=20)
        assert normalized.metrics["error_magnitude_correlation"] == pytest.approx(correlation, abs=1.5e-3)
