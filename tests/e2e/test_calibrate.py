"""`precreg calibrate` in a project whose noise is known beforehand."""

import json

import pytest
import yaml

from tests.e2e.command import precreg, with_suite

KERNELS = '''import numpy as np


def cubed(x):
    """Round twice: each result is off by less than 2^-23 of itself."""
    return x * x * x


def same(x):
    return x


def total(x):
    return x.sum(-1)


def fragile(x):
    if x[0] > 0:
        raise ValueError("too large")
    return x
'''
HEAD = "suite: {0}\nsubject: k:{0}\nreference: k:{1}\n"
INPUT = "inputs: {x: {shape: $shape, dtype: float32, uniform: {low: 1, high: 2}}}\n"
SUITES = {
    "cubed": HEAD.format("cubed", "cubed")
    + "matrix: {shape: [[400], [50], [600]]}\n"
    + INPUT
    + "tolerance: {rtol: 3e-7, atol: 0}\n"
    + "cases:\n"
    + "  - {match: '50', tolerance: {rtol: 9e-8}}\n"
    + "  - {match: '600', tolerance: {rtol: 1e-3}}\n",
    "total": HEAD.format("total", "total")
    + "matrix: {dtype: [float16, float32]}\n"
    + "inputs: {x: {shape: [64, 100], dtype: $dtype, uniform: {}}}\nseeds: 2\n",
    "whole": HEAD.format("same", "same").replace("same", "whole", 1)
    + "inputs: {x: {shape: [8], dtype: int32, integers: {low: 0, high: 9}}}\ntolerance: {rtol: 0, atol: 0}\n",
    "fragile": HEAD.format("fragile", "same") + "inputs: {x: {shape: [8], dtype: float32, normal: {}}}\n",
    "fixed": HEAD.format("same", "same").replace("same", "fixed", 1)
    + "inputs: {x: {shape: [8], dtype: float32, constant: {value: 1}}}\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate")
    for name, suite in SUITES.items():
        with_suite(folder, suite, KERNELS, name)
    return folder


@pytest.fixture(scope="module")
def document(project):
    """What is found of the whole project, as JSON."""
    done = precreg(project, "calibrate", "--jobs", "0", "--json")
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


def bounds_of(document, case):
    (found,) = (each for each in document["cases"] if each["case"] == case)
    return {bound["bound"]: bound for bound in found["bounds"]}


@pytest.mark.parametrize(("size", "quality"), [("400", "sound"), ("50", "flaky"), ("600", "vacuous")])
def test_a_bound_is_worth_what_its_noise_makes_of_it(document, size, quality):
    found = bounds_of(document, f"unit/cubed/{size}")["elements"]
    assert found["quality"] == quality
    assert 2**-24 < found["noise"]["largest"] * found["limits"]["rtol"] < 2**-23
    assert found["noise"]["n"] == 17
    assert found["source"]["file"] == "suites/unit/cubed.yaml"


def test_what_is_proposed_is_twice_the_noise_or_more(document):
    found = bounds_of(document, "unit/cubed/50")["elements"]
    proposed = found["proposal"]["rtol"] / found["limits"]["rtol"]
    assert found["estimate"] >= found["noise"]["largest"]
    assert 2 * found["estimate"] <= proposed < 2.1 * found["estimate"]
    assert found["proposal"]["atol"] == 0


def test_sums_are_reordered_and_stay_below_their_bound(document):
    single, half = (each for each in document["cases"] if each["suite"] == "total")
    assert {case["name"]: case["sums"][0]["analytic"]["terms"] for case in (single, half)} == {
        "float16": 100,
        "float32": 100,
    }
    assert {case["name"]: case["runs"]["reordered"] > 0 for case in (single, half)} == {
        "float16": False,
        "float32": True,
    }
    assert all(0 < case["sums"][0]["analytic"]["ratio"] < 1 for case in (single, half))


