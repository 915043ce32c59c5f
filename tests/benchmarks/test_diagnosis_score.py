"""The score of a diagnosis: right first, in the first three, wrong or silent; and its projects and tables."""

import re
import subprocess

import msgspec
import pytest

from benchmarks.diagnosis import old_advice, score
from benchmarks.diagnosis.advice import KINDS_OF_ADVICE, advise, kinds_of_advice, score_advice
from benchmarks.diagnosis.execution import good_outputs, planted_outputs
from benchmarks.diagnosis.judge import judge_diagnosis, missing_diagnosis
from benchmarks.diagnosis.kinds import KIND_OF_REWRITE
from benchmarks.diagnosis.plant import good_source, planted_source
from benchmarks.diagnosis.project import CommandError, Project, read_diagnosis
from benchmarks.diagnosis.table import score_table
from benchmarks.diagnosis.tables import plants
from precreg.types import Diagnosis
from tests.e2e.command import git, precreg

PLANTS = plants()
GOOD_LINE = "w = w - rate * (m / (np.sqrt(v) + f32(eps)))"
BAD_LINE = "w = w - (rate * m) / (np.sqrt(v) + f32(eps))"
OTHER_LINE = "m = f32(beta1) * m + f32(1 - beta1) * g"
EVIDENCE = {"elements": 60000, "reproduced": 60000, "differing": 23, "explained": 23}


@pytest.fixture(autouse=True)
def rewrites(monkeypatch):
    """Give rewrites with names of these tests a kind."""
    monkeypatch.setitem(KIND_OF_REWRITE, "test swap", frozenset({"operation_order"}))
    monkeypatch.setitem(KIND_OF_REWRITE, "test round", frozenset({"intermediate_cast", "input_cast"}))
    monkeypatch.setitem(KIND_OF_REWRITE, "test epsilon", frozenset({"epsilon"}))
    monkeypatch.setitem(KIND_OF_REWRITE, "test sum", frozenset({"sum_order"}))


def cause(rewrite="test swap", line=GOOD_LINE, target="operation", name="divide"):
    site = {"file": "suites/unit/adam.py", "line": 15, "code": line}
    place = {"target": target, "name": name, "site": site}
    return {"rewrite": rewrite, "options": {}, "place": place, "base": "accepted", "evidence": EVIDENCE}


def diagnosis(status, causes=(), runners_up=(), fingerprints=()):
    """Read a diagnosis as the command prints it."""
    fields = {"status": status, "causes": [*causes], "runners_up": [*runners_up], "fingerprints": [*fingerprints]}
    return msgspec.json.decode(msgspec.json.encode({"case": "unit/adam/default", **fields}), type=Diagnosis)


def judged(plant, *arguments, **fields):
    return judge_diagnosis(PLANTS[plant], "golden", diagnosis(*arguments, **fields))


@pytest.mark.parametrize("line", [GOOD_LINE, BAD_LINE, f"    {GOOD_LINE}"])
def test_a_cause_is_right_at_the_line_of_either_version(line):
    assert judged("adam/multiply_first", "found", [cause(line=line)]).outcome == "first"


@pytest.mark.parametrize(
    "wrong",
    [
        cause(line=OTHER_LINE),
        cause(rewrite="test round"),
        cause(rewrite="a rewrite that nobody named"),
        cause(target="input", name="g"),
        cause(target="operations", line=""),
    ],
)
def test_a_confident_answer_with_another_kind_or_place_is_wrong(wrong):
    assert judged("adam/multiply_first", "found", [wrong]).outcome == "wrong"
    assert judged("adam/multiply_first", "several", [wrong, wrong]).outcome == "wrong"
    assert judged("adam/multiply_first", "partial", [wrong]).outcome == "silent"
    assert judged("adam/multiply_first", "found", [wrong], [cause()]).outcome == "first_three"


def test_an_answer_after_the_third_does_not_count():
    wrong = cause(line=OTHER_LINE)
    assert judged("adam/multiply_first", "found", [wrong], [wrong, cause()]).outcome == "first_three"
    assert judged("adam/multiply_first", "found", [wrong], [wrong, wrong, cause()]).outcome == "wrong"


