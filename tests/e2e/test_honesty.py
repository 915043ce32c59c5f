"""A run says which losses it could not see: in its last lines, its reports and its exit line, with what helps."""

import json
import re
from xml.etree import ElementTree

from tests.e2e.command import change, forked_pytest, git, precreg, repository, with_suite
from tests.e2e.test_environments import ELSEWHERE
from tests.e2e.test_environments import KERNEL as SQUARE
from tests.e2e.test_environments import SUITE as SQUARES
from tests.e2e.test_escalation import EQUAL as EQUAL_SUBJECT
from tests.e2e.test_escalation import KERNEL as SOFTMAX
from tests.e2e.test_escalation import SUBJECT

SUITE = """\
suite: s
subject: k:softmax
reference: k:exact
matrix: {rows: [2, 5]}
inputs:
  x: {shape: [$rows, 40], dtype: float32, normal: {mean: 0, std: 1}}
seeds: 1
"""
SCALAR = SUITE.replace("suite: s\n", "suite: scalar\n").replace("softmax", "total").replace("exact", "exact_total")
SCALAR += "tolerance: {rtol: 1e-4}\n"
KERNEL = f"""\
{SOFTMAX}

def total(x):
    return np.exp(x).sum(dtype=x.dtype) * x.dtype.type(1 + 1e-6)


def exact_total(x):
    return np.exp(x).sum()
"""
EQUAL = (SUBJECT, EQUAL_SUBJECT)
OTHER_TOTAL = ("(1 + 1e-6)", "(1 + 3e-6)")
ACCEPT = ("baseline", "accept", "*", "--reason", "first")


def accepted(folder, *suites):
    """Make a repository whose cases were accepted here, and return the last command, which accepted them."""
    for name, suite in suites:
        with_suite(folder, suite, KERNEL, name)
    repository(folder)
    precreg(folder, "run")
    done = precreg(folder, *ACCEPT)
    assert done.returncode == 0, done.stderr
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "accepted")
    return done


def kernel(folder):
    return folder / "suites/unit/k.py"


def endings(done):
    """Return the lines on what was not seen, and the exit line."""
    lines = done.stdout.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("not seen")), len(lines) - 1)
    return [line.strip() for line in lines[first:]]


def outputs(folder):
    suites = ElementTree.parse(folder / "reports/junit.xml").getroot()
    found = {test.get("name"): test.findtext("system-out") for test in suites.iter("testcase")}
    return {each.get("name"): each.get("value") for each in suites.iter("property")}, found


def test_wider_limits_of_another_environment_are_counted_everywhere(tmp_path):
    folder = repository(with_suite(tmp_path / "project", SQUARES, SQUARE))
    precreg(folder, "run")
    precreg(folder, *ACCEPT)
    change(kernel(folder), "SCALE = 1.0", "SCALE = 1.2")
    done = precreg(folder, "run", "--pair", "off", **ELSEWHERE)
    assert done.returncode == 0, done.stdout
    assert endings(done) == [
        "not seen  2 cases judged with the wider limits of another environment: "
        "bits changed, and no other version of the code ran here",
        "unit/s/n=64, unit/s/n=96",
        "compare with the accepted version here: precreg run --pair auto",
        "exit 0: no loss found against the baselines; 2 cases judged with the wider limits of another environment",
    ]
    summary = (folder / "reports/summary.md").read_text()
    assert "- **2 cases judged with the wider limits of another environment: " in summary
    assert "precreg run --pair auto" in summary
    page = (folder / "reports/report.html").read_text()
    assert "No loss found against the baselines; 2 cases judged with the wider limits" in page.partition("</header>")[0]
    assert "Compare with the accepted version here: precreg run --pair auto" in page
    properties, found = outputs(folder)
    assert properties == {"precreg.wider_limits": "2"}
    assert all("judged with the wider limits of another environment" in text for text in found.values())
    # A report that is made from the record alone says the same.
    again = precreg(folder, "report", "reports", "--output", "again")
    assert endings(again) == endings(done)
    strict = precreg(folder, "report", "reports", "--output", "strict", "--junit-dialect", "strict", "--lang", "zh")
    assert strict.returncode == 0
    assert "<property" not in (folder / "strict/junit.xml").read_text()
    assert '<html lang="zh-Hans">' in (folder / "strict/report.html").read_text()


def test_the_same_bits_elsewhere_hide_nothing(tmp_path):
    folder = repository(with_suite(tmp_path / "project", SQUARES, SQUARE))
    precreg(folder, "run")
    precreg(folder, *ACCEPT)
    done = precreg(folder, "run", "--pair", "off", **ELSEWHERE)
    assert endings(done) == ["exit 0: nothing regressed against the baselines"]
    assert outputs(folder)[0] == {}