def test_integers_are_exact_and_their_zero_stays(document):
    (elements,) = bounds_of(document, "unit/whole/default").values()
    assert (elements["quality"], elements["proposal"], elements["limit"]) == ("sound", {}, 0)


def test_replicates_that_fail_are_named_and_what_cannot_move_is_left_out(document):
    notes = [note for case in document["cases"] if case["suite"] == "fragile" for note in case["notes"]]
    left_out = {each["case"]: each["why"] for each in document["left_out"]}
    assert any("ValueError: too large" in note for note in [*notes, *left_out.values()])
    assert left_out["unit/fixed/default"] == "no replicate differs from its own run"


def test_two_processes_and_a_selection_say_the_same(project, document):
    again = precreg(project, "calibrate", "--jobs", "2", "--json")
    assert json.loads(again.stdout) == document
    one = json.loads(precreg(project, "calibrate", "unit/cubed/50", "--jobs", "0", "--json").stdout)
    assert one["cases"] == [case for case in document["cases"] if case["case"] == "unit/cubed/50"]


def test_more_slack_and_more_replicates_change_what_they_say(project):
    options = ("--slack", "4", "--replicates", "3", "--vacuous", "1e6", "--json", "--jobs", "0")
    found = json.loads(precreg(project, "calibrate", "unit/cubed/600", *options).stdout)
    assert found["cases"][0]["runs"] == {"own": 1, "reseeded": 3, "last-bit": 3, "reordered": 0}
    (bound,) = found["cases"][0]["bounds"]
    assert bound["quality"] == "sound"
    assert bound["proposal"]["rtol"] / bound["limits"]["rtol"] >= 4 * bound["noise"]["largest"]


def test_what_is_proposed_can_be_pasted(project, tmp_path):
    with_suite(tmp_path, SUITES["cubed"], KERNELS, "cubed")
    text = precreg(project, "calibrate", "--suite", "cubed", "--yaml", "--jobs", "0").stdout
    assert {entry["match"] for entry in yaml.safe_load(text)["cases"]} == {"400", "50", "600"}
    (tmp_path / "suites" / "unit" / "cubed.yaml").write_text(SUITES["cubed"].partition("tolerance:")[0] + text)
    done = precreg(tmp_path, "calibrate", "--jobs", "0", "--json")
    assert done.returncode == 0, done.stderr
    assert {bounds_of(json.loads(done.stdout), f"unit/cubed/{k}")["elements"]["quality"] for k in (400, 50, 600)} == {
        "sound"
    }


def test_the_table_for_people_and_that_of_what_is_not_sound(project):
    shown = precreg(project, "calibrate", "--suite", "cubed", "--jobs", "0").stdout
    assert "runs of 5 seeds: its own, 8 reseeded, 8 last-bit, 0 reordered" in shown
    assert "no analytic bound: no sum over axes, running sum or product of matrices was seen" in shown
    assert "rtol: 0.001, atol: 0 of out is vacuous: it is " in shown
    assert "bounds of 3 cases: 1 flaky, 1 vacuous, 1 sound" in shown
    unsound = precreg(project, "calibrate", "--suite", "cubed", "--unsound", "--jobs", "0").stdout
    assert "unit/cubed/400" not in unsound
    assert unsound.endswith("bounds of 3 cases: 1 flaky, 1 vacuous, 1 sound\n")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("unit/cubed/400", "unit/cubed/600"), 0, ""),
        (("unit/fixed",), 2, "error[nothing-to-calibrate]"),
        (("--slack", "nan"), 2, "nan is not a finite number"),
        (("--json", "--yaml"), 2, "exclude each other"),
    ],
)
def test_exit_codes(project, arguments, code, says):
    done = precreg(project, "calibrate", "--jobs", "0", *arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_is_written(project, document):
    # The index of suites is a cache, which git ignores.
    caches = {"__pycache__", ".precreg"}
    written = {path.name for path in project.rglob("*") if path.is_file() and caches.isdisjoint(path.parts)}
    assert written == {"k.py", *(f"{name}.yaml" for name in SUITES)}
