import subprocess
import sys
from pathlib import Path

from precreg.measure import metrics


def test_the_page_is_up_to_date():
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert page.read_text(encoding="utf-8") == metrics.markdown()


def test_names_are_keys_and_only_shares_of_agreement_are_better_when_higher():
    assert all(name == metric.name for name, metric in metrics.METRICS.items())
    assert {m.name for m in metrics.METRICS.values() if m.better == "higher"} == {"match_ratio", "equal_share"}


def test_every_row_of_the_page_has_all_its_cells():
    rows = [line.replace("\\|", "") for line in metrics.markdown().splitlines() if line.startswith("| `")]
    assert len(rows) == len(metrics.METRICS) + len(metrics.COUNTS)
    assert {row.count("|") for row in rows} == {6, 3}


def test_the_table_loads_without_numpy():
    script = "import sys, precreg.measure.metrics, precreg.measure.histogram; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
