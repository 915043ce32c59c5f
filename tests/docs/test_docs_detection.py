"""docs/detection.md: its operators, rules, limits and options are those of the benchmark, and its example runs."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.benchmarks.test_benchmarks import run
from tests.docs.test_docs import names, sections, table
from tests.e2e.command import PATIENCE_S, ROOT, environ

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


def test_the_page_names_the_operators_that_were_written_last_apart_and_counts_null_controls():
    from detecting.operators import OPERATORS, written_last

    rows = table(PAGE, "kind, written last", "operators")
    assert sorted(re.findall(r"\w+_(?:float\d+|bfloat16)", str(rows))) == sorted(written_last())
    assert f"\n{sum(len(operator.null) for operator in OPERATORS.values())} of the harmless changes are **null" in PAGE


def test_the_page_names_every_rule_and_column():
    from detecting.rules import OURS, PROMISED, RULES
    from detecting.table import COLUMNS
    from detecting.trials import PAIR, PAIRED

    rows = [row["rule"] for row in table(PAGE, "rule", "a change is reported when")]
    assert [name for cell in rows for name in names(cell) or [cell]] == [OURS, PAIR, *RULES]
    assert f"in the first {PAIRED} trials alone" in " ".join(PAGE.split())
    assert f"a project with {PROMISED} baselines" in PAGE
    reading = sections(PAGE)["How to read the tables"]
    assert all(f"`{name}`" in reading for name in COLUMNS[-5:])


def measured(title):
    """Return the cells of a table of what was measured, by rule."""
    from detecting.table import COLUMNS

    (block,) = re.findall(rf"^\*\*{title}\*\*:\n\n((?:\|.+\n)+)", PAGE, re.MULTILINE)
    lines = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in block.splitlines()]
    assert lines[0] == ["", *COLUMNS]
    return {rule: dict(zip(COLUMNS, cells, strict=True)) for rule, *cells in lines[2:]}


def of_half(title):
    """Return labels of the operators that a table is of."""
    from detecting import labels
    from detecting.operators import GROUPS, group_of

    within = GROUPS[:2] if title == "Both halves" else (title.lower(),)
    return {name: of for name, of in labels.read().items() if group_of(name) in within}


@pytest.mark.parametrize("title", ["Chosen on", "Held out", "Both halves"])
def test_what_was_measured_is_of_the_rules_and_labels_that_there_are(title):
    from detecting.rules import OURS, RULES
    from detecting.table import COLUMNS, column
    from detecting.trials import PAIR, Told

    rows, labels = measured(title), of_half(title)
    assert list(rows) == ["changes", OURS, PAIR, *RULES]
    every = [Told(operator, change, 0, {}, False, {}, None) for operator, of in labels.items() for change in of]
    for name in COLUMNS[:-1]:
        assert rows["changes"][name] == str(sum(map(column(name, labels), every))), name


def test_what_the_page_says_of_goals_stands_in_its_tables():
    text = " ".join(PAGE.split())
    everywhere, held_out = measured("Both halves"), measured("Held out")
    ours, pairs = held_out["precreg"], held_out["precreg --pair"]
    assert f"is at {everywhere['precreg']['all']} and {everywhere['precreg']['<1.5']}." in text
    assert f"below both goals, at {ours['all']} and {ours['<1.5']}.**" in text
    assert f"There `precreg --pair` is at {pairs['all']} and {pairs['<1.5']}." in text
    assert f"alarms on {everywhere['elements, z > 3']['alarms']} of what is not worse" in text
    assert all(float(measured(half)["precreg"]["alarms"].split()[0]) < 1 for half in ("Chosen on", "Held out"))


def test_changes_that_are_missed_make_the_shares_that_are_told():
    columns = ("change", "half", "truly, times", "missed by `precreg`, of 20", "by a pair, of 5")
    missed = table(PAGE, *columns)
    for half in ("chosen on", "held out"):
        known = of_half(half.capitalize())
        harmful = [one for of in known.values() for one in of.values() if one.label == "harmful"]
        here = [row for row in missed if row["half"] == half]
        for row in here:
            operator, _, change = row["change"].replace("`", "").partition(": ")
            assert f"{known[operator][change].severity:.3g}" == row["truly, times"]
        for rule, column, trials in (("precreg", columns[3], 20), ("precreg --pair", columns[4], 5)):
            share = 1 - sum(int(row[column]) for row in here) / (trials * len(harmful))
            assert f"{100 * share:.1f} %" == measured(half.capitalize())[rule]["all"]


def test_limits_of_labels_are_those_of_the_program():
    from detecting.labels import FEW, FEWEST, MOST, MOST_OF_FEW, NOTHING, WORSE

    text = " ".join(sections(PAGE)["Labels"].split())
    assert f"at {FEWEST} seeds and more (doubled up to {MOST} until" in text
    assert f"the ratio's lower bound is above {WORSE} for mean" in text
    assert f"below {NOTHING}, and mean ULP is not shown to be above {WORSE}" in text
    assert f"not clear after {MOST} seeds, or {MOST_OF_FEW} |" in text
    assert f"and up to {MOST_OF_FEW} for outputs of up to {FEW} elements" in text


def test_limits_of_labels_of_tails_are_those_of_the_program():
    from detecting.tails import FEWEST, LIMIT, MOST, TOP_SHARE

    text = " ".join(sections(PAGE)["Labels"].split())
    assert f"the mean of the largest 1/{TOP_SHARE} of |d| and of ULP" in text
    assert f"the lower bound of any figure is above {LIMIT} |" in text
    assert f"the upper bounds of all figures are below {LIMIT} |" in text
    assert f"after {MOST} seeds |" in text
    assert f"{FEWEST} seeds are measured first" in text


def test_what_the_page_says_of_tails_was_measured():
    from detecting import labels

    known = labels.read()
    found = [one.tails for of in known.values() for one in of.values() if one.label == "not_worse" and one.tails]
    names = [one.label for one in found]
    text = " ".join(sections(PAGE)["Labels"].split())
    assert f"Of {len(found)} changes that are not worse and have other bits" in text
    assert f"{names.count('worse')} are worse in their tails, and {names.count('unclear')} are unclear" in text
    growth = known["layer_norm_float16"]["epsilon outside of the root"].tails.growth.value
    assert f"a max ULP of {growth:.1f} times the original's" in text


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
    assert len(lines) == 10
    for line in lines:
        assert set(detection.options(shlex.split(line)).operators) <= OPERATORS.keys()


def test_a_rule_can_be_tried_on_what_was_stored(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    run("detection.py", "scaled_tanh_bfloat16", "--trials", 1, "--dump", tmp_path / "samples.pickle")
    script = example.replace('"benchmarks"', repr(str(ROOT / "benchmarks")))
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environ(PYTHONPATH=ROOT),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert "scaled_tanh_bfloat16 the shift lost harmful 3 of 3\n" in done.stdout
    assert done.stdout.count("\n") == 21
