"""Inputs by code in the real command: dependencies, digests, and a change of the code that makes them."""

from tests.e2e.command import change, git, precreg, repository, with_suite

SUITE = """suite: s
subject: k:double
reference: k:double
inputs:
  x: {shape: [8, 8], dtype: float32, python: "making.ramps:noisy", args: {noise: 0.5}}
"""
KERNEL = "def double(x):\n    return x + x\n"
RAMPS = (
    "from making.noise import add\n\n\ndef noisy(random, shape, dtype, noise):\n    return add(random, shape, noise)\n"
)
NOISE = "def add(random, shape, noise):\n    return 1 + random.normal(shape, std=noise)\n"


def test_a_change_of_the_code_behind_inputs_selects_its_cases_and_is_inputs_changed(tmp_path):
    project = with_suite(tmp_path, SUITE, KERNEL)
    other = SUITE.replace("suite: s", "suite: other").replace(
        'python: "making.ramps:noisy", args: {noise: 0.5}', "normal: {}"
    )
    (project / "suites/unit/other.yaml").write_text(other)
    folder = project / "suites/unit/making"
    folder.mkdir()
    (folder / "ramps.py").write_text(RAMPS)
    (folder / "noise.py").write_text(NOISE)
    repository(project)
    assert precreg(project, "run", "--jobs", "2").returncode == 2
    accepted = precreg(project, "baseline", "accept", "*", "--reason", "first")
    assert accepted.returncode == 0, accepted.stderr
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "accepted")
    again = precreg(project, "run", "--jobs", "2")
    assert again.returncode == 0, again.stdout
    assert "left" not in again.stdout
    change(folder / "noise.py", "1 + random", "2 + random")
    changed = precreg(project, "run", "--changed-since", "HEAD")
    assert "unit/s/default   inputs_changed" in changed.stdout
    assert "unit/other" not in changed.stdout
