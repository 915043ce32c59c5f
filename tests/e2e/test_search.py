"""`precreg search` as the real command: what it prints and writes, and that the written suite runs."""

import json

import numpy as np
import pytest

from tests.e2e.command import precreg, repository, with_suite

SUITE = """\
suite: lossy
about: Log of one plus x, without log1p
subject: k:log1p
reference: k:exact
matrix:
  dtype: [float32]
  base: [1]
inputs:
  x: {shape: [8, 16], dtype: $dtype, uniform: {low: 0, high: 4}}
params: {base: $base}
tolerance: {rtol: 1e-4, float32: {max_ulp: 1000}}
cases: [{match: "float32*", tags: [loud]}]
"""

KERNEL = """\
import numpy as np


def log1p(x, base):
    return np.log(x.dtype.type(base) + x)


def exact(x, base):
    return np.log1p(x)
"""

TRIALS = ("--trials", "3000")


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path, SUITE, KERNEL, "lossy"))


def searched(project, *arguments):
    done = precreg(project, "search", "lossy", *TRIALS, "--json", "search.json", *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads((project / "search.json").read_text()), done.stdout


def definition(project):
    (case,) = json.loads(precreg(project, "list", "--json").stdout)
    return case["definition"]


def refused(project, *arguments, slug):
    done = precreg(project, "search", *arguments)
    assert done.returncode == 2
    assert f"error[{slug}]" in done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_the_worst_input_of_a_kernel_is_printed_and_stored(project):
    found, text = searched(project)
    # 1 + x rounds to 1 for tiny x, so that the result is 0 and all digits are lost.
    assert found["error"] > 1e6
    assert found["ratio"] > 100
    assert found["metric"] == "max_ulp"
    assert found["trial_shape"] == [8, 16]
    (value,) = found["values"]
    assert 0 < value["value"] < 1e-6
    assert np.float32(value["value"]).view(np.uint32) == int(value["bits"], 16)
    assert found["answer"] in text
    assert f"x{value['index']} = {value['value']}" in text
    assert "range: x in [0, 4] of float32, from uniform" in text


def test_the_same_seed_and_trials_print_the_same_text(project):
    texts = [precreg(project, "search", "lossy", *TRIALS, "--seed", "3").stdout for _ in range(2)]
    assert texts[0] == texts[1]


def test_the_worst_inputs_become_a_suite_that_runs(project):
    found, text = searched(project, "--output", "suites/unit/lossy_worst.yaml")
    assert "written: suites/unit/lossy_worst.yaml; run it with: precreg run lossy_worst/" in text
    assert found["suite"] == "suites/unit/lossy_worst.yaml"
    written = (project / found["suite"]).read_text()
    assert "Worst inputs of unit/lossy/float32-base=1 within x in [0, 4]: max_ulp" in written
    assert "as many random inputs reach" in written
    arrays = np.load(project / "suites/unit/lossy_worst/float32-base=1.npz")
    assert arrays["x"].shape == (8, 16)
    listed = precreg(project, "list").stdout.split()
    assert "unit/lossy_worst/float32-base=1" in listed
    done = precreg(project, "run", "lossy_worst/")
    assert "out_of_tolerance" in done.stdout
    # The run measures the error that the search printed, and with more than one element.
    record = json.loads((project / "reports/record.json").read_text())
    (comparison,) = record["results"][0]["outcome"]["comparisons"]
    assert comparison["metrics"]["max_ulp"] == pytest.approx(found["error"], rel=1e-12)
    assert comparison["metrics"]["mean_ulp"] > 1000
    assert precreg(project, "list", "--tag", "loud").stdout.split() == [
        "unit/lossy/float32-base=1",
        "unit/lossy_worst/float32-base=1",
    ]


def test_a_written_suite_is_replaced_only_by_force(project):
    output = ("--output", "suites/unit/lossy_worst.yaml")
    searched(project, *output)
    message = refused(project, "lossy/", *TRIALS, *output, slug="bad-value")
    assert "exists\n  what to do: replace it with --force" in message
    assert precreg(project, "search", "lossy/", *TRIALS, *output, "--force").returncode == 0


@pytest.mark.parametrize(
    "path", ["worst.yaml", "suites/unit/deep/worst.yaml", "suites/unit/worst.json", "suites/unit/a b.yaml"]
)
def test_a_suite_is_written_beside_its_own(project, path):
    message = refused(project, "lossy", *TRIALS, "--output", path, slug="bad-value")
    assert "--output suites/unit/lossy_worst.yaml" in message
    assert not (project / path).exists()


def test_ranges_of_the_command_and_of_the_suite(project):
    found, _ = searched(project, "--ranges", "x=[1,2]")
    assert 1 <= found["values"][0]["value"] <= 2
    assert found["error"] < 10
    assert found["ranges"][0]["origin"] == "declared"
    file = project / "suites/unit/lossy.yaml"
    before = definition(project)
    file.write_text(f"{SUITE}ranges: {{x: [$base, 8]}}\n")
    found, text = searched(project)
    assert (found["ranges"][0]["low"], found["ranges"][0]["high"]) == (1, 8)
    assert "from the suite" in text
    assert definition(project) == before


@pytest.mark.parametrize(
    ("ranges", "slug", "words"),
    [
        ("{y: [0, 1]}", "unknown-key", "expected the range of an input but got ranges=y"),
        ("{x: [2, 1]}", "bad-value", "expected [LOW, HIGH]"),
        ("{x: 3}", "bad-value", "expected [LOW, HIGH]"),
        ("{x: [a, b]}", "bad-value", "expected [LOW, HIGH]"),
        ("{x: [0, $top]}", "unknown-reference", "$top"),
        ("[1, 2]", "bad-value", "ranges"),
    ],
)
def test_ranges_of_a_suite_that_cannot_be_read(project, ranges, slug, words):
    (project / "suites/unit/lossy.yaml").write_text(f"{SUITE}ranges: {ranges}\n")
    message = refused(project, "lossy", *TRIALS, slug=slug)
    assert words in message
    assert "lossy.yaml:13" in message


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (("--ranges", "y=[0,1]"), "bad-range"),
        (("--ranges", "x"), "bad-range"),
        (("--ranges", "x=[2,1]"), "bad-range"),
        (("--ranges", "x=[1e39,1e40]"), "bad-range"),
    ],
)
def test_a_range_that_cannot_be_used(project, words, slug):
    refused(project, "lossy", *TRIALS, *words, slug=slug)


