"""`--format github` of a run and of its report: annotations in the log, and the summary of the step."""

from tests.e2e.command import precreg, with_suite

SUITE = """\
suite: s
subject: k:same
reference: k:same
inputs:
  x: {shape: [8], dtype: float32, normal: {}}
"""


def test_a_run_and_its_report_annotate_the_suite_and_add_to_the_summary(tmp_path):
    project, summary = with_suite(tmp_path / "project", SUITE), tmp_path / "summary.md"
    for words in (("run", "--jobs", "0", "--ci"), ("report", "reports")):
        done = precreg(project, *words, "--format", "github", GITHUB_STEP_SUMMARY=str(summary))
        assert done.returncode == 1, done.stdout + done.stderr
        first, *_, last = done.stdout.splitlines()
        assert first.startswith("::stop-commands::")
        assert last.startswith("::error file=suites/unit/s.yaml,line=1,title=precreg.new::unit/s/")
    assert summary.read_text().count("# precreg: 1 ") == 2


def test_text_is_the_default_and_leaves_the_summary_of_the_step_alone(tmp_path):
    project, summary = with_suite(tmp_path / "project", SUITE), tmp_path / "summary.md"
    done = precreg(project, "run", "--jobs", "0", "--ci", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1
    assert "::" not in done.stdout
    assert not summary.exists()


def test_a_summary_that_cannot_be_written_is_said_without_a_traceback(tmp_path):
    project = with_suite(tmp_path / "project", SUITE)
    absent = str(tmp_path / "absent" / "summary.md")
    done = precreg(project, "run", "--jobs", "0", "--format", "github", GITHUB_STEP_SUMMARY=absent)
    assert done.returncode == 2
    assert "error[not-writable]" in done.stderr
    assert "Traceback" not in done.stderr
