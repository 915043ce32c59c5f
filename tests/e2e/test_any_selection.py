"""A verdict, its message and all its numbers are the same alone, in any selection, shard, xdist run and resume.

The kernels were changed after acceptance, so that statistics judge: some cases are worse, some better, some as before.
"""

import json
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precreg.baseline.store import Baselines
from precreg.report.findings import add_result_messages
from precreg.report.record import read_run_record
from precreg.run.pipeline import Plan, run_and_judge
from precreg.suite.expand import load_cases
from precreg.verdict.judge import Policy
from tests.e2e.command import precreg, repository
from tests.pytest_plugin.session import pytest_

SUITE = """\
suite: {name}
subject: kernels:{name}
reference: kernels:exact
matrix:
  dtype: [float16, float32]
  shape: [[24, 80], [16, 3, 33], [5, 7]]
inputs: {{x: {{shape: $shape, dtype: $dtype, uniform: {{low: 1, high: 2}}}}}}
seeds: 3
tolerance: {{rtol: 1e-1}}
"""
KERNELS = """\
import numpy as np


def scaled(x, steps):
    for factor in np.array([1.1, 1.3, 1.7, 1.9], x.dtype)[:steps]:
        x = x / factor * factor
    return x


def worse(x):
    return scaled(x, {worse})


def better(x):
    return scaled(x, {better})


def exact(x):
    return x
"""
SUITES = ("worse", "better")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project whose kernels were changed after their figures were accepted."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "suites" / "unit").mkdir(parents=True)
    for name in SUITES:
        (folder / "suites" / "unit" / f"{name}.yaml").write_text(SUITE.format(name=name))
    write(folder, worse=1, better=4)
    repository(folder)
    precreg(folder, "run", "--jobs", "0")
    assert precreg(folder, "baseline", "accept", "--all", "--reason", "first").returncode == 0
    write(folder, worse=2, better=1, about="# changed\n")
    return folder


def write(folder, *, about="", **steps):
    """Write the kernels; a text of another length is told from bytecode that was made in the same second."""
    (folder / "suites" / "kernels.py").write_text(KERNELS.format(**steps) + about)


def judged(record):
    """Return verdicts with all their findings by case, from a record's file."""
    found = json.loads(record.read_text())["results"]
    return {result["id"]: result["verdict"] for result in found}


@pytest.fixture(scope="module")
def whole(project):
    precreg(project, "run", "--jobs", "2", "--output", "whole")
    verdicts = judged(project / "whole" / "record.json")
    reasons = {verdict["reason"] for verdict in verdicts.values()}
    assert {"regressed", "improved"} <= reasons
    assert any(finding.get("rule") == "statistic" for verdict in verdicts.values() for finding in verdict["findings"])
    return verdicts


@settings(max_examples=12, deadline=None)
@given(chosen=st.data())
def test_in_any_selection_and_order(project, whole, chosen):
    cases = load_cases(project)
    some = chosen.draw(st.lists(st.sampled_from(cases), min_size=1, max_size=6, unique_by=lambda case: case.id))
    environment = read_run_record(project / "whole" / "record.json").environment  # this process may have other threads
    baselines = Baselines(project)
    policy = Policy(baselines=baselines.number(environment.chain))
    for result in map(add_result_messages, run_and_judge(some, Plan(project, environment, jobs=0), policy, baselines)):
        verdict = whole[result.id]
        assert result.verdict.message == verdict["message"]
        assert [finding.message for finding in result.verdict.findings] == [
            finding["message"] for finding in verdict["findings"]
        ]


@pytest.mark.parametrize("name", ["unit/worse/float16-24x80", "unit/better/float32-5x7"])
def test_alone_by_the_command(project, whole, name):
    precreg(project, "run", name, "--jobs", "0", "--output", "alone")
    assert judged(project / "alone" / "record.json") == {name: whole[name]}


def test_in_shards(project, whole):
    found = {}
    for part in (1, 2, 3):
        precreg(project, "run", "--shard", f"{part}/3", "--jobs", "0", "--output", "part")
        found |= judged(project / "part" / "record.json")
    assert found == whole


def test_by_pytest_in_two_processes(project, whole):
    option = ("-o", "precreg_suites=suites", f"--precreg-output={project / 'by_pytest'}")
    done = pytest_(project, "suites/unit", "-q", "-n", "2", *option)
    assert done.returncode == 1, done.stdout + done.stderr
    assert judged(project / "by_pytest" / "record.json") == whole


def test_in_a_run_that_is_resumed(project, whole):
    """Cut the journal after its first outcomes, as a kill does, and go on."""
    precreg(project, "run", "--jobs", "0", "--output", "again")
    journal = project / ".precreg" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    shutil.rmtree(project / "again")
    done = precreg(project, "run", "--jobs", "2", "--resume", "--output", "again")
    assert done.returncode == 1, done.stderr
    assert judged(project / "again" / "record.json") == whole
