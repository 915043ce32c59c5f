"""Which jobs GitLab starts for which event, by the rules of our file and of the one for users."""

import re

import pytest

from tests.e2e.command import ROOT, git
from tests.pipeline.local import FILES, expanded, jobs_of

EVENTS = {
    "a merge request": ("merge_request_event", "feature"),
    "the default branch": ("push", "main"),
    "a schedule": ("schedule", "main"),
    "a push to any other branch, or a tag": ("push", "feature"),
}


def table():
    """Return the jobs of each event as docs/gitlab.md says."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", (ROOT / "docs/gitlab.md").read_text(), re.MULTILINE)
    return {event: set(re.findall(r"`(\w+)`", jobs)) for event, jobs in rows if event in EVENTS}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("event", EVENTS)
def test_an_event_starts_the_jobs_that_the_page_says(project, event, name):
    folder = project(name)
    source, branch = EVENTS[event]
    if branch != "main":
        git(folder, "switch", "-q", "-c", branch)
    found = jobs_of(folder, source)
    own = {"test"} if name == "ours" and "unit" in table()[event] else set()
    assert {job.partition(":")[0] for job in found} == table()[event] | own
    assert {job: when for job, when in found.items() if when != "on_success"} == (
        {"report": "always"} if "report" in found else {}
    )


def test_a_tag_starts_the_jobs_of_a_release_and_no_other(project):
    folder = project("ours")
    git(folder, "switch", "-q", "-c", "feature")  # GitLab sets no branch for a tag, and the tool sets the current one
    found = jobs_of(folder, "push", CI_COMMIT_TAG="1.0.0")
    runners = ("saas-linux-small-amd64", "saas-linux-small-arm64")
    assert set(found) == {*(f"linux-wheels: [{runner}]" for runner in runners), "macos-wheels", "sdist"}


@pytest.mark.parametrize("text", FILES.values(), ids=list(FILES))
def test_the_file_keeps_to_what_gitlab_asks(text):
    file = expanded(text)
    jobs = {name: job for name, job in file.items() if not name.startswith(".") and "script" in job}
    assert not set(file) & {"image", "cache", "before_script", "after_script", "services", "pages", "only", "except"}
    assert str(file["variables"]["GIT_DEPTH"]) == "0"
    assert file["default"]["interruptible"] is True
    junit = [name for name, job in {**jobs, ".tier": file[".tier"]}.items() if "junit" in _reports(job)]
    assert junit == ["drift", ".tier"], "the merged report would count every test a second time"
    for job in (file[".tier"], jobs["report"], jobs["drift"]):
        assert job["artifacts"]["when"] == "always"
        assert job["artifacts"]["expire_in"]
    assert all(job["artifacts"]["paths"] == ["reports/"] for job in jobs.values() if "artifacts" in job)


def _reports(job):
    return job.get("artifacts", {}).get("reports", {})
