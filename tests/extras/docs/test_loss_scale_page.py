"""docs/loss-scale.md: the loop of torch prints what the page shows. tests/docs has the rest of the page."""

import subprocess
import sys
from pathlib import Path

from tests.docs.test_docs import files

PAGE = (Path(__file__).parents[3] / "docs" / "loss-scale.md").read_text()


def test_the_loop_prints_what_the_page_shows(tmp_path):
    (tmp_path / "train.py").write_text(files(PAGE)["train.py"])
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"```text\n{done.stdout}```" in PAGE
