"""docs/detection.md: its operators, rules, limits and options are those of the benchmark, and its example runs."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.e2e.command import ROOT, environ
from tests.test_benchmarks import run
from tests.test_docs import names, sections, table

PAGE = (ROOT / "docs" / "detection.md").read_text()


@pytest.fixture(autouse=True)
def parts(monkeypatch):
    """Let the modules of benchmarks/ be imported."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def test_the_page_names_every_operator():
    from detecting.operators import OPERATORS

    shown = [name for row in re.findall(r"^\| [^|`]+ \| (`.*`) \|$", PAGE, re.MULTILINE) for name in names(row)]
    assert sorted(shown) == sorted(OPERATORS)
    text = sections(PAGE)["Operators and changes"]
    assert set(re.findall(r"`(\w+_(?:float\d+|bfloat16|exact))`", text)) == OPERATORS.keys()


def test_the_page_names_every_rule_and_column():
    from detecting.rules import OURS, PROMISED, RULES
    from detecting.table import COLUMNS

    rows = [row["rule"] for row in table(PAGE, "rule", "a change is reported when")]
    assert [name for cell in rows for name in names(cell) or [cell]] == [OURS, *RULES]
    assert f"a project with {PROMISED} baselines" in PAGE
    reading = sections(PAGE)["How to read the tables"]
    assert all(f"`{name}`" in reading for name in COLUMNS[-4:])


def test_limits_of_labels_are_those_of_the_program():
    from detecting.labels import FEWEST, MOST, NOTHING, WORSE

    text = " ".join(sections(PAGE)["Labels"].split())
    assert f"at {FEWEST} seeds and more (doubled up to {MOST} until" in text
    assert f"the ratio's lower bound is above {WORSE} for mean" in text
    assert f"below {NOTHING}, and mean ULP is not shown to be above {WORSE}" in text
    assert f"not clear after {MOST} seeds" in text


def test_what_the_page_says_of_the_square_of_a_sine_was_measured():
    from detecting import labels

    found = labels.read()["hann_window_float32"]["the square of a sine"].ratios
    text = " ".join(PAGE.split())
    assert f"mean log2(ULP + 1/4) at {found['mean_log2_ulp'].value:.3f} times" in text
    assert f"mean |d| at {found['mean_abs_error'].value:.3f} times" in text


def test_its_commands_are_understood():
    import detection
    from detecting.operators import OPERATORS

    lines = re.findall(r"^.*python benchmarks/detection.py(.*?)(?:#.*)?$", PAGE, re.MULTILINE)
    assert len(lines) == 8
    for line in lines:
        assert set(detection.options(shlex.split(line)).operators) <= OPERATORS.keys()


def test_a_rule_can_be_tried_on_what_was_stored(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    run("detection.py", "scaled_tanh_bfloat16", "--trials", 1, "--dump", tmp_path / "samples.pickle")
    script = example.replace('"benchmarks"', repr(str(ROOT / "benchmarks")))
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ(PYTHONPATH=ROOT), capture_output=True, text=True, timeout=60, check=True
    )
    assert "scaled_tanh_bfloat16 the shift lost harmful 3 of 3\n" in done.stdout
    assert done.stdout.count("\n") == 21