@pytest.mark.parametrize(
    "words", [("--seconds", "0"), ("--trials", "0"), ("--seconds", "-1"), ("--metric", "mean_ulp")]
)
def test_a_budget_of_nothing_and_an_unknown_metric_are_refused(project, words):
    done = precreg(project, "search", "lossy", *words)
    assert done.returncode == 2
    assert "Invalid value" in done.stderr


def test_an_unknown_case_and_two_cases(project):
    refused(project, "losy", *TRIALS, slug="nothing-selected")
    file = project / "suites/unit/lossy.yaml"
    file.write_text(SUITE.replace("[float32]", "[float32, float16]"))
    refused(project, "lossy", *TRIALS, slug="unknown-case")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("return np.log(x.dtype.type(base) + x)", "return np.log(np.random.random() + x)", "two runs of"),
        ("return np.log1p(x)", "return np.log1p(x).astype(np.float32)", "expected a reference wider than float32"),
        ("return np.log(x.dtype.type(base) + x)", "return (x > base).astype(int)", "expected a floating output"),
    ],
)
def test_a_case_that_cannot_be_searched(project, before, after, words):
    file = project / "suites/unit/k.py"
    file.write_text(file.read_text().replace(before, after))
    assert words in refused(project, "lossy", *TRIALS, slug="unsearchable")


def test_a_golden_and_a_case_without_floating_inputs_are_refused(project):
    file = project / "suites/unit/lossy.yaml"
    file.write_text(SUITE.replace("reference:", "golden:"))
    assert "has a golden" in refused(project, "lossy", *TRIALS, slug="unsearchable")
    file.write_text(
        SUITE.replace("dtype: $dtype, uniform: {low: 0, high: 4}", "dtype: int32, integers: {low: 0, high: 4}")
    )
    assert "no input with a real floating dtype" in refused(project, "lossy", *TRIALS, slug="unsearchable")


def test_the_json_on_stdout_stands_alone(project):
    done = precreg(project, "search", "lossy", *TRIALS, "--json", "-")
    assert json.loads(done.stdout)["schema"] == "precreg-search/1"
    assert "worst error" in done.stderr


def test_prints_of_a_subject_do_not_disturb_the_json(project):
    file = project / "suites/unit/k.py"
    file.write_text(file.read_text().replace("    return np.log(", "    print('hello')\n    return np.log("))
    done = precreg(project, "search", "lossy", "--trials", "500", "--json", "-")
    assert json.loads(done.stdout)["error"] > 0


def test_seconds_end_a_search(project):
    done = precreg(project, "search", "lossy", "--seconds", "0.2")
    assert done.returncode == 0
    assert "hill-climbing on bits" in done.stdout
