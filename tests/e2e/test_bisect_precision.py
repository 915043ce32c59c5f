"""`precreg bisect CASE --precision` on a simulated device, as the real command in a repository of its own."""

import json
import re

import pytest
import yaml

from tests.e2e.command import change, precreg, repository, with_suite

SUITE = """\
suite: chain
subject: k:chain
reference: k:chain
device: mlu370
inputs:
  x: {shape: [16, 2048], dtype: float32, normal: {mean: 1, std: 1}}
tolerance: {rtol: 1e-4, atol: 0}
seeds: 2
"""

# The device cuts each addition off, so both sums of 2048 terms lose some 1000 ULP and all other lines a few.
KERNEL = """\
import numpy as np


def chain(x):
    half = x * 0.5
    raised = half + 2.0
    total = raised.sum(axis=-1)
    scaled = total / 3.0
    squares = raised * raised
    power = squares.sum(axis=-1)
    root = np.sqrt(power)
    ratio = scaled / root
    shifted = ratio + 1.0
    return shifted * ratio
"""
SUMS = {"suites/unit/k.py:7", "suites/unit/k.py:10"}


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path, SUITE, KERNEL, "chain"))


def bisected(project, *arguments, code=0):
    """Bisect the case, and return its JSON and the text."""
    done = precreg(project, "bisect", "chain", "--precision", *arguments, "--json", "found.json")
    assert (done.returncode, done.stderr) == (code, ""), done.stdout + done.stderr
    return json.loads((project / "found.json").read_text()), done.stdout


def test_two_long_sums_need_a_wider_unit(project):
    found, text = bisected(project)
    assert (found["status"], set(found["kept"])) == ("found", SUMS)
    assert (found["kind"], found["narrow"], found["wide"]) == ("lines", "mlu370", "float64")
    assert len(found["parts"]) == 10
    assert len(found["trials"]) <= 5
    assert "2 of 10 lines in float64 keep the bound: " in text
    assert re.search(r"^out: match_ratio [\d.e-]+ \(limit 1\) became 1$", text, re.MULTILINE)
    assert f"{len(found['trials'])} runs of the case, and 1 to prove the configuration; 1 trace" in text
    assert found["proof"]["holds"]


def test_each_trial_says_which_lines_it_kept(project):
    found, _ = bisected(project)
    first, *others = found["trials"]
    assert (first["kept"], first["holds"], first["metric"], first["limit"]) == ([], False, "match_ratio", 1)
    assert [each["holds"] for each in others] == [set(each["kept"]) >= SUMS for each in others]


def test_the_table_that_it_writes_is_a_device_on_which_the_case_passes(project):
    (project / "suites/devices").mkdir()
    found, text = bisected(project, "--write", "suites/devices/mlu370-wide.yaml")
    table = yaml.safe_load((project / "suites/devices/mlu370-wide.yaml").read_text())
    assert (table["like"], set(table["wide"])) == ("mlu370", SUMS)
    assert found["configuration"]["place"] == "suites/devices/mlu370-wide.yaml"
    assert "written: suites/devices/mlu370-wide.yaml" in text
    before = precreg(project, "run", "chain").stdout
    change(project / "suites/unit/chain.yaml", "device: mlu370", "device: mlu370-wide")
    after = precreg(project, "run", "chain").stdout
    assert "out_of_tolerance" in before
    assert "out_of_tolerance" not in after
    assert "1 proposed" in after


def test_a_table_of_the_project_gets_its_own_key(project):
    (project / "suites/devices").mkdir()
    (project / "suites/devices/npu.yaml").write_text("about: a device\nlike: mlu370\nwide: ['suites/unit/k.py:7']\n")
    change(project / "suites/unit/chain.yaml", "device: mlu370", "device: npu")
    found, text = bisected(project)
    assert found["kept"] == ["suites/unit/k.py:10"]
    assert found["configuration"]["text"] == "wide: ['suites/unit/k.py:7', 'suites/unit/k.py:10']\n"
    assert "in suites/devices/npu.yaml (a run with this text kept the bound):" in text
    change(project / "suites/devices/npu.yaml", "wide: ['suites/unit/k.py:7']\n", found["configuration"]["text"])
    assert bisected(project)[0]["status"] == "passed"


def test_a_bound_that_holds_needs_nothing(project):
    found, text = bisected(project, "--bound", "max_rel_error<=0.1")
    assert (found["status"], found["kept"], len(found["trials"]), found["traces"]) == ("passed", [], 1, 0)
    assert "The bounds hold in mlu370: no line needs float64." in text


def test_a_bound_that_most_lines_break_has_no_dominating_line(project):
    found, text = bisected(project, "--metric", "max_rel_error", "--limit", "4e-7", code=1)
    assert found["status"] == "spread"
    assert (found["bound"], found["configuration"]) == ("max_rel_error 4e-07", None)
    assert "No line dominates the error: half of the 10 lines in float64" in text
    assert found["trials"][-1]["holds"]
    assert len(found["trials"][-1]["kept"]) == 10