def test_a_scalar_is_judged_by_a_ratio_here_and_has_no_power_elsewhere(tmp_path):
    folder = tmp_path / "project"
    accepting = accepted(folder, ("s", SUITE), ("scalar", SCALAR))
    assert accepting.stderr.splitlines()[-3:] == [
        "warning: 2 of 4 cases without power: no statistic sees a loss in an output",
        "  unit/scalar/rows=2, unit/scalar/rows=5",
        "  set more seeds (5 or more) and accept again, or let runs pair (--pair auto); "
        "limits: precreg power unit/scalar/rows=2",
    ]
    change(kernel(folder), *OTHER_TOTAL)
    done = precreg(folder, "run", "--pair", "off")
    assert done.returncode == 0, done.stdout
    first, ids, advice, last = endings(done)
    assert first.startswith("not seen  2 cases judged by a ratio alone: ")
    assert ids == "unit/scalar/rows=2, unit/scalar/rows=5"
    assert advice.startswith("compare with the accepted version here: precreg run --pair auto; or set more seeds")
    assert last == "exit 0: no loss found against the baselines; 2 cases judged by a ratio alone"
    done = precreg(folder, "run", "--pair", "off", **ELSEWHERE)
    assert done.returncode == 0, done.stdout
    assert endings(done)[-1] == "exit 0: no loss found against the baselines; 2 cases without power"
    assert outputs(folder)[0] == {"precreg.no_power": "2"}
    shown = precreg(folder, "power", "scalar/rows=2")
    assert "mean_abs_error beyond 320 times; mean_ulp beyond 320 times" in shown.stdout
    assert "not covered by the figures" not in shown.stdout


def test_an_unclear_case_is_counted_and_a_cleared_one_is_not(tmp_path):
    folder = tmp_path / "project"
    accepted(folder, ("s", SUITE))
    change(kernel(folder), *EQUAL)
    done = precreg(folder, "run", "--jobs", "1", "--no-ci", "--max-seeds", "5", "rows=5")
    assert done.returncode == 0, done.stdout + done.stderr
    first, ids, advice, last = endings(done)
    assert first == "not seen  1 case not clear: fresh inputs neither proved nor excluded a loss"
    assert ids == "unit/s/rows=5"
    assert advice == "allow more: precreg run --max-seeds 40960 --pair-seconds 120 unit/s/rows=5"
    assert last == "exit 0: no loss found against the baselines; 1 case not clear"
    strict = precreg(folder, "run", "--jobs", "1", "--no-ci", "--max-seeds", "5", "--strict", "rows=5")
    assert strict.returncode == 2
    assert endings(strict)[-1] == "exit 2: 1 case could not be judged: 1 not clear"
    done = precreg(folder, "run", "--jobs", "1", "--no-ci", "rows=5")
    reasons = {
        each["verdict"]["reason"] for each in json.loads((folder / "reports/record.json").read_text())["results"]
    }
    expected = "nothing regressed" if reasons == {"within_tolerance"} else "no loss found"
    assert endings(done)[-1].startswith(f"exit 0: {expected} against the baselines")


def test_power_says_what_its_figures_do_not_cover(tmp_path):
    folder = tmp_path / "project"
    assert "warning" not in accepted(folder, ("s", SUITE)).stderr
    text = precreg(folder, "power").stdout
    kinds = json.loads(precreg(folder, "power", "--json").stdout)["not_covered"]
    assert len(kinds) >= 5
    assert text.endswith("".join(f"  {why}\n" for why in kinds.values()))
    assert max(map(len, kinds.values())) < 98


def test_a_shallow_clone_is_told_what_to_fetch(tmp_path):
    folder = tmp_path / "project"
    accepted(folder, ("s", SUITE), ("scalar", SCALAR))
    git(folder, "commit", "-q", "--allow-empty", "-m", "later")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{folder}", "clone")
    clone = tmp_path / "clone"
    change(kernel(clone), *OTHER_TOTAL)
    done = precreg(clone, "run", "--jobs", "1", "--no-ci")
    advice = endings(done)[2]
    assert re.match(r"fetch the whole history \(GIT_DEPTH: 0, or git fetch --unshallow\)", advice), done.stdout


def test_accepting_a_test_defined_scalar_warns_by_its_samples(tmp_path):
    folder = tmp_path / "project"
    accepted(folder, ("s", SUITE))
    (folder / "test_k.py").write_text(
        "import numpy as np\n\n\n"
        "def test_scalar(precision):\n    precision.check(np.float32(0.1), reference=0.1)\n\n\n"
        "def test_rows(precision):\n    x = np.linspace(1, 2, 640).reshape(16, 40)\n"
        "    precision.check(np.sqrt(x.astype(np.float32)), reference=np.sqrt(x))\n"
    )
    done = forked_pytest(folder, "test_k.py")
    assert "2 proposed" in done.stdout, done.stdout + done.stderr
    accepting = precreg(folder, *ACCEPT)
    assert accepting.returncode == 0, accepting.stderr
    first, ids, _ = accepting.stderr.splitlines()[-3:]
    assert first == "warning: 1 of 2 cases without power: no statistic sees a loss in an output"
    assert "test_scalar" in ids
