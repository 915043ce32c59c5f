"""What the gate is for, on the shipped suites: a change in a kernel, the command, its exit code and its reports."""

import json
import platform
import re
import shutil
from fnmatch import fnmatch
from importlib.util import find_spec
from xml.etree import ElementTree

import pytest

from precreg.suite.expand import load_cases
from precreg.suite.load import load_suites
from tests.e2e.command import ROOT, change, copy_of, git, precreg, started
from tests.report.page_data import rows_of

SUITES = ("suites/tolerances.yaml", "suites/devices", "suites/unit", "suites/networks", "baselines")
PROMISE = "same bits on every CPU"
ADAM = "unit/apply_adam/float32-768x768-standard"
# They take 27 of the 49 s of all cases. No suite among them promises its bits, and each has shorter cases that run.
LONG_CASES = (
    *("model/small_transformer/bfloat16*", "model/small_transformer/float32"),
    *("model/small_network/half", "model/small_network/mixed"),
    *("model/mlu370_training/mlu370-*", "model/noisy_updates/small-*"),
    *("unit/error_growth/*-matmul-depth=1024", "unit/operand_formats/*-int8_*"),
)


@pytest.fixture
def project(tmp_path):
    return copy_of(ROOT, tmp_path, *SUITES)


def result_of(project, case):
    record = json.loads((project / "reports" / "record.json").read_text())
    return next(result for result in record["results"] if result["id"] == case)


def junit_case(project, case):
    tier, suite, _ = case.split("/")
    root = ElementTree.parse(project / "reports" / "junit.xml").getroot()
    return root.find(f"./testsuite[@name='precreg.{tier}']/testcase[@classname='{tier}.{suite}'][@name='{case}']")


def swap_the_order(project):
    """Multiply before dividing: equal on paper."""
    kernel = project / "suites/networks/adam.py"
    change(kernel, "return rate * (m / denominator)", "return (rate * m) / denominator")


def test_adams_swapped_order_is_caught_by_the_golden_and_by_nothing_else(project):
    swap_the_order(project)
    done = precreg(project, "run", "apply_adam")
    assert done.returncode == 1, done.stdout
    verdict = result_of(project, ADAM)["verdict"]
    finding = verdict["findings"][0]
    assert (verdict["status"], verdict["reason"]) == ("failed", "regressed")
    assert (finding["metric"], finding["output"], finding["baseline"]) == ("match_ratio", "w", 1.0)
    assert 0.9999 < finding["current"] < 0.99996
    for case in ("float32-256x256-standard", "float32-3x5x63-standard"):
        against_reference = result_of(project, f"unit/apply_adam_reference/{case}")["verdict"]
        assert against_reference["status"] == "passed", "against an exact reference both orders are equally good"


def html_row(project, case):
    """Return (reason, metric, current, baseline) of a case in the table of the HTML report."""
    rows = rows_of((project / "reports" / "report.html").read_text())
    row = next(row for row in rows if row["id"] == case)
    return tuple(row[name] for name in ("reason", "metric", "current", "baseline"))


def markdown_row(project, case):
    """Return (reason, metric, current, baseline, ratio) of a case in the table of the Markdown summary."""
    lines = (project / "reports" / "summary.md").read_text().splitlines()
    cells = next([cell.strip() for cell in line.strip("|").split("|")] for line in lines if f"`{case}`" in line)
    return (cells[2].removesuffix(" (hard)"), *cells[4:8])


def text_row(text, case):
    """Return (reason, metric, current, baseline, ratio) of a case in the terminal's text, or in a JUnit failure's."""
    of_case = text[text.index(case) :]
    reason = re.search(r"\b(regressed|out_of_tolerance)\b", of_case)[1]
    header, row = re.search(r"^ *(output .*)\n *(\w.*)$", of_case, re.MULTILINE).groups()
    cells = dict(zip(header.split(), row.split(), strict=False))
    return (reason, *(cells[name] for name in ("metric", "current", "baseline", "ratio")))


def test_terminal_junit_html_and_markdown_say_the_same(project):
    swap_the_order(project)
    done = precreg(project, "run", "--suite", "apply_adam")
    finding = result_of(project, ADAM)["verdict"]["findings"][0]
    lost = f"{finding['current']:.7g}"
    said = ("regressed", "match_ratio", lost, "1", lost)
    assert text_row(done.stdout, ADAM) == said
    assert text_row(junit_case(project, ADAM).find("failure").text, ADAM) == said
    assert html_row(project, ADAM) == said[:-1]
    assert markdown_row(project, ADAM) == said


