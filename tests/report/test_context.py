"""The lines of subjects, and the earlier values of failed cases, from a real project, its git and its history."""

import pytest

from precreg.environment.machine import source_links
from precreg.errors import UserError
from precreg.history.store import open_history
from precreg.report import context
from precreg.report.codequality import codequality_entries
from precreg.report.context import subject_place
from precreg.report.files import RUN_OUTPUTS
from precreg.run.request import RunRequest
from precreg.run.session import run_session
from precreg.suite.expand import load_cases
from precreg.types.case import Location
from precreg.types.record import SourceLinks
from tests.e2e.command import change, git, repository

SUITE = """
suite: s
about: a product
category: other
subject: kernels:product
reference: kernels:exact
inputs: {x: {shape: [4, 40], dtype: float32, normal: {mean: 0, std: 1}}}
tolerance: {rtol: 1e-2, atol: 0}
"""
RIGHT = (
    "import numpy as np\n\n\ndef exact(x):\n    return x * 1.5\n\n\ndef product(x):\n    return x * np.float32(1.5)\n"
)
WRONG = RIGHT.replace("np.float32(1.5)", "np.float32(1.6)")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.delenv("PRECREG_HISTORY", raising=False)
    (tmp_path / "suites" / "unit").mkdir(parents=True)
    (tmp_path / "suites" / "unit" / "s.yaml").write_text(SUITE)
    (tmp_path / "kernels.py").write_text(RIGHT)
    return tmp_path


def run(project, **options):
    request = RunRequest(project=project, environment="cpu-test", output=project / "reports", jobs=1, **options)
    return run_session(
        request,
        RUN_OUTPUTS,
        progress=lambda results, total: iter(results),
        summarize=lambda record, written: None,
        announce=lambda announcement: None,
    )


def test_a_failed_case_has_its_subjects_line_a_map_and_its_earlier_values(project):
    with open_history(project / ".precreg" / "history.sqlite", project=project.name, create=True) as history:
        history.add(_earlier(run(project), "2026-01-01T00:00:00+00:00"))
        (passed,) = run(project).results
        (project / "kernels.py").write_text(WRONG)
        history.add(_earlier(run(project), "2026-01-02T00:00:00+00:00"))
    (failed,) = run(project).results
    assert failed.subject == Location("kernels.py", 8)
    assert {len(each.error_map.rows) for each in failed.outcome.comparisons} == {4}
    assert (failed.history.output, failed.history.metric) == ("out", "match_ratio")
    assert [each.started[:10] for each in failed.history.values] == ["2026-01-01", "2026-01-02"]
    assert failed.history.values[0].value == failed.history.limit == 1
    assert failed.history.values[1].value < 1
    for name in ("subject", "history"):
        assert not getattr(passed, name)


def _earlier(record, started):
    from msgspec.structs import replace

    return replace(record, started=started)


def test_a_history_that_cannot_be_read_is_a_fact_of_the_record(project, monkeypatch):
    (project / "kernels.py").write_text(WRONG)
    (project / "broken.sqlite").write_text("no database")
    monkeypatch.setenv("PRECREG_HISTORY", str(project / "broken.sqlite"))
    record = run(project)
    assert "history" in record.history_problem
    assert len(record.results) == 1


@pytest.mark.parametrize(
    ("subject", "place"),
    [
        ("kernels:product", Location("kernels.py", 8)),
        ("numpy:sum", None),
        ("{onnx: net.onnx}", Location("suites/unit/net.onnx")),
    ],
)
def test_the_place_of_a_subject_is_a_line_or_a_file_of_the_project(project, subject, place):
    (project / "suites" / "unit" / "net.onnx").write_bytes(b"")
    suite = SUITE.replace("subject: kernels:product", f"subject: {subject}")
    (project / "suites" / "unit" / "s.yaml").write_text(suite)
    (case,) = load_cases(project)
    assert subject_place(case, project) == place


