"""docs/power.md says what the program does: its project is run, and its command prints what the page shows."""

import re
import sys
from subprocess import run

from precreg.report.detection import HEADINGS, MAX_POWER_ROWS
from precreg.tolerance.pyramid import DEFAULT_GROWTHS
from precreg.types.case import STATISTIC
from precreg.verdict import regression as elsewhere
from precreg.verdict.power import POWER, SCALING_MEASURES
from precreg.verdict.statistics.ratios import INTERVAL_ALPHA, TESTS_PER_OUTPUT
from precreg.verdict.statistics.uncertainty import MIN_SAMPLES
from tests.docs.test_docs import commands, page, table, write_files
from tests.e2e.command import ROOT, precreg, repository
from tests.e2e.test_readme import pattern

PAGE = page("power.md")


def test_the_commands_print_what_the_page_shows(tmp_path):
    folder = repository(write_files(tmp_path, PAGE))
    shown = commands(PAGE)
    assert [line.split()[0] for line, _ in shown] == ["run", "baseline", "power"]
    for line, expected in shown:
        arguments = line.replace("'*'", "*").split(" --reason ")
        done = precreg(folder, *arguments[0].split(), *(["--reason", "why"] if arguments[1:] else []))
        for wanted in expected.splitlines():
            assert re.search(f"^{pattern(wanted)}$", done.stdout, re.MULTILINE), f"{wanted!r} in\n{done.stdout}"


def test_every_column_is_explained():
    assert {row["column"].strip("`") for row in table(PAGE, "column", "meaning")} == {*HEADINGS} - {
        "case",
        "output",
    }


def test_the_figures_of_the_page():
    text = " ".join(PAGE.split())
    assert f"a power of {100 * POWER:g} %" in text
    assert f"minimum relevant ratio, {1 + DEFAULT_GROWTHS[STATISTIC]}" in text
    narrow, wide = elsewhere.other_environment_growth("float16"), elsewhere.other_environment_growth("float32")
    assert (
        f"growth by {1 + narrow} times in a format of at most {elsewhere.MAX_NARROW_PRECISION} significant bits" in text
    )
    assert f"by {1 + wide} times in any other" in text
    rounded = [elsewhere.other_environment_ulp("mean_abs_error", dtype) for dtype in ("float16", "float32")]
    assert "below {:g} and {:g} ULP (of `rms_error` 1 ULP)".format(*rounded) in text
    assert elsewhere.other_environment_ulp("rms_error", "float32") == 1
    assert f"fewer than {MIN_SAMPLES} samples" in text
    assert f"`tests` is {TESTS_PER_OUTPUT} for each output" in text
    assert f"t({INTERVAL_ALPHA} / {TESTS_PER_OUTPUT})" in text
    assert f"no figure above {MAX_POWER_ROWS} times" in text
    assert [measure.metric for measure in SCALING_MEASURES] == ["mean_abs_error", "rms_error", "mean_ulp"]


def test_the_benchmark_asks_the_rule_of_what_the_page_shows():
    """With few draws: rows, and that a loss is caught far more often than its root, and none hardly ever."""
    done = run([sys.executable, ROOT / "benchmarks" / "power.py", "6"], capture_output=True, text=True, check=True)
    heading, *rows = [line.split() for line in done.stdout.splitlines()]
    columns = ("operator", "format", "shape", "told", "caught", "its root", "no loss")
    shown = [list(row.values()) for row in table(PAGE, *columns)]
    assert heading == " ".join(columns).split()
    assert [row[:3] for row in rows] == [row[:3] for row in shown]
    caught, root, nothing = (sum(float(row[column].rstrip("%")) for row in rows) / len(rows) for column in (4, 5, 6))
    assert caught > 80
    assert root < caught / 2
    assert nothing < 1
    for row, told in zip(rows, shown, strict=True):
        assert 0.7 < float(row[3]) / float(told[3]) < 1.4
