import pytest

from precreg.errors import UserError
from precreg.run.reuse.conditions import never_reused
from precreg.suite.expand import load_cases
from precreg.types.case import Computation
from precreg.vcs.dependency import has_unknown_dependencies

SUITE = """\
suite: atan
files:
  actual: "outputs/{version}/*.npy"
  golden: "golden/*.npy"
"""


@pytest.fixture
def record(write):
    """Return the function that makes a project of a suite and of empty files beside it."""

    def record(suite, *paths):
        return write({f"suites/unit/{path}": "" for path in paths}, atan=suite)

    return record


@pytest.fixture
def cases(record):
    def cases(suite, *paths):
        return {case.name: case for case in load_cases(record(suite, *paths))}

    return cases


def refused(project):
    with pytest.raises(UserError) as caught:
        load_cases(project)
    return caught.value


def test_every_reference_is_a_case_in_every_version(cases):
    found = cases(
        SUITE, "outputs/1.23/a.npy", "outputs/1.23/b.npy", "outputs/1.24/a.npy", "golden/a.npy", "golden/b.npy"
    )
    assert list(found) == ["1.23-a", "1.23-b", "1.24-a", "1.24-b"]
    missing = found["1.24-b"]
    assert missing.subject == Computation("files", {"out": "suites/unit/outputs/1.24/b.npy"})
    assert missing.oracle == Computation("files", {"out": "suites/unit/golden/b.npy"})
    assert (missing.role, missing.seeds, missing.parameters) == ("golden", 1, {"version": "1.24", "file": "b"})


def test_the_matrix_restricts_and_orders_a_placeholder(cases):
    suite = SUITE + 'matrix: {version: ["1.24", "1.25"]}\nbaseline_of: {version: "1.24"}\n'
    found = cases(suite, "outputs/1.23/odd.npy", "outputs/1.24/a.npy", "golden/a.npy")
    assert {name: case.baseline_id for name, case in found.items()} == {
        "1.24-a": "unit/atan/1.24-a",
        "1.25-a": "unit/atan/1.24-a",
    }


@pytest.mark.parametrize("suffix", ["/*.npy", "/*.npz"])
def test_a_version_whose_files_are_gone_still_judges_by_its_baseline(record, suffix):
    suite = SUITE.replace("/*.npy", suffix) + 'baseline_of: {version: "1.0"}\n'
    paths = [f"{folder}/a{suffix[2:]}" for folder in ("outputs/1.0", "outputs/1.1", "golden")]
    project = record(suite, *paths)
    before, now = load_cases(project)
    (project / "suites/unit" / paths[0]).unlink()
    (alone,) = load_cases(project)
    assert (before.id, now.id) == ("unit/atan/1.0-a", alone.id)
    assert (alone.baseline_id, alone.baseline_definition) == (before.id, before.definition)


def test_an_npz_holds_every_output(cases):
    suite = SUITE.replace("/*.npy", ".npz").replace("golden.npz", "golden/all.npz")
    found = cases(suite, "outputs/1.23.npz", "golden/all.npz")
    assert found["1.23"].subject == Computation("files", {"*": "suites/unit/outputs/1.23.npz"})
    assert found["1.23"].oracle == Computation("files", {"*": "suites/unit/golden/all.npz"})


def test_one_golden_for_every_recorded_file(cases):
    suite = SUITE.replace("golden/*.npy", "golden/all.npy")
    assert list(cases(suite, "outputs/1/a.npy", "outputs/1/b.npy", "golden/all.npy")) == ["1-a", "1-b"]


def test_placeholders_of_both_sides_agree(cases):
    suite = SUITE.replace("{version}", "{version}/{device}").replace("golden/", "golden/{device}/")
    paths = ["outputs/1/cpu/a.npy", "outputs/1/npu/a.npy", "golden/cpu/a.npy", "golden/npu/a.npy", "golden/gpu/a.npy"]
    found = cases(suite, *paths)
    assert {name: case.oracle.spec["out"].split("/")[3] for name, case in found.items()} == {
        "1-cpu-a": "cpu",
        "1-gpu-a": "gpu",
        "1-npu-a": "npu",
    }


