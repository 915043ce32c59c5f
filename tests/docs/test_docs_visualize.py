"""docs/visualize.md: its commands are run on real arrays, its numbers and options held against the program."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from precreg.cli.visualize import visualize_command
from precreg.comparison.html import MAX_DRAWN_PAIRS
from precreg.measure.heatmap import MAX_CELLS
from precreg.report.charts import errors as bars
from precreg.report.charts import errors as cumulative
from precreg.report.charts import svg as scale
from tests.docs.test_docs import names, page, sections, table
from tests.e2e.command import precreg

PAGE = page("visualize.md")
PARTS = sections(PAGE)


@pytest.fixture
def folder(tmp_path):
    """The arrays of the page, and a record of the folders."""
    reference = np.random.default_rng(0).standard_normal((2, 40, 50))
    for name in ("actual/layers/0", "actual/layers/1", "reference/layers/0", "reference/layers/1", "out", "reference"):
        path = Path(tmp_path, f"{name}.npy")
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, reference if "reference" in name else reference.astype(np.float16))
    precreg(tmp_path, "compare", "actual", "reference", "--json", "record.json")
    return tmp_path


def test_commands_print_what_the_page_shows(folder):
    shown = re.findall(r"^\$ precreg (.*)\n(.*)\n", PAGE, re.MULTILINE)
    assert len(shown) == 4
    for line, expected in shown:
        done = precreg(folder, *line.split())
        assert (done.stdout, done.stderr, done.returncode) == (f"{expected}\n", "", 0)
    width, height = Image.open(folder / "pictures" / "out.png").size
    assert f"{width} x {height} pixels" in PAGE


def test_every_option_is_in_the_table():
    told = [name for row in table(PAGE, "option", "meaning") for name in names(f"`{row['option'].strip('`')}`")]
    assert sorted(told) == sorted(name for option in visualize_command.params[1:] for name in option.opts)


def test_numbers_of_the_page_are_those_of_the_program():
    said = " ".join(PAGE.split())
    assert f"at most {MAX_CELLS} x {MAX_CELLS} cells" in said
    assert f"the {MAX_DRAWN_PAIRS} worst in full" in said
    assert scale.MAX_COLOURED_DECADES == 6
    assert "at most six decades" in said
    rows = {row["chart"]: row["shows"] for row in table(PARTS["Charts"], "chart", "shows")}
    assert names(rows["bar chart"]) == list(bars.BAR_METRICS)
    marked = re.findall(r"P\d+", rows["cumulative curve"])
    assert [f"{name.lower()}_abs_error" for name in marked] == list(cumulative.MARKED_PERCENTILES)