def test_links_of_ci_and_of_variables():
    assert source_links({}) is None
    gitlab = {"CI_PROJECT_URL": "https://gitlab.org/g/p"}
    assert source_links(gitlab) == SourceLinks(
        "https://gitlab.org/g/p/-/blob/{commit}/{path}#L{line}", "https://gitlab.org/g/p/-/commit/{commit}"
    )
    github = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r"}
    assert source_links(github) == SourceLinks(
        "https://github.com/o/r/blob/{commit}/{path}#L{line}", "https://github.com/o/r/commit/{commit}"
    )
    own = {"PRECREG_COMMIT_URL": "http://cgit/p/commit/?id={commit}"}
    assert source_links(github | own).commit == "http://cgit/p/commit/?id={commit}"


@pytest.mark.parametrize(
    "template", ["javascript:alert(1)", "ftp://x.org/{path}", "https://", "x.org/{commit}", "https://{path}/"]
)
def test_a_template_that_is_no_url_of_the_web_is_refused_with_an_example(template):
    with pytest.raises(UserError) as caught:
        source_links({"PRECREG_SOURCE_URL": template})
    assert caught.value.slug == "bad-value"
    assert "https://git.example.org/group/project/-/blob/{commit}/{path}#L{line}" in caught.value.message


KERNELS = """\
import numpy as np


def exact(x):
    return x * 1.5


def product(x):
    scale = helper()
    other = 0
    return x * scale


def helper():
    return np.float32(1.5)
"""


@pytest.fixture
def committed(project):
    (project / "kernels.py").write_text(KERNELS)
    return repository(project)


def shown(project):
    """Return the place of the case in code quality."""
    record = run(project)
    (entry,) = [each for each in codequality_entries(record) if "out_of_tolerance" in each["check_name"]]
    return entry["location"]["path"], entry["location"]["lines"]["begin"]


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("def product(x):\n    scale = helper()", "def product(x, wrong=1.6):\n    scale = np.float32(wrong)", 8),
        ("    other = 0", "    other, scale = 0, np.float32(1.6)", 10),
        ("    other = 0\n    return x * scale\n", "    return x * np.float32(1.6)\n", 10),
    ],
)
def test_code_quality_points_to_the_changed_line_of_the_subject(committed, before, after, line):
    change(committed / "kernels.py", before, after)
    assert shown(committed) == ("kernels.py", line)
    # In a merge request the branch committed the change.
    git(committed, "checkout", "-qb", "feature")
    git(committed, "commit", "-qam", "wrong")
    assert shown(committed) == ("kernels.py", line)


def test_a_change_elsewhere_leaves_code_quality_at_the_line_of_the_suite(committed):
    change(committed / "kernels.py", "np.float32(1.5)", "np.float32(1.6)")
    assert shown(committed) == ("suites/unit/s.yaml", 8)
    (result,) = run(committed).results
    assert result.in_change is None


def test_without_a_change_no_line_of_a_change_is_known(committed):
    change(committed / "kernels.py", "np.float32(1.5)", "np.float32(1.6)")
    git(committed, "commit", "-qam", "wrong, on the default branch")
    (result,) = run(committed).results
    assert not result.in_change


def test_a_subject_in_a_new_file_is_shown_at_its_line(committed):
    git(committed, "rm", "-q", "--cached", "kernels.py")
    git(committed, "commit", "-qm", "without kernels")
    change(committed / "kernels.py", "np.float32(1.5)", "np.float32(1.6)")
    assert shown(committed) == ("kernels.py", 8)


CAUSE = Location("kernels.py", 15)
CODE = context._Code(Location("kernels.py", 8), 11)


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"kernels.py": (range(8, 9), range(15, 16))}, CODE.place),
        ({"kernels.py": (range(9, 10), range(15, 16))}, CAUSE),
        ({"kernels.py": (range(12, 14),)}, None),
        ({"kernels.py": (range(1, 20),)}, CODE.place),
        ({"kernels.py": (range(7, 8), range(11, 12))}, Location("kernels.py", 11)),
        ({"other.py": (range(1, 20),)}, None),
    ],
)
def test_the_subject_comes_before_the_cause_and_the_cause_before_other_lines(changed, place):
    assert context._changed_place(CODE, CAUSE, changed) == place


def test_a_model_has_no_lines_and_is_in_the_change_as_a_whole():
    model = context._Code(Location("model.onnx"), 0)
    assert context._changed_place(model, None, {"model.onnx": ()}) == Location("model.onnx")
    assert context._changed_place(model, None, {}) is None
