"""docs/adaptive.md: its script prints what it shows, and its defaults are those of the program."""

import inspect
import subprocess
import sys
from pathlib import Path

from precreg.quantization import adapt
from tests.docs.test_docs import sections, table, write_files

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "adaptive.md").read_text()


def test_the_script_prints_what_the_page_shows(tmp_path):
    write_files(tmp_path, PAGE)
    done = subprocess.run([sys.executable, "adapt.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"```text\n{done.stdout}```" in PAGE, done.stdout
    assert (tmp_path / "adaptive.json").exists()


def test_the_arguments_have_the_defaults_of_the_page():
    rows = table(sections(PAGE)["Run a module"], "argument", "default", "meaning")
    options = inspect.signature(adapt).parameters
    shown = {row["argument"].strip("`"): row["default"].replace("`", "") for row in rows}
    assert set(shown) == set(options) - {"model"}
    assert shown["formats"] == ", ".join(options["formats"].default)
    for name in ("every", "patience", "margin"):
        assert shown[name] == str(options[name].default)