@pytest.mark.parametrize("status", ["unknown", "passed", "failed", "partial", "found"])
def test_no_answer_is_silence(status):
    assert judged("adam/multiply_first", status).outcome == "silent"


def test_a_right_cause_that_explains_a_part_is_right():
    result = judged("adam/multiply_first", "partial", [cause()])
    assert (result.outcome, result.status) == ("first", "partial")


def test_an_input_is_named_by_its_name():
    place = {"target": "input", "line": ""}
    right = [cause("test round", name="x", **place)]
    assert judged("gelu/input_float16", "found", right).outcome == "first"
    assert judged("gelu/input_float16", "found", [cause("test round", name="y", **place)]).outcome == "wrong"


def test_near_kinds_are_right_at_the_same_place():
    line = "v = f32(beta2) * v + f32(1 - beta2) * g * g"
    assert judged("adam/one_gradient_float16", "found", [cause("test round", line)]).outcome == "first"


def test_two_causes_count_how_many_are_named():
    swap, epsilon = cause(), cause("test round", "v = v.astype(bfloat16).astype(f32)")
    pair = "adam/multiply_first+second_moment_bfloat16"
    assert judged(pair, "several", [epsilon, swap]).named == 2
    one = judged(pair, "partial", [swap])
    assert (one.named, one.outcome) == (1, "first")
    assert judged(pair, "found", [cause(line=OTHER_LINE)]).outcome == "wrong"


@pytest.mark.parametrize(("certainty", "hinted"), [(0.9, True), (0.2, False)])
def test_a_fingerprint_hints_and_is_no_right_cause(certainty, hinted):
    shape = {"kind": "one_channel", "output": "out", "certainty": certainty}
    result = judged("conv1d/bias_misses_channel", "unknown", fingerprints=[shape])
    assert (result.outcome, result.hinted) == ("silent", hinted)


def test_answers_are_described_with_the_right_parts():
    (answer,) = judged("adam/multiply_first", "found", [cause(line=OTHER_LINE)]).answers
    assert (answer.kind_is_right, answer.place_is_right) == (True, False)
    assert answer.place == f"operation divide at line 15: {OTHER_LINE}"


def test_the_table_counts_by_half_oracle_and_kind_and_keeps_harmless_orders_apart():
    harmless = [name for name, planted in PLANTS.items() if planted.harmless]
    scores = [
        judged("adam/multiply_first", "found", [cause()]),
        judged("adam/square_first", "found", [cause(line=OTHER_LINE)]),
        judged("gelu/input_float16", "unknown"),
        missing_diagnosis(PLANTS["fir/fused"], "golden", "no such command"),
        judged(harmless[0], "unknown"),
        judged(harmless[1], "found", [cause("test round")]),
    ]
    shown = score_table(scores)
    assert "| all | 4 | 1 (25 %) | 0 (0 %) | 0 (0 %) | 1 (25 %) | 1 (25 %) | 1 (25 %) |" in shown
    assert "| held out | 2 | 0 (0 %) | 0 (0 %) | 0 (0 %) | 0 (0 %) | 1 (50 %) | 1 (50 %) |" in shown
    assert "| operation order | 2 | 1 | 0 | 0 | 1 | 0 | 0 |" in shown
    assert "| harmless order of a sum | 2 | 0 | 0 | 0 | 1 | 1 | 0 |" in shown
    assert "1 of 2 were named as such, or passed in silence" in shown
    assert len({line.count("|") for line in shown.splitlines() if line.startswith("|")}) == 1


def test_a_command_without_a_diagnosis_is_an_error_that_says_why():
    done = subprocess.CompletedProcess(["precreg"], 2, stdout="", stderr="expected a case")
    with pytest.raises(CommandError, match=r"exit 2.*expected a case"):
        read_diagnosis(done)
    printed = msgspec.json.encode(diagnosis("found", [cause()])).decode()
    assert read_diagnosis(subprocess.CompletedProcess(["precreg"], 1, printed, "")).causes[0].rewrite == "test swap"


