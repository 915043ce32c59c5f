import json

from precreg.cli import options as selecting
from precreg.tolerance import THRESHOLDS_VARIABLE
from precreg.types.case import TIERS
from tests.e2e.command import ROOT, precreg


def test_ids_one_a_line_on_stdout_and_the_count_apart():
    done = precreg(ROOT, "list", "--suite", "cast_chain")
    assert done.stdout == "unit/cast_chain/1\nunit/cast_chain/33\n"
    assert done.stderr == "2 cases\n"


def test_selections_narrow_each_other():
    every = precreg(ROOT, "list").stdout.splitlines()
    assert {line.split("/")[0] for line in every} == {"unit", "integration", "model"}
    assert precreg(ROOT, "list", "--level", "model").stdout.splitlines() == [i for i in every if i.startswith("model/")]
    tagged = precreg(ROOT, "list", "--tag", "recorded", "--tier", "unit", "unit_square").stdout.splitlines()
    assert tagged == ["unit/numpy_arctan2/1.23.5-unit_square", "unit/numpy_arctan2/1.24.4-unit_square"]


def test_a_model_is_the_suite_of_that_name():
    suites = precreg(ROOT, "list", "--tier", "model").stdout.split()
    name = suites[0].split("/")[1]
    by_model = precreg(ROOT, "list", "--tier", "model", "--model", name).stdout
    assert by_model == precreg(ROOT, "list", "--suite", f"model/{name}").stdout != ""
    done = precreg(ROOT, "list", "--model", f"{name}x")
    assert (done.returncode, f'did you mean "{name}"' in done.stderr) == (2, True), done.stderr


def test_verbose_says_what_a_case_is():
    shown = precreg(ROOT, "list", "-v", "unit/apply_adam/float32-768x768-swapped").stdout
    assert "kernels.apply_adam:apply_adam against golden kernels.apply_adam_oracles:golden" in shown
    assert "expected to fail: known bad" in shown


def test_json_has_everything():
    cases = json.loads(precreg(ROOT, "list", "--json", "--suite", "softmax").stdout)
    assert {case["tier"] for case in cases} == {"unit"}
    assert cases[0]["inputs"]["x"]["normal"] == {"mean": 0, "std": 1}


def test_the_tiers_that_can_be_asked_for_are_those_there_are():
    assert selecting.TIER_CHOICES == TIERS
    assert selecting._THRESHOLDS == THRESHOLDS_VARIABLE
