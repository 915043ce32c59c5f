"""docs/detection.md: its operators, rules, limits and options are those of the benchmark, and its example runs."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.benchmarks.test_benchmarks import run
from tests.docs.test_docs import names, page, sections, table
from tests.e2e.command import PATIENCE_S, ROOT, environ

PAGE = page("detection.md", "detection-tables.md", "detection-method.md")


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
    from detecting.trials import PAIRED

    rows = [row["rule"] for row in table(PAGE, "rule", "a change is reported when")]
    assert [name for cell in rows for name in names(cell) or [cell]] == [*OURS, *RULES]
    assert f"Only the first {PAIRED} trials go on to fresh seeds" in " ".join(PAGE.split())
    assert f"a project with {PROMISED} baselines" in PAGE
    reading = sections(PAGE)["How to read the tables"]
    assert all(f"`{name}`" in reading for name in COLUMNS[-5:])


TITLES = ("Chosen on", "Held out", "Both halves", "Written last")


def measured(title):
    """Return the cells of a table of what was measured, by rule."""
    from detecting.table import COLUMNS

    (block,) = re.findall(rf"^\*\*{title}\*\*:\n\n((?:\|.+\n)+)", PAGE, re.MULTILINE)
    lines = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in block.splitlines()]
    assert lines[0] == ["", *COLUMNS]
    return {rule: dict(zip(COLUMNS, cells, strict=True)) for rule, *cells in lines[2:]}


def of_group(title):
    """Return labels of the operators that a table is of."""
    from detecting import labels
    from detecting.operators import GROUPS, group_of

    within = GROUPS[:2] if title == "Both halves" else (title.lower(),)
    return {name: of for name, of in labels.read().items() if group_of(name) in within}


@pytest.mark.parametrize("title", TITLES)
def test_what_was_measured_is_of_the_rules_and_labels_that_there_are(title):
    from detecting.rules import OURS, RULES
    from detecting.table import COLUMNS, column
    from detecting.trials import Told

    rows, labels = measured(title), of_group(title)
    # The halves have precreg's own rules alone; both together have the others.
    assert list(rows) == ["changes", *OURS, *(RULES if title in TITLES[2:] else ())]
    every = [Told(operator, change, 0, {}, False, {}, {}) for operator, of in labels.items() for change in of]
    for name in COLUMNS[:-1]:
        assert rows["changes"][name] == str(sum(map(column(name, labels), every))), name


def test_the_summary_and_the_text_have_the_shares_of_the_tables():
    columns = ("operators", "rule", "harmful", "below 1.5", "worse in tails, found", "false alarms")
    rows = table(PAGE, *columns)
    assert [row["operators"] for row in rows[::4]] == [title.lower() for title in TITLES]
    for row in rows:
        found = measured(row["operators"].capitalize())[row["rule"].strip("`")]
        assert [row[name] for name in columns[2:]] == [
            found[name] for name in ("all", "<1.5", "tails", "alarms, other bits")
        ]
    text, last = " ".join(PAGE.split()), measured("Written last")["precreg, other baseline"]
    everywhere = measured("Both halves")["precreg, other baseline"]
    assert f"On both halves `precreg` is at {everywhere['all']}, {everywhere['<1.5']} and" in text
    assert re.search(
        rf"On those written last it is at {last['all']} \(\d+ of \d+ trials, or [\d.]+ %\) and {last['<1.5']}, with",
        text,
    )


def test_changes_that_are_missed_make_the_shares_that_are_told():
    from detecting.trials import PAIRED

    missed = table(PAGE, "change", "operators", "truly, times", "missed, of 5", "why")
    for title in ("Both halves", "Written last"):
        known = of_group(title)
        harmful = [one for of in known.values() for one in of.values() if one.label == "harmful"]
        here = [row for row in missed if row["change"].split("`")[1] in known]
        for row in here:
            operator, _, change = row["change"].replace("`", "").partition(": ")
            assert f"{known[operator][change].severity:.3g}" == row["truly, times"]
        share = 1 - sum(int(row["missed, of 5"]) for row in here) / (PAIRED * len(harmful))
        assert f"{100 * share:.1f} %" == measured(title)["precreg"]["all"]


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
    assert len(lines) == 12
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
    assert "scaled_tanh_bfloat16 the shift lost harmful 5 of 5\n" in done.stdout
    assert done.stdout.count("\n") == 21
