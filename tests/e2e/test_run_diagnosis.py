"""`precreg run` searches for the causes of its failed cases, and every report shows them; so does pytest if asked."""

import json
import shutil
import subprocess
from xml.etree import ElementTree

import pytest

from tests.e2e.command import (
    PATIENCE_S,
    accept_on_main,
    change,
    environ,
    forked_pytest,
    git,
    precreg,
    repository,
    started,
    with_suite,
)
from tests.e2e.diagnosed_kernels import KERNELS
from tests.e2e.pushes import with_hook_in_fork
from tests.processes import is_alive, wait_until

X = "inputs: {{x: {{shape: {shape}, dtype: float32, normal: {{}}}}}}\n".format
SUITES = {
    "adam": "golden: kernels:golden_adam\ninputs:\n  w: {shape: [64, 50], dtype: float32, normal: {}}\n"
    "  m: {shape: [64, 50], dtype: float32, normal: {}}\n"
    "  v: {shape: [64, 50], dtype: float32, uniform: {low: 0, high: 1}}\n",
    "scaled": "reference: kernels:exact_scaled\n" + X(shape=[32, 70]),
    "twice": "reference: kernels:exact_twice\n" + X(shape=[32]),
}
FILE = "suites/unit/kernels.py"
# The order of adam changes, scaled passes through float16, and twice fails in another way than by its result.
CHANGES = {
    "np.float32(0.001) * (m / denominator)": "(np.float32(0.001) * m) / denominator",
    "np.exp(x * np.float32(0.5))": "np.exp(x * np.float32(0.5)).astype(np.float16).astype(x.dtype)",
    "return x + x": "raise ValueError(x.shape)",
}
ADAM = "multiply before divide at kernels.py:6 `(np.float32(0.001"
CAST = "cast of the result to float16 at kernels.py:15 `"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """Return a repository with accepted baselines."""
    folder = tmp_path_factory.mktemp("accepted") / "project"
    (folder / "suites/unit").mkdir(parents=True)
    (folder / FILE).write_text(KERNELS)
    for name, text in SUITES.items():
        (folder / f"suites/unit/{name}.yaml").write_text(f"suite: {name}\nsubject: kernels:{name}\n{text}")
    return accept_on_main(repository(folder))


@pytest.fixture
def changed(accepted, tmp_path):
    """Return a repository of its own whose three kernels changed since."""
    folder = tmp_path / "project"
    shutil.copytree(accepted, folder)
    for before, after in CHANGES.items():
        change(folder / FILE, before, after)
    return folder


def record_of(folder, reports="reports"):
    return json.loads((folder / reports / "record.json").read_text())


def diagnoses(record):
    return {each["id"]: each["diagnosis"] for each in record["results"] if each["diagnosis"] is not None}


def lines_below(text, start):
    """Return the lines from the first one that begins so, up to an empty line or the next case."""
    lines = text.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith(start))
    end = next(place for place, line in enumerate(lines) if place > first and not line.startswith(" "))
    return lines[first:end]


