"""The pipeline that `precreg init` writes runs: green as it is, red after a loss."""

import os

import pytest

from tests.e2e.command import git, precreg
from tests.pipeline.local import INSTALLED, Done, artifacts, commit, ran_with

# No index has precreg here, so the job finds it installed.
PIP = "#!/bin/sh\nexit 0\n"
EXACT = "np.square(x.astype(np.float32))"


@pytest.fixture
def begun(tmp_path):
    """Return a repository with the example of `precreg init`, pushed to a remote, on a branch for a merge request."""
    folder = tmp_path / "begun"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    remote = tmp_path / "begun.git"
    git(folder, "init", "-q", "--bare", str(remote))
    git(folder, "remote", "add", "origin", str(remote))
    done = precreg(folder, "init")
    assert done.returncode == 0, done.stdout + done.stderr
    commit(folder, "first measurement")
    # The hook that init installed would measure again.
    git(folder, "push", "-q", "--no-verify", "origin", "main")
    git(folder, "remote", "set-head", "origin", "main")
    git(folder, "switch", "-q", "-c", "feature")
    return folder


def _pipeline(folder) -> Done:
    programs = folder.with_name("programs")
    programs.mkdir(exist_ok=True)
    (programs / "pip").write_text(PIP)
    (programs / "pip").chmod(0o755)
    path = os.pathsep.join([str(programs), str(INSTALLED.parent), os.environ["PATH"]])
    return ran_with(folder, "merge_request_event", PATH=path)


def test_the_pipeline_of_init_is_green_at_once(begun):
    (begun / "notes.txt").write_text("nothing numerical\n")
    commit(begun, "notes")
    done = _pipeline(begun)
    assert done.jobs == {"precision": "PASS"}, done.printed
    assert artifacts(begun, "reports/report.html").keys() == {"precision"}


def test_the_pipeline_of_init_is_red_after_a_loss(begun):
    example = begun / "example.py"
    assert EXACT in example.read_text()
    example.write_text(example.read_text().replace(EXACT, "np.square(x)"))
    commit(begun, "square in the storage dtype")
    done = _pipeline(begun)
    assert done.jobs == {"precision": "FAIL"}, done.printed
    assert "exit 1" in done.printed
    assert "unit/mean_square" in done.printed