def test_files_elsewhere_in_the_project(write):
    text = SUITE.replace("outputs/", "../../data/[1]/").replace("golden/", "../../data/golden/")
    project = write({"data/[1]/v/a.npy": "", "data/golden/a.npy": ""}, atan=text)
    assert [case.subject.spec for case in load_cases(project)] == [{"out": "data/[1]/v/a.npy"}]


@pytest.mark.parametrize(
    ("suite", "slug", "line", "says"),
    [
        (SUITE, "no-recorded-files", 4, "golden=suites/unit/golden/b.npy for suites/unit/outputs/1/b.npy"),
        (SUITE.replace("golden/*", "gold/*"), "no-recorded-files", 4, "none matches golden=suites/unit/gold/*.npy"),
        (
            SUITE.replace("outputs/", "output/"),
            "no-recorded-files",
            3,
            "none matches actual=suites/unit/output/{version}",
        ),
        (SUITE.replace("outputs/{version}", "../../../{version}"), "outside-project", 3, "path=suites/unit/../../.."),
        (SUITE.replace("{version}", "{version}/.."), "outside-project", 3, "no .. after a placeholder"),
        (SUITE.replace("outputs/", "/outputs/"), "outside-project", 3, "path=/outputs"),
        (SUITE.replace("outputs/", "http://o/"), "bad-url", 3, "expected a URL of s3:// or gs:// but got http://"),
        (SUITE.replace("outputs/{version}", "s3://{version}/o"), "bad-url", 3, "expected s3://BUCKET/KEY"),
        (SUITE.replace("outputs/", "s3://dumps/../"), "bad-url", 3, "without . and .. between slashes"),
        (SUITE.replace("outputs/{version}/*.npy", "gs://dumps/{version}/dump.json"), "bad-url", 3, "beside it"),
        (SUITE.replace("outputs/{version}/*", "{version}/*\\0"), "bad-value", 3, "without NUL"),
        (SUITE.replace("golden/*", "*" + "x" * 2000), "bad-value", 4, "at most 1024 characters"),
        (SUITE.replace("*.npy", "*.txt"), "bad-value", 3, "actual=outputs/{version}/*.txt"),
        (SUITE.replace("*.npy", "*.*.npy"), "bad-value", 3, "each placeholder once"),
        (
            SUITE.replace("golden/", "golden/{version}/{verson}/"),
            "bad-value",
            4,
            'with {verson}; did you mean "version"?',
        ),
        (SUITE + "matrix: {verson: [a]}\n", "bad-value", 5, 'verson; did you mean "version"?'),
        (SUITE + "matrix: {version: [1.20]}\n", "bad-value", 5, "in quotes"),
        (SUITE + "matrix: {version: ['1', '../..']}\n", "outside-project", 5, "version=../.."),
        (SUITE + "baseline_of: {verson: '1'}\n", "unknown-key", 5, 'verson=1; did you mean "version"?'),
        (SUITE + "baseline_of: {version: 1.0}\n", "bad-value", 5, "in quotes"),
        (SUITE + "baseline_of: {version: ../1}\n", "outside-project", 5, "version=../1"),
        (SUITE + "seeds: 2\n", "bad-value", 5, "expected seeds or files"),
        (SUITE + "cases: [{match: a, seeds: 2}]\n", "bad-value", 5, "seeds=2"),
    ],
)
def test_what_is_refused(record, suite, slug, line, says):
    orphan = [] if "baseline_of" in suite else ["outputs/1/b.npy"]
    error = refused(record(suite, "outputs/1/a.npy", "golden/a.npy", *orphan))
    assert (error.slug, error.file, error.line) == (slug, "suites/unit/atan.yaml", line), error
    assert says in error.message