@pytest.mark.parametrize("jobs", [0, 2])
def test_a_run_names_the_causes_in_its_record_and_in_every_report(changed, jobs):
    # With workers, the run has an interpreter of its own: its workers start as a user's do.
    run = started if jobs else precreg
    done = run(changed, "run", "--jobs", jobs, "--diagnose", "300")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "precreg: searching for the causes of 2 failed cases, at most 300 s" in done.stderr
    record = record_of(changed)
    found = diagnoses(record)
    assert {case: each["status"] for case, each in found.items()} == {
        "unit/adam/default": "found",
        "unit/scaled/default": "found",
    }
    assert {key: record["diagnosed"][key] for key in ("diagnosed", "not_reached")} == {"diagnosed": 2, "not_reached": 0}
    assert found["unit/adam/default"]["causes"][0]["evidence"]["reproduced"] == 3200
    # The terminal.
    for case, words in (("adam", ADAM), ("scaled", CAST)):
        shown = lines_below(done.stdout, f"FAILED   unit/{case}/default")
        (cause,) = (line for line in shown if line.startswith("         cause: "))
        assert cause.startswith(f"         cause: {words}"), cause
        assert cause.endswith(" elements")
        assert " reproduces " in cause
    assert "causes    2 failed cases diagnosed in " in done.stdout
    assert "cause: " not in "".join(lines_below(done.stdout, "ERROR    unit/twice/default"))
    # JUnit, Markdown, code quality and HTML.
    bodies = [each.text for each in ElementTree.parse(changed / "reports/junit.xml").iter("failure")]
    assert len(bodies) == 2
    for body, line in zip(bodies, (6, 15), strict=True):
        assert f"{FILE}:{line} `" in next(each for each in body.splitlines() if each.startswith("cause: "))
        assert "\nto do: " in body
        assert "\ntried: the accepted version " in body
    summary = (changed / "reports/summary.md").read_text()
    assert "- `unit/adam/default`: cause: multiply before divide at kernels.py:6" in summary
    entries = json.loads((changed / "reports/codequality.json").read_text())
    places = {each["description"].partition(":")[0]: each["location"] for each in entries}
    assert places["unit/adam/default"] == {"path": FILE, "lines": {"begin": 6}}
    assert places["unit/scaled/default"] == {"path": FILE, "lines": {"begin": 15}}
    # It has no cause, and the change has this line of its subject.
    assert places["unit/twice/default"] == {"path": FILE, "lines": {"begin": 23}}
    shown = '["cause","multiply before divide at suites/unit/kernels.py:6'
    assert shown in (changed / "reports/report.html").read_text()
    # Every report follows from the record.
    again = precreg(changed, "report", "reports", "--output", "again")
    assert again.returncode == 1
    for name in ("junit.xml", "summary.md", "codequality.json"):
        assert (changed / "again" / name).read_bytes() == (changed / "reports" / name).read_bytes()
    assert shown in (changed / "again/report.html").read_text()
    assert diagnoses(record_of(changed, "again")) == found


def test_a_diagnosis_changes_no_verdict_and_no_exit_code(changed):
    done = {seconds: precreg(changed, "run", "--diagnose", seconds) for seconds in ("0", "300")}
    assert {each.returncode for each in done.values()} == {1}
    assert {each.stdout.splitlines()[-1] for each in done.values()} == {done["0"].stdout.splitlines()[-1]}
    assert not any(word in done["0"].stdout + done["0"].stderr for word in ("cause:", "causes "))
    without = precreg(changed, "run", "--diagnose", "0", "--output", "off")
    assert without.returncode == 1
    records = [record_of(changed), record_of(changed, "off")]
    assert records[1]["diagnosed"] is None
    assert not diagnoses(records[1])
    verdicts = [[each["verdict"] for each in record["results"]] for record in records]
    assert verdicts[0] == verdicts[1]


def test_a_run_without_a_failure_searches_nothing(accepted, tmp_path):
    folder = tmp_path / "project"
    shutil.copytree(accepted, folder)
    done = precreg(folder, "run", "--diagnose", "300")
    assert done.returncode == 0, done.stdout
    assert "cause" not in done.stdout + done.stderr
    record = record_of(folder)
    assert record["diagnosed"] is None
    assert not diagnoses(record)


def test_cases_beyond_the_budget_are_counted(changed):
    done = precreg(changed, "run", "--diagnose", "1e-9")
    assert done.returncode == 1
    assert "2 not reached: allow more than 1e-09 s with --diagnose SECONDS" in done.stdout
    assert record_of(changed)["diagnosed"]["not_reached"] == 2
    assert "2 not reached" in (changed / "reports/summary.md").read_text()


HANGS = """\
import os, pathlib, time


def hangs(x):
    calls = pathlib.Path(__file__).with_name("calls.txt")
    with calls.open("a") as stream:
        stream.write(f"{os.getpid()}\\n")
    if len(calls.read_text().splitlines()) > 1:
        time.sleep(3600)
    return x * x.dtype.type(1.5)


def exact(x):
    return x
"""


