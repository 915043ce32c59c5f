import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.measure import metrics
from precreg.measure.metrics import mean_over_seeds, metric_ratio


def test_the_page_is_up_to_date():
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert page.read_text(encoding="utf-8") == metrics.metrics_markdown()


def test_names_are_keys_and_only_measures_of_agreement_are_better_when_higher():
    assert all(name == metric.name for name, metric in metrics.METRICS.items())
    higher = {"match_ratio", "equal_share", "cosine", "snr", "psnr", "effective_bits"}
    higher |= {"min_significant_digits", "median_significant_digits"}
    assert {m.name for m in metrics.METRICS.values() if m.better == "higher"} == higher


def test_every_row_of_the_page_has_all_its_cells():
    rows = [line.replace("\\|", "") for line in metrics.metrics_markdown().splitlines() if line.startswith("| `")]
    assert len(rows) == len(metrics.METRICS) + len(metrics.COUNT_DESCRIPTIONS)
    assert {row.count("|") for row in rows} == {6, 3}


def test_the_table_loads_without_numpy():
    script = "import sys, precreg.measure.metrics, precreg.measure.tally; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("metric", "current", "baseline", "times"),
    [
        ("mean_ulp", 3.0, 2.0, 1.5),
        ("mean_ulp", 1.0, 0.0, None),
        ("mean_ulp", None, 1.0, None),
        ("mean_ulp", 1.0, None, None),
        ("max_abs_error", 1e308, 1e-308, None),
        ("bias", -1.0, 2.0, 0.5),
        ("bias", 81.0, -1.0, 81.0),
        ("match_ratio", 0.5, 1.0, 0.5),
        ("mean_log2_ulp", -1.5, -1.75, 2**0.25),
        ("mean_log2_ulp", 1.0, 0.0, 2.0),
        ("mean_log2_ulp", 2000.0, -2.0, None),
    ],
)
def test_a_ratio_is_of_sizes_and_not_of_logarithms(metric, current, baseline, times):
    assert metric_ratio(metrics.METRICS[metric], current, baseline) == times


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=5))
def test_the_mean_over_seeds_is_the_exact_one_rounded_a_few_times(values):
    exact = sum(map(Fraction, values)) / len(values)
    scale = max(map(abs, values))
    assert abs(Fraction(mean_over_seeds(values)) - exact) <= Fraction(scale) * Fraction(1, 2**50) + Fraction(1, 2**1060)


def test_the_mean_over_seeds_needs_every_seed_and_does_not_overflow():
    assert mean_over_seeds([]) is mean_over_seeds([1.0, None]) is None
    assert mean_over_seeds([1.7e308, 1.7e308]) == 1.7e308
