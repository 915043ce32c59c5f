"""The monitor of drift, run for real on a schedule: its first time, the times after, and what fails."""

from tests.e2e.command import change, precreg
from tests.pipeline.local import CASES, artifacts, commit, pipeline
from tests.report.gitlab import read


def runs(folder):
    """Return the exit codes of the runs in the history that the job's cache holds."""
    (cached,) = (folder / ".gitlab-ci-local" / "cache").rglob("history.sqlite")
    listed = precreg(folder, "history", "list", "--history", cached).stdout
    return [line.rpartition(" ")[2] for line in listed.splitlines() if "exit code" in line]


def test_a_history_is_begun_when_told_and_goes_on_from_the_cache(project):
    folder = project("template")
    without = pipeline(folder, "schedule")
    assert (without.code, without.jobs) == (1, {"drift": "FAIL"}), without.printed
    assert "error[missing-history]" in without.printed

    first = pipeline(folder, "schedule", NEW_HISTORY="true")
    assert (first.code, first.jobs) == (1, {"drift": "FAIL"}), first.printed
    assert "exit 2: nothing could be judged" in first.printed, "one run cannot tell, and it is not said that it could"
    assert runs(folder) == ["0"]

    again = pipeline(folder, "schedule")
    assert (again.code, again.jobs) == (0, {"drift": "PASS"}), again.printed
    assert runs(folder) == ["0", "0"]
    for report in ("reports/junit.xml", "reports/drift/junit.xml", "reports/drift/report.html", "reports/record.json"):
        assert set(artifacts(folder, report)) == {"drift"}, report
    uploaded = [artifacts(folder, f"reports/{name}")["drift"].read_text() for name in ("junit.xml", "drift/junit.xml")]
    keys = [test.key for xml in uploaded for test in read(xml)]
    assert len(keys) == len(set(keys)) > len(CASES), "verdicts and drift are tests of their own"


def test_a_run_that_fails_is_added_and_fails_the_job(project):
    folder = project("ours")
    pipeline(folder, "schedule", NEW_HISTORY="true")
    change(folder / "suites/kernels.py", "np.square(x.astype(np.float32))", "np.square(x)")
    commit(folder, "save a conversion")
    done = pipeline(folder, "schedule")
    assert (done.code, done.jobs) == (1, {"drift": "FAIL"}), done.printed
    assert "exit 1: 1 case regressed against its baseline" in done.printed
    assert runs(folder) == ["0", "1"]
