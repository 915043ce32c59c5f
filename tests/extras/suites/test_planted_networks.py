"""Each suite of a network in torch is red with its planted mistake, and green with an equal rewrite.

The real command runs in a real project, whose baselines are those of this machine.
"""

import json
import shutil

import pytest

from tests.e2e.command import ROOT, change, copy_of, precreg, started
from tests.extras.suites.planted_networks import PLANTS
from tests.suites.test_planted import CAUGHT_AS

CASES = [f"{plant.suite}/{pattern.removeprefix('*/')}" for plant in PLANTS for pattern in plant.cases]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = copy_of(ROOT, tmp_path_factory.mktemp("networks"))
    shutil.rmtree(project / "baselines")
    started(project, "run", *CASES)
    accepted = precreg(project, "baseline", "accept", *CASES, "--reason", "on this machine")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    return project


def verdicts(project, *cases):
    """Run cases; return the exit code, and (status, reason) of each by its id."""
    done = precreg(project, "run", *cases, "--jobs", "0", PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    results = json.loads((project / "reports" / "record.json").read_text())["results"]
    return done.returncode, {
        result["id"]: (result["verdict"]["status"], result["verdict"]["reason"]) for result in results
    }


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.suite)
def test_suite_catches_its_planted_mistake(plant, project):
    file = project / "suites" / plant.file
    before = file.read_bytes()
    plant.put(project)
    try:
        code, found = verdicts(project, "--suite", plant.suite, *plant.cases)
    finally:
        file.write_bytes(before)
    assert code == 1
    assert "error" not in {status for status, _ in found.values()}, "a mistake that crashes shows nothing"
    assert {reason for status, reason in found.values() if status == "failed"} & CAUGHT_AS, plant.what


# Equal on paper, and other bits: a softmax by its logarithm, and batch norms in the weights of their convolutions.
REWRITES = [
    (
        "model/gpt/float32",
        "networks/transformer.py",
        "torch.softmax(scores + mask, -1) @ v",
        "torch.exp(torch.log_softmax(scores + mask, -1)) @ v",
    ),
    (
        "model/resnet50/float32",
        "networks/resnet.py",
        "branch = self.bn3(self.conv3(branch))",
        "branch = folded(self.conv3, self.bn3)(branch)",
    ),
]
FOLDED = '''


def folded(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> nn.Conv2d:
    """Return one convolution in place of a convolution and its norm."""
    return torch.nn.utils.fuse_conv_bn_eval(convolution, norm)
'''


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda rewrite: rewrite[0])
def test_an_equal_rewrite_passes_with_other_bits(rewrite, project):
    case, name, before, after = rewrite
    file = project / "suites" / name
    kept = file.read_text()
    change(file, before, after)
    if "folded(" in after:
        file.write_text(file.read_text() + FOLDED)
    try:
        code, found = verdicts(project, case)
    finally:
        file.write_text(kept)
    assert (code, found[case][0]) == (0, "passed"), found
    assert found[case][1] != "identical"