def test_a_bound_that_all_lines_break_has_another_cause(project):
    found, text = bisected(project, "--bound", "max_rel_error<=1e-12", code=1)
    assert found["status"] == "insufficient"
    assert "The bound is broken with all 10 lines in float64, too" in text


def test_another_formula_is_no_question_of_precision(project):
    file = project / "suites/unit/k.py"
    file.write_text(KERNEL + "\n\ndef other(x):\n    return chain(x) * 1.01\n")
    change(project / "suites/unit/chain.yaml", "reference: k:chain", "reference: k:other")
    assert bisected(project, code=1)[0]["status"] == "insufficient"


def test_json_on_stdout_leaves_the_text_to_stderr(project):
    done = precreg(project, "bisect", "chain", "--precision", "--json", "-")
    assert set(json.loads(done.stdout)["kept"]) == SUMS
    assert "keep the bound" in done.stderr


def test_an_expected_failure_is_bisected_as_any_other(project):
    change(project / "suites/unit/chain.yaml", "seeds: 2", "seeds: 2\nexpect: fail\nreason: the sums are cut off")
    assert set(bisected(project)[0]["kept"]) == SUMS


@pytest.mark.parametrize(
    ("arguments", "slug", "expected"),
    [
        (["--bound", "max_rel_eror<=1"], "bad-value", 'but got max_rel_eror; did you mean "max_rel_error"?'),
        (["--bound", "max_rel_error"], "bad-value", "such as 'max_rel_error<=1e-3', but got bound=max_rel_error"),
        (["--bound", "max_rel_error<=x"], "bad-value", "but got bound=max_rel_error<=x"),
        (["--bound", "max_rel_error>=1"], "bad-value", "expected max_rel_error<=LIMIT but got max_rel_error>=1"),
        (["--bound", "match_ratio<=1"], "bad-value", "expected match_ratio>=LIMIT but got match_ratio<=1"),
        (["--bound", "max_rel_error<=nan"], "bad-value", "but got max_rel_error=nan"),
        (["--metric", "max_rel_error"], "bad-value", "expected --metric and --limit but got one of them"),
        (["--limit", "1"], "bad-value", "expected --metric and --limit but got one of them"),
        (["--bound", "a<=1", "--metric", "a", "--limit", "1"], "bad-value", "but got both"),
    ],
)
def test_a_bound_without_sense(project, arguments, slug, expected):
    done = precreg(project, "bisect", "chain", "--precision", *arguments)
    assert (done.returncode, f"error[{slug}]: " in done.stderr, expected in done.stderr) == (2, True, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("before", "after", "slug", "expected"),
    [
        ("device: mlu370\n", "", "untraceable", "but unit/chain/default has the kind python"),
        ("subject: k:chain", "subject: k:missing", "missing-function", "function=missing"),
        ("seeds: 2", "seeds: 2\nrequires: [absent_package]", "untraceable", "needs absent_package"),
    ],
)
def test_a_case_that_cannot_be_bisected(project, before, after, slug, expected):
    change(project / "suites/unit/chain.yaml", before, after)
    done = precreg(project, "bisect", "chain", "--precision")
    assert (done.returncode, f"error[{slug}]: " in done.stderr, expected in done.stderr) == (2, True, True), done.stderr


@pytest.mark.parametrize(
    ("body", "slug", "expected"),
    [
        ("    raise ValueError('no kernel')\n", "trace-failed", "ValueError: no kernel"),
        ("    return None\n", "trace-failed", "to return arrays but: "),
        ("    import sys\n    sys.exit(3)\n", "trace-failed", "to return arrays but: "),
    ],
)
def test_a_subject_that_fails(project, body, slug, expected):
    (project / "suites/unit/k.py").write_text(KERNEL + f"\n\ndef broken(x):\n{body}")
    change(project / "suites/unit/chain.yaml", "subject: k:chain", "subject: k:broken")
    done = precreg(project, "bisect", "chain", "--precision")
    assert (done.returncode, f"error[{slug}]: " in done.stderr, expected in done.stderr) == (2, True, True), done.stderr


def test_a_case_that_does_not_repeat(project):
    random = "\n\ndef noisy(x):\n    return chain(x) * (1 + 1e-3 * np.random.default_rng().random())\n"
    (project / "suites/unit/k.py").write_text(KERNEL + random)
    change(project / "suites/unit/chain.yaml", "subject: k:chain", "subject: k:noisy")
    change(project / "suites/unit/chain.yaml", "seeds: 2", "seeds: 2\nrepeats: 3")
    done = precreg(project, "bisect", "chain", "--precision")
    assert done.returncode == 2
    assert "error[untraceable]: expected a case that repeats its bits but unit/chain/default does not" in done.stderr


def test_several_cases_and_no_method(project):
    (project / "suites/unit/other.yaml").write_text(SUITE.replace("suite: chain", "suite: chains"))
    assert "error[unknown-case]" in precreg(project, "bisect", "chain", "--precision").stderr
    expected = "expected one of --good REVISION, --package, --variable or --flags, and --precision"
    assert expected in precreg(project, "bisect", "unit/chain/*").stderr