def test_a_narrow_accumulator_is_a_regression_inside_its_tolerance(project):
    change(project / "suites/unit/kernels/softmax.py", "ACCUMULATOR = np.float32", "ACCUMULATOR = np.float16")
    done = precreg(project, "run", "--suite", "softmax", "float16-4x4096")
    assert done.returncode == 1, done.stdout
    result = result_of(project, "unit/softmax/float16-4x4096")
    assert result["verdict"]["reason"] == "regressed"
    assert all(comparison["metrics"]["match_ratio"] == 1.0 for comparison in result["outcome"]["comparisons"])
    assert result["verdict"]["findings"][0]["ratio"] > 1.2
    assert "within tolerance" in done.stdout


def test_the_less_accurate_release_is_flagged_against_the_better_ones_baseline(project):
    precreg(project, "run", "--suite", "numpy_arctan2")
    record = json.loads((project / "reports" / "record.json").read_text())
    reasons = {result["name"].split("-")[0]: result["verdict"] for result in record["results"]}
    assert reasons["1.23.5"]["reason"] == "identical"
    assert (reasons["1.24.4"]["reason"], reasons["1.24.4"]["underlying"]) == ("expected_failure", "regressed")


def test_a_new_release_in_place_of_the_accepted_one_fails(project):
    outputs = project / "suites/unit/recorded/arctan2/outputs"
    shutil.rmtree(outputs / "1.23.5")
    shutil.copytree(outputs / "1.24.4", outputs / "1.23.5")
    done = precreg(project, "run", "--suite", "numpy_arctan2", "1.23.5")
    assert done.returncode == 1
    assert "mean_ulp" in done.stdout


def test_the_shipped_suites_pass_against_the_shipped_baselines_in_ci(shipped):
    assert shipped.returncode == 0, shipped.stdout
    record = shipped.record
    assert {result["tier"] for result in record["results"]} == {"unit", "integration", "model"}
    assert {result["id"] for result in record["results"] if result["verdict"]["status"] != "passed"} == without_extras()
    assert (record["orphans"], record["warnings"]) == ([], [])
    assert git(shipped.project, "status", "--porcelain") == "", "a run writes nothing that git sees"


def without_extras():
    """Return the ids of the shipped cases that need a package which is not installed here: all others run."""
    return {case.id for case in load_cases(ROOT) if not all(map(find_spec, case.requires))}


def promises_its_bits(suite):
    """Tell whether the module of a suite's subject promises the same bits on every processor."""
    if not isinstance(suite.file.subject, str):
        return False
    module = suite.file.subject.partition(":")[0].replace(".", "/")
    files = [ROOT / folder / f"{module}.py" for folder in (suite.directory, "suites")]
    return PROMISE in " ".join(next(file for file in files if file.is_file()).read_text().split())


def test_the_shipped_suites_pass_with_other_bits_and_promised_ones_are_kept(tmp_path):
    """Without the vector units numpy computes other bits, as on another processor; no case is flagged for it."""
    project = copy_of(ROOT, tmp_path)
    cases = [case.id for case in load_cases(ROOT) if not any(fnmatch(case.id, pattern) for pattern in LONG_CASES)]
    machine = platform.machine().lower()
    features = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR AVX2 FMA3 X86_V3 X86_V4"
    done = started(project, "run", *cases, CI="true", NPY_DISABLE_CPU_FEATURES=features, OPENBLAS_CORETYPE="Prescott")
    assert done.returncode == 0, done.stdout
    results = json.loads((project / "reports" / "record.json").read_text())["results"]
    if machine in ("x86_64", "amd64"):
        reasons = {result["verdict"]["reason"] for result in results}
        assert "within_tolerance" in reasons, "without vector units some bits must be other than the baselines'"
        changes = {result["baseline"]["change"] for result in results if result["baseline"]}
        # OpenBLAS names the core whose kernels serve, which need not be the one that was asked for.
        assert all("cpu_features without" in change and "kernels " in change for change in changes), changes
    suites = load_suites(ROOT)
    promised = {suite.id for suite in suites if promises_its_bits(suite)}
    assert {f"{result['tier']}/{result['suite']}" for result in results} == {suite.id for suite in suites}
    assert not [case for case in LONG_CASES if case.rpartition("/")[0] in promised]
    assert {"unit/sum", "unit/variance", "unit/matmul", "unit/apply_adam"} <= promised
    kept = {
        result["id"]: result["verdict"]["reason"]
        for result in results
        if f"{result['tier']}/{result['suite']}" in promised
    }
    kept = {id: reason for id, reason in kept.items() if id not in without_extras()}
    assert {id for id, reason in kept.items() if reason not in ("identical", "expected_failure")} == set()
