"""The tiers of a pipeline, each with shards of its own, become one report; paths begin at the repository's root."""

import json
from xml.etree import ElementTree

import pytest

from tests.e2e.command import change, precreg, repository
from tests.report.gitlab import compare, pipeline

SUITE = """\
suite: {tier}_sum
subject: kernels:total
reference: kernels:exact
matrix: {{dtype: [float16, float32]}}
inputs: {{x: {{shape: [64, 32], dtype: $dtype, uniform: {{low: 1, high: 2}}}}}}
tolerance: {{rtol: 1e-1}}
"""
KERNELS = """\
import numpy as np


def total(x):
    return np.sum(x.astype(np.float32), axis=0).astype(x.dtype)


def exact(x):
    return x.sum(axis=0)
"""
TIERS = ("unit", "integration", "model")
SHARDS = {"unit": 3, "integration": 1, "model": 2}


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """A project in a folder of a repository, with accepted baselines."""
    root = tmp_path_factory.mktemp("repository")
    project = root / "libs" / "sums"
    for tier in TIERS:
        (project / "suites" / tier).mkdir(parents=True)
        (project / "suites" / tier / "sum.yaml").write_text(SUITE.format(tier=tier))
    (project / "suites" / "kernels.py").write_text(KERNELS)
    repository(root)
    precreg(project, "run", "--jobs", "0")
    precreg(project, "baseline", "accept", "--all", "--reason", "first version")
    return project


def gate(project):
    """Run every shard of every tier as jobs of a pipeline do, and return the folders of their records by job."""
    folders = {}
    for tier, count in SHARDS.items():
        for index in range(1, count + 1):
            variables = {"CI": "true", "CI_NODE_INDEX": str(index), "CI_NODE_TOTAL": str(count)}
            output = f"records/{tier}-{index}"
            precreg(project, "run", "--jobs", "0", "--tier", tier, "--output", output, **variables)
            folders[tier if count == 1 else f"{tier} {index}/{count}"] = project / output
    return folders


@pytest.fixture(scope="module")
def passing(accepted):
    return {job: (folder / "junit.xml").read_text() for job, folder in gate(accepted).items()}


@pytest.fixture(scope="module")
def merged(accepted, passing):
    done = precreg(accepted, "report", *sorted((accepted / "records").iterdir()), CI="true")
    return done, json.loads((accepted / "reports" / "record.json").read_text())


def test_tiers_and_shards_merge_into_the_whole_run(merged):
    done, record = merged
    assert done.returncode == 0, done.stderr
    assert "selected" not in done.stdout, "three tiers are the whole project"
    assert {result["tier"] for result in record["results"]} == set(TIERS)
    assert (len(record["results"]), record["selection"], record["ci"], record["orphans"]) == (6, {}, True, [])


def test_a_tier_alone_says_that_it_is_not_the_whole(accepted, passing):
    units = sorted((accepted / "records").glob("unit-*"))
    done = precreg(accepted, "report", *units, "--output", "part")
    assert done.returncode == 0
    assert "\nselected  tier unit\n" in done.stdout
    assert "Not the whole project, but tier unit." in (accepted / "part" / "summary.md").read_text()


def test_a_shard_of_one_tier_that_is_missing_is_noticed(accepted, passing):
    records = [folder for folder in (accepted / "records").iterdir() if folder.name != "model-2"]
    done = precreg(accepted, "report", *records)
    assert done.returncode == 2
    assert "expected every shard of the run of tier model but got 1/2, without 2/2" in done.stderr


def test_a_regression_is_seen_once_in_its_folder(accepted, passing, merged):
    change(accepted / "suites" / "kernels.py", "np.sum(x.astype(np.float32), axis=0)", "sum(x, start=x[0] * 0)")
    folders = gate(accepted)
    seen = compare(
        pipeline(passing.items()),
        pipeline((job, (folder / "junit.xml").read_text()) for job, folder in folders.items()),
    )
    assert sorted(seen.new) == sorted(f"{tier}/{tier}_sum/float16" for tier in TIERS)
    done = precreg(accepted, "report", *folders.values(), "--output", "after", CI="true")
    assert done.returncode == 1
    found = json.loads((accepted / "after" / "codequality.json").read_text())
    # The change has the line of the subject. JUnit names the suite, which is the same for all subjects.
    assert {entry["location"]["path"] for entry in found} == {"libs/sums/suites/kernels.py"}
    files = {case.get("file") for case in ElementTree.parse(accepted / "after" / "junit.xml").iter("testcase")}
    assert files == {f"libs/sums/suites/{tier}/sum.yaml" for tier in TIERS}
