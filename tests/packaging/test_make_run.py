"""`make run` in a fresh clone works where there is no compiler."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.e2e.command import ROOT, git, repository
from tests.packaging.installed import assert_numpy, doctor

# One suite of the shipped ones: numpy's additions and divisions give the bits of its baselines on every machine.
SUITE = "newton_sqrt"
PROJECT = ("tolerances", "environments")


def clone(folder):
    """Copy the files under version control, as they are now, with one suite and its baselines."""
    for name in git(ROOT, "ls-files", "-z").split("\0"):
        path = Path(name)
        in_project = path.parts[:1] in [("suites",), ("baselines",)]
        if not name or not (ROOT / path).is_file() or (in_project and path.stem not in (SUITE, *PROJECT)):
            continue
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    return repository(folder)


def test_make_run_without_a_compiler_computes_with_numpy(no_compiler, tmp_path):
    project = clone(tmp_path / "project")
    done = subprocess.run(
        ["make", "run", f"PYTHON={sys.executable}"],
        cwd=project,
        env=no_compiler,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no C++ compiler: precreg computes with numpy, more slowly" in done.stdout
    assert not list(project.glob("precreg/**/*.so"))
    results = json.loads((project / "reports" / "record.json").read_text())["results"]
    assert {result["verdict"]["status"] for result in results} == {"passed"}
    assert_numpy(doctor([project / ".venv" / "bin" / "precreg"], project, no_compiler))