def test_a_link_out_of_the_project_is_not_followed(record, tmp_path_factory):
    project = record(SUITE, "outputs/1/a.npy", "golden/a.npy")
    outside = tmp_path_factory.mktemp("outside") / "b.npy"
    outside.touch()
    (project / "suites/unit/golden/b.npy").symlink_to(outside)
    error = refused(project)
    assert (error.slug, error.file, error.line) == ("outside-project", "suites/unit/atan.yaml", 4)
    assert "golden/b.npy" in error.message


BESIDE = "suite: s\nfiles: {actual: 'o/{v}/*.npy', reference: 'r/*.npy', benchmark: 'b/*.npy'}\n"


def test_a_recorded_benchmark_for_each_case(cases):
    found = cases(BESIDE, "o/1/a.npy", "o/2/a.npy", "o/2/b.npy", "r/a.npy", "r/b.npy", "b/a.npy", "b/b.npy")
    assert {name: case.benchmark.spec["out"] for name, case in found.items()} == {
        "1-a": "suites/unit/b/a.npy",
        "1-b": "suites/unit/b/b.npy",
        "2-a": "suites/unit/b/a.npy",
        "2-b": "suites/unit/b/b.npy",
    }
    without = cases(BESIDE.replace(", benchmark: 'b/*.npy'", ""))
    assert [case.definition for case in without.values()] == [case.definition for case in found.values()]


def test_a_recorded_benchmark_that_is_missing(record):
    error = refused(record(BESIDE, "o/1/a.npy", "r/a.npy", "b/b.npy"))
    assert (error.slug, error.line) == ("no-recorded-files", 2)
    assert "expected benchmark=suites/unit/b/a.npy but it is not there" in error.message


@pytest.mark.parametrize(
    ("pattern", "slug"), [("b/{w}/*.npy", "bad-value"), ("../../../*.npy", "outside-project"), ("b/*.txt", "bad-value")]
)
def test_a_pattern_of_a_benchmark_is_checked(record, pattern, slug):
    assert refused(record(BESIDE.replace("b/*.npy", pattern), "o/1/a.npy", "r/a.npy")).slug == slug


@pytest.mark.parametrize(("scheme", "package"), [("s3", "s3fs"), ("gs", "gcsfs")])
def test_an_object_needs_its_package_and_no_connection_before_the_case_runs(write, scheme, package):
    suite = 'suite: a\nsubject: {python: "numpy:sin"}\nreference: {files: %s://dumps/%s}\n'
    project = write({}, a=suite % (scheme, "a.npy"), b=suite.replace("suite: a", "suite: b") % (scheme, "b.npz"))
    first, second = load_cases(project)
    assert first.oracle == Computation("files", {"out": f"{scheme}://dumps/a.npy"})
    assert second.oracle == Computation("files", {"*": f"{scheme}://dumps/b.npz"})
    assert first.requires == second.requires == (package,)
    # The store may replace the object at any time, and no file of the project shows it.
    assert has_unknown_dependencies(first, project)
    assert never_reused(first, project) == "network"


@pytest.mark.parametrize(
    ("url", "slug", "says"),
    [
        ("s3://dumps/a.txt", "unknown-file-format", "but got s3://dumps/a.txt"),
        ("ftp://dumps/a.npy", "bad-url", "but got ftp://"),
        ("s3://KEY:SECRET@dumps/a.npy", "bad-url", "expected s3://BUCKET/KEY"),
    ],
)
def test_a_wrong_url_names_its_line(write, url, slug, says):
    suite = f'suite: a\nsubject: {{python: "numpy:sin"}}\nreference: {{files: "{url}"}}\n'
    error = refused(write({}, a=suite))
    assert (error.slug, error.line) == (slug, 3)
    assert says in error.message
    assert "SECRET" not in str(error)
