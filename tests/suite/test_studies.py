"""`study:` of a suite: what is read, and each mistake with its place."""

import pytest
from jsonschema import Draft202012Validator

from precreg.errors import UserError
from precreg.storage.yaml_source import read_yaml
from precreg.suite.expand import load_cases
from precreg.suite.schema import json_schema
from precreg.types.case import Growth, Note, Study, TradeOff

CHAIN = """\
suite: chain
subject: kernels:chain
reference: kernels:chain
matrix: {depth: [1, 4, 64], form: [none, fp16], size: [1, two]}
inputs: {x: {shape: [$depth], dtype: float32, normal: {}}}
params: {form: $form, size: $size}
"""
KERNELS = {"suites/unit/kernels.py": "def chain(x, form, size):\n    return x\n"}


def read_study(write, study, suite=CHAIN):
    return {repr(case.study): case.study for case in load_cases(write(KERNELS, chain=suite + study))}


def only(studies):
    (study,) = studies.values()
    return study


def test_every_case_of_the_suite_has_its_study(write):
    assert only(read_study(write, "study: {growth: {over: depth}}\n")) == Study("unit/chain", Growth("depth"))
    assert only(read_study(write, "")) is None


def test_a_study_with_everything(write):
    study = """study:
  growth: {over: depth, metric: diff2, fit_to: 4}
  trade_off: {over: form, plain: none, notes: {fp16: {use: here, risk: there}, none: {}}}
"""
    assert only(read_study(write, study)) == Study(
        "unit/chain",
        Growth("depth", "diff2", 4),
        TradeOff("form", "none", {"fp16": Note("here", "there"), "none": Note()}),
    )


def test_a_study_changes_no_definition(write):
    before = [case.definition for case in load_cases(write(KERNELS, chain=CHAIN))]
    after = load_cases(write(KERNELS, chain=CHAIN + "study: {growth: {over: depth}}\n"))
    assert [case.definition for case in after] == before


MISTAKES = [
    ("study: {}\n", "bad-study", 7, "expected growth: or trade_off: but neither is there"),
    ("study: {grow: {over: depth}}\n", "unknown-key", 7, 'grow={"over": "depth"}; did you mean "growth"?'),
    ("study: {growth: {}}\n", "missing-key", 7, "expected study.growth.over:"),
    ("study:\n  growth: {over: depth, fit: 3}\n", "unknown-key", 8, 'fit=3; did you mean "fit_to"?'),
    ("study:\n  growth:\n    over: dpeth\n", "bad-study", 9, 'but got over=dpeth; did you mean "depth"?'),
    (
        "study: {growth: {over: form}}\n",
        "bad-study",
        7,
        "that counts operations, from 1 to 1000000000, but got form=none",
    ),
    ("study: {growth: {over: size}}\n", "bad-study", 7, "but got size=two"),
    ("study: {growth: {over: depth, metric: bias}}\n", "bad-study", 7, "mean_rel_error, max_rel_error"),
    ("study: {growth: {over: depth, metric: mean_rel_eror}}\n", "bad-study", 7, 'did you mean "mean_rel_error"?'),
    ("study: {growth: {over: depth, fit_to: 0}}\n", "bad-value", 7, "study.growth.fit_to=0"),
    ("study: {trade_off: {over: form}}\n", "missing-key", 7, "expected study.trade_off.plain:"),
    ("study:\n  trade_off:\n    over: form\n    plain: non\n", "bad-study", 10, 'plain=non; did you mean "none"?'),
    ("study: {trade_off: {over: depth, plain: none}}\n", "bad-study", 7, "whose values are text but got depth=1"),
    ("study: {trade_off: {over: form, plain: none, notes: 3}}\n", "bad-value", 7, "expected a mapping but got notes=3"),
    (
        "study:\n  trade_off:\n    over: form\n    plain: none\n    notes:\n      fp61: {}\n",
        "bad-study",
        12,
        'one of none, fp16, but got notes=fp61; did you mean "fp16"?',
    ),
    (
        "study:\n  trade_off:\n    over: form\n    plain: none\n    notes:\n      fp16:\n        rsik: x\n",
        "unknown-key",
        13,
        'expected one of use, risk but got rsik=x; did you mean "risk"?',
    ),
    (
        "study: {trade_off: {over: form, plain: none, notes: {fp16: {use: 3}}}}\n",
        "bad-value",
        7,
        "expected text but got use=3",
    ),
]


@pytest.mark.parametrize(("study", "slug", "line", "says"), MISTAKES)
def test_a_mistake_has_its_place(write, study, slug, line, says):
    with pytest.raises(UserError) as caught:
        read_study(write, study)
    assert (caught.value.slug, caught.value.file, caught.value.line) == (slug, "suites/unit/chain.yaml", line)
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("depths", "study", "says"),
    [
        ("[64]", "{over: depth}", "two numbers of operations or more but got depth=[64]"),
        ("[64, 32]", "{over: depth}", "a case of at most fit_to=16 operations but the least is 32"),
        ("[0, 4]", "{over: depth}", "from 1 to 1000000000, but got depth=0"),
        (f"[4, {'9' * 320}]", "{over: depth}", "but got depth=999"),
        ("[true, 4]", "{over: depth}", "but got depth=true"),
        ("[1, 4.5]", "{over: depth}", "but got depth=4.5"),
    ],
)
def test_a_growth_needs_numbers_of_operations(write, depths, study, says):
    suite = CHAIN.replace("[1, 4, 64]", depths).replace("[$depth]", "[4]").replace("$size}", "$size, depth: $depth}")
    with pytest.raises(UserError) as caught:
        read_study(write, f"study: {{growth: {study}}}\n", suite)
    assert caught.value.slug == "bad-study"
    assert says in caught.value.message


def test_recorded_files_have_no_study(write):
    suite = "suite: s\nfiles: {actual: 'a/{v}.npy', golden: g.npy}\nstudy: {growth: {over: v}}\n"
    with pytest.raises(UserError, match="expected study or files but got both"):
        load_cases(write(s=suite))


SEEN_BY_AN_EDITOR = [study for study, slug, _, _ in MISTAKES if slug != "bad-study"] + [
    "study: {growth: {over: depth, metric: bias}}\n",
    "study: 3\n",
]


@pytest.mark.parametrize("study", SEEN_BY_AN_EDITOR)
def test_an_editor_sees_what_its_schema_can_say(tmp_path, study):
    path = tmp_path / "s.yaml"
    path.write_text(CHAIN + study)
    assert list(Draft202012Validator(json_schema()).iter_errors(read_yaml(path, "s.yaml").data))
