"""The process of a command: it hardly searches for garbage while it makes objects that it keeps."""

import subprocess
import sys

SUITE = f"""suite: added
about: sums of two arrays
category: arithmetic
subject: numpy:add
reference: numpy:add
matrix: {{size: {[*range(1, 2001)]}}}
inputs:
  x: {{shape: [$size], dtype: float32, normal: {{}}}}
  y: {{shape: [$size], dtype: float32, normal: {{}}}}
"""
COUNTED = """import atexit, gc, sys
sys.argv = ["precreg", "list"]
searches = []
gc.callbacks.append(lambda phase, facts: searches.append(facts) if phase == "start" else None)
from precreg.__main__ import main
before = len(searches)
atexit.register(lambda: print(len(searches) - before))
main()
"""


def test_the_first_list_hardly_searches_for_garbage(tmp_path):
    (tmp_path / "suites/unit").mkdir(parents=True)
    (tmp_path / "suites/unit/added.yaml").write_text(SUITE)
    command = [sys.executable, "-c", COUNTED]
    listed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(listed) == 2001
    assert int(listed[-1]) < 10
