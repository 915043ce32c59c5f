"""Cases on an accelerator have baselines, tolerances and a fingerprint of their own, beside the cases of the processor.

The installed kind computes with numpy, and takes the name and the rounding of its device from variables.
"""

import json
import re

import pytest

from tests.e2e.command import change, precreg, repository

KIND = """\
import os
from time import perf_counter

import numpy as np

from precreg.subjects import Kind, Outputs, name_outputs, unavailable


def run(spec, call):
    device = os.environ.get("FAKE_DEVICE")
    if not device:
        raise unavailable("needs an accelerator, but none is there: run this on a machine that has one")
    started = perf_counter()
    result = call.inputs["x"] * np.float32(spec)
    if "A100" in device:
        result[0, 0] = np.nextafter(result[0, 0], np.float32(np.inf))
    facts = {"accelerator": device, "driver": "550.54", "about_clock": str(perf_counter())}
    return Outputs(name_outputs(result), perf_counter() - started, facts)


KIND = Kind(run=run)
"""
SUITE = """\
suite: scale
subject: {fake: FACTOR}
reference: k:scale
inputs: {x: {shape: [64, 16], dtype: float32, normal: {mean: 0, std: 1}}}
tolerance:
  rtol: 1e-5
  environments: {cuda: {rtol: 1e-4}}
"""
H100, A100 = "cuda NVIDIA H100", "cuda NVIDIA A100"
LABEL = "cuda-nvidia-h100"


@pytest.fixture
def project(tmp_path):
    """A project with a case on the accelerator and one on the processor, and the kind on PYTHONPATH."""
    site = tmp_path / "site"
    info = site / "fake-1.dist-info"
    info.mkdir(parents=True)
    (site / "fake_kind.py").write_text(KIND)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[precreg.subjects]\nfake = fake_kind:KIND\n")
    unit = tmp_path / "project/suites/unit"
    unit.mkdir(parents=True)
    (unit / "k.py").write_text("def scale(x):\n    return x * 3\n")
    (unit / "scale.yaml").write_text(SUITE.replace("FACTOR", "3.0"))
    (unit / "plain.yaml").write_text(SUITE.replace("scale", "plain", 1).replace("{fake: FACTOR}", "k:scale"))
    return repository(tmp_path / "project")


def run(project, device, *arguments, code=0, **variables):
    """Run a command where the kind finds a device, and return its output."""
    site = str(project.parent / "site")
    done = precreg(project, *(arguments or ("run",)), PYTHONPATH=site, FAKE_DEVICE=device, **variables)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def results(project):
    found = json.loads((project / "reports/record.json").read_text())
    return {result["suite"]: result for result in found["results"]}


def missing(result):
    """Return the environments in which a case without a baseline looked for one."""
    (finding,) = result["verdict"]["findings"]
    return finding["fact"]["environments"]


def accept(project, label, device=H100):
    run(project, device, code=2)
    run(project, device, "baseline", "accept", "--all", "--environment", label, "--reason", "first")


def test_each_case_of_a_run_has_the_chain_of_what_computed_it(project):
    shown = run(project, H100, code=2)
    found = results(project)
    assert missing(found["scale"]) == [LABEL, "cuda", "generic"]
    assert missing(found["plain"])[0].startswith("cpu-")
    limits = {suite: result["tolerances"]["out"]["rtol"]["limit"] for suite, result in found.items()}
    assert limits == {"scale": 1e-4, "plain": 1e-5}
    assert found["scale"]["outcome"]["execution"]["facts"]["driver"] == "550.54"
    line = f"1 case on cuda NVIDIA H100 (baselines of {LABEL}, then cuda, then generic)"
    assert shown.splitlines()[1] == line
    assert line in (project / "reports/report.html").read_text()
    assert "1 case on cuda NVIDIA H100" in (project / "reports/summary.md").read_text()


def test_a_label_of_the_user_stays_for_all_cases(project):
    run(project, H100, "run", "--environment", "lab", code=2)
    found = results(project)
    assert missing(found["scale"]) == missing(found["plain"]) == ["lab", "generic"]
    assert found["scale"]["tolerances"]["out"]["rtol"]["limit"] == 1e-5


def test_another_accelerator_of_the_family_is_another_environment(project):
    accept(project, "cuda")
    run(project, H100, "run", "scale")
    assert results(project)["scale"]["verdict"]["reason"] == "identical"
    facts = json.loads((project / "baselines/environments.json").read_text())["environments"]
    assert [each.get("accelerator") for each in facts.values()].count(H100) == 1
    assert not any("about_clock" in each for each in facts.values())

    shown = run(project, A100, "run", "scale", "--verbose")
    verdict = results(project)["scale"]["verdict"]
    assert (verdict["reason"], verdict["accepted_in"]["environment"]) == ("within_tolerance", "cuda")
    difference = {fact["name"]: (fact["before"], fact["now"]) for fact in verdict["accepted_in"]["difference"]["facts"]}
    assert difference == {"accelerator": (H100, A100)}
    assert "on cuda NVIDIA A100" in shown


def test_the_baseline_of_the_model_comes_before_that_of_the_family(project):
    accept(project, "cuda")
    run(project, A100, "run", "scale")
    run(project, A100, "baseline", "accept", "scale", "--environment", "cuda-nvidia-a100", "--reason", "its bits")
    for device in (H100, A100):
        run(project, device, "run", "scale")
        assert results(project)["scale"]["verdict"]["reason"] == "identical"


def test_the_same_bits_on_another_accelerator_are_kept_as_seen(project):
    accept(project, "cuda")
    shown = run(project, "cuda NVIDIA H200", "run", "scale")
    assert "1 case gave the bits accepted in another environment" in shown
    run(project, H100, "baseline", "accept", "--seen")
    (entry,) = json.loads((project / "baselines/cuda/unit/scale.json").read_text())["cases"].values()
    assert len(entry["seen"]) == 1
    assert "another environment" not in run(project, "cuda NVIDIA H200", "run", "scale")


def test_a_loss_on_the_accelerator_is_found_and_a_pair_judges_it_there(project):
    accept(project, "generic")
    change(project.parent / "site/fake_kind.py", "* np.float32(spec)", "* np.float32(spec) * np.float32(1.00001)")
    shown = run(project, H100, code=1)
    assert "unit/scale/default" in shown
    assert results(project)["scale"]["verdict"]["reason"] == "regressed"
    assert results(project)["plain"]["verdict"]["reason"] == "identical"


def test_without_a_device_the_case_is_skipped_by_name_or_an_error(project):
    shown = run(project, "", "run", "scale", code=0)
    assert "needs an accelerator, but none is there: run this on a machine that has one" in shown
    assert results(project)["scale"]["verdict"]["reason"] == "unavailable"
    run(project, "", "run", "scale", "--require", code=2)


def test_the_history_sees_another_accelerator_as_another_machine(project):
    for device in (H100, A100):
        run(project, device, code=2)
        run(project, device, "history", "add", "reports", "--create")
    listed = run(project, H100, "history", "list")
    assert re.search(r"another environment than run 1: accelerator cuda NVIDIA H100 -> cuda NVIDIA A100", listed)