def test_a_subject_that_hangs_in_a_diagnosis_ends_with_its_time(tmp_path):
    suite = f"suite: s\nsubject: k:hangs\nreference: k:exact\nseeds: 1\ntimeout: 3600\n{X(shape=[32])}"
    folder = repository(with_suite(tmp_path, suite, HANGS))
    done = started(folder, "run", "--jobs", "1", "--diagnose", "5", "--pair", "off")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "cause: not found: the time was up before the search gave an answer" in done.stdout
    pids = [int(line) for line in (folder / "suites/unit/calls.txt").read_text().split()]
    # The run's own worker, and that of the diagnosis, which may not get so far on a busy machine.
    assert len(pids) in (1, 2)
    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("seconds", ["-1", "nan", "soon", "inf", "1e7"])
def test_a_budget_that_is_no_time_is_refused(accepted, seconds):
    done = precreg(accepted, "run", "--diagnose", seconds)
    assert done.returncode == 2
    assert "--diagnose" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_variable_sets_the_budget_and_the_option_wins(changed):
    by_variable = precreg(changed, "run", "adam", PRECREG_DIAGNOSE="300")
    assert "cause: multiply before divide" in by_variable.stdout
    by_option = precreg(changed, "run", "adam", "--diagnose", "0", PRECREG_DIAGNOSE="300")
    assert "cause" not in by_option.stdout


def test_a_resumed_run_and_merged_shards_have_the_causes(changed):
    precreg(changed, "run", "--jobs", "0", "--diagnose", "0")
    resumed = precreg(changed, "run", "--resume", "--jobs", "0", "--diagnose", "300")
    assert resumed.returncode == 1
    assert "cause: multiply before divide" in resumed.stdout
    for shard in ("1/2", "2/2"):
        precreg(changed, "run", "--shard", shard, "--diagnose", "300", "--output", f"shard{shard[0]}")
    merged = precreg(changed, "report", "shard1", "shard2", "--output", "merged")
    assert merged.returncode == 1, merged.stderr
    assert set(diagnoses(record_of(changed, "merged"))) == {"unit/adam/default", "unit/scaled/default"}
    counts = record_of(changed, "merged")["diagnosed"]
    assert (counts["seconds"], counts["diagnosed"], counts["not_reached"]) == (300.0, 2, 0)
    assert "causes    2 failed cases diagnosed" in merged.stdout


def test_a_push_waits_for_no_causes(changed):
    git(changed, "init", "-q", "--bare", "../remote.git")
    git(changed, "remote", "add", "origin", "../remote.git")
    assert precreg(changed, "hook", "install").returncode == 0
    with_hook_in_fork(changed)
    git(changed, "commit", "-qam", "changed")
    pushed = subprocess.run(
        ["git", "push", "origin", "main"],
        cwd=changed,
        env=environ(PRECREG_DIAGNOSE="300"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert pushed.returncode != 0
    assert "FAILED   unit/adam/default   regressed" in pushed.stderr + pushed.stdout
    assert "cause:" not in pushed.stderr + pushed.stdout
    assert record_of(changed)["diagnosed"] is None


def test_pytest_searches_if_asked(changed):
    (changed / "pytest.ini").write_text("[pytest]\nprecreg_suites = suites\n")

    def tested(*options):
        return forked_pytest(changed, "-p", "no:xdist", *options)

    plain = tested()
    assert plain.returncode == 1
    assert "cause:" not in plain.stdout
    asked = tested("--precreg-diagnose=300")
    assert asked.returncode == 1
    summary = asked.stdout.partition("= precreg =")[2]
    assert f"cause: {ADAM}" in summary
    assert "causes    2 failed cases diagnosed" in summary
    assert set(diagnoses(record_of(changed))) == {"unit/adam/default", "unit/scaled/default"}
    refused = tested("--precreg-diagnose=nan")
    assert refused.returncode == 4
    assert "expected seconds from 0 to 1e+06 but got nan" in refused.stderr