def test_stored_diagnoses_are_judged_anew(tmp_path, capsys, monkeypatch):
    stored = tmp_path / "scores.json"
    stored.write_bytes(msgspec.json.encode([judged("adam/multiply_first", "found", [cause("later")])]))
    assert score.main(["--again", str(stored)]) == 0
    assert "| all | 1 | 0 (0 %) | 0 (0 %) | 0 (0 %) | 1 (100 %)" in capsys.readouterr().out
    monkeypatch.setitem(KIND_OF_REWRITE, "later", frozenset({"operation_order"}))
    assert score.main(["--again", str(stored), "--output", str(tmp_path / "new.json")]) == 0
    assert "| all | 1 | 1 (100 %)" in capsys.readouterr().out
    (again,) = msgspec.json.decode((tmp_path / "new.json").read_bytes())
    assert again["outcome"] == "first"


def test_plants_are_chosen_by_half_kind_and_id(capsys):
    def chosen(*words):
        return {plant.id for plant in score.choose(PLANTS.values(), score.options(words))}

    assert chosen("--only", "adam/multiply_first") >= {"adam/multiply_first"}
    assert {PLANTS[name].half for name in chosen("--half", "held_out")} == {"held_out"}
    assert {PLANTS[name].kind for name in chosen("--kinds", "sign", "two causes")} == {"sign", "two causes"}
    assert len(chosen("--every", "10")) == -(-len(PLANTS) // 10)
    assert score.main(["--only", "no such plant"]) == 2
    assert "no plant matches" in capsys.readouterr().err


@pytest.mark.parametrize(("kernel", "name"), [("layer_norm", "mean_misses_block"), ("adam", "multiply_first")])
def test_a_project_accepts_the_good_version_and_fails_the_planted_one(tmp_path, kernel, name):
    project = Project(tmp_path / "project", kernel, git=True)
    assert precreg(project.folder, "run").returncode == 0
    project.write(planted_source(PLANTS[f"{kernel}/{name}"]))
    project.commit("A change")
    assert precreg(project.folder, "run", "--pair", "off").returncode == 1
    assert git(project.folder, "log", "--format=%s").split("\n")[:2] == ["A change", "The good version"]
    # Reports stay out of the commits, and the baseline is in the first one.
    assert "baselines/" in git(project.folder, "show", "--name-only", "HEAD~1")
    assert not git(project.folder, "status", "--porcelain")


def test_a_project_is_good_again_after_a_diagnosis(tmp_path):
    project = Project(tmp_path / "project", "adam", git=True)
    planted = planted_source(PLANTS["adam/multiply_first"])
    assert project.diagnose(planted, seconds=1).case == project.case
    assert (project.suites / "adam.py").read_text() == good_source("adam")
    assert git(project.folder, "log", "--format=%s").split() == ["The", "good", "version"]


def test_a_project_without_git_has_the_baseline_alone(tmp_path):
    project = Project(tmp_path / "project", "gelu", git=False)
    assert not (project.folder / ".git").exists()
    assert precreg(project.folder, "run").returncode == 0
    assert [*project.folder.glob("baselines/**/gelu.json")]


def test_each_sentence_of_the_advice_names_kinds():
    source = old_advice.__file__
    with open(source, encoding="utf-8") as file:
        text = file.read()
    looks = set(re.findall(r"look (?:for|at)[^\"]*", text))
    assert looks
    assert all(kinds_of_advice(look) for look in looks)
    assert all(part in text for part in KINDS_OF_ADVICE)
    with pytest.raises(ValueError, match="expected a known sentence"):
        kinds_of_advice("buy a new computer")


def test_the_advice_names_a_cast_of_the_output():
    planted = PLANTS["matmul/output_float16"]
    good, bad = good_outputs("matmul"), planted_outputs(planted)
    (sentence,) = advise({"good": good["out"], "bad": bad["out"]})
    assert "rounding to float16" in sentence
    assert score_advice(planted).outcome == "first"
    assert score_advice(PLANTS["fir/fused"]).outcome == "silent"


def test_the_advice_reads_bfloat16():
    (answer,) = score_advice(PLANTS["swiglu/gate_clipped"]).answers
    assert "are nearer to 0 than the reference" in answer.rewrite
    assert not answer.kind_is_right
