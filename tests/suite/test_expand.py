import pytest

from precreg.errors import UserError
from precreg.suite.expand import load_cases
from precreg.tolerance.pyramid import resolve_tolerance
from precreg.types.case import DEFAULT_SEEDS, Computation
from tests.suite.conftest import SUITE

FULL = (
    SUITE
    + """
about: all that a suite may say
category: normalization
matrix:
  shape: [[4, 64], [2, 3, 8]]
  dtype: [float16, float32]
  order: [standard, swapped]
  include: [{shape: [1, 1], dtype: float64, order: standard}]
  exclude: [{dtype: float16, order: swapped}]
inputs:
  x: {shape: $shape, dtype: $dtype, normal: {mean: 0, std: $spread}}
params: {eps: 1e-5, spread: 2, again: $spread, order: $order}
seeds: 3
repeats: 2
timeout: 60
exact: true
cases:
  - {match: "float16-*", tolerance: {rtol: 5e-3}, tags: [slow, fast], seeds: 1}
  - {match: "*swapped*", expect: fail, reason: multiply before divide, timeout: 5}
requires: ["numpy>=2", "device:npu"]
budget: {time_ratio: 2}
tags: [fast]
"""
)


@pytest.fixture
def cases(write):
    return {case.name: case for case in load_cases(write(softmax=FULL))}


def test_names_in_order_of_the_matrix(cases):
    assert list(cases) == [
        "float16-4x64-standard",
        "float32-4x64-standard",
        "float32-4x64-swapped",
        "float16-2x3x8-standard",
        "float32-2x3x8-standard",
        "float32-2x3x8-swapped",
        "float64-1x1-standard",
    ]


def test_a_case_has_all_that_the_suite_says(cases):
    case = cases["float32-4x64-standard"]
    assert (case.id, case.tier, case.suite) == ("unit/softmax/float32-4x64-standard", "unit", "softmax")
    assert (str(case.source), case.directory) == ("suites/unit/softmax.yaml:1", "suites/unit")
    assert (case.subject, case.oracle) == (
        Computation("python", "kernels:naive"),
        Computation("python", "kernels:exact"),
    )
    assert (case.role, case.category) == ("reference", "normalization")
    assert case.parameters == {"shape": [4, 64], "dtype": "float32", "order": "standard"}
    assert (case.seeds, case.repeats, case.timeout_s, case.exact) == (3, 2, 60.0, True)
    assert (case.requires, case.tags, case.budget.time_ratio) == (("numpy>=2", "device:npu"), ("fast",), 2.0)
    assert case.expect_failure is None
    assert (case.baseline_id, case.baseline_definition) == (case.id, case.definition)


def test_references_reach_parameters_and_other_params(cases):
    case = cases["float32-2x3x8-swapped"]
    assert case.inputs == {"x": {"shape": [2, 3, 8], "dtype": "float32", "normal": {"mean": 0, "std": 2}}}
    assert case.params == {"eps": 1e-5, "spread": 2, "again": 2, "order": "swapped"}


def test_cases_that_differ_in_computation_differ_in_definition(cases):
    assert len({case.definition for case in cases.values()}) == len(cases)


def test_overrides_by_pattern_on_the_name(cases):
    half, swapped = cases["float16-4x64-standard"], cases["float32-4x64-swapped"]
    assert (half.tags, half.seeds, half.timeout_s) == (("fast", "slow"), 1, 60.0)
    assert (swapped.expect_failure, swapped.timeout_s, swapped.seeds) == ("multiply before divide", 5.0, 3)
    rtol = resolve_tolerance(half.layers, "out", "float16", ()).rtol
    assert (rtol.limit, rtol.layer, str(rtol.source)) == (5e-3, "case", "suites/unit/softmax.yaml:21")


def test_a_suite_and_its_cases_may_be_declared_nondeterministic(write):
    text = "deterministic: false\nmatrix: {n: [1, 2]}\nparams: {n: $n}\ncases:\n- {match: n=2, deterministic: true}\n"
    others = 'matrix: {n: [1, 2]}\nparams: {n: $n}\ncases:\n- {match: "n=1", deterministic: false}\n'
    cases = load_cases(write(s=SUITE + text, t=SUITE.replace("softmax", "t") + others))
    assert [case.deterministic for case in cases] == [False, True, False, True]
    assert cases[0].definition == cases[2].definition


def test_what_a_suite_expects_to_fail_may_be_expected_to_pass_in_some_cases(write):
    text = """\
expect: fail
reason: known bad
matrix: {n: [1, 2, 3]}
params: {n: $n}
cases:
- {match: "n=[23]", expect: pass}
- {match: "n=3", expect: fail, reason: worse}
"""
    cases = load_cases(write(s=SUITE + text))
    assert [case.expect_failure for case in cases] == ["known bad", None, "worse"]


def test_cases_with_the_same_overrides_share_their_layers(cases):
    assert cases["float16-4x64-standard"].layers is cases["float16-2x3x8-standard"].layers
    assert cases["float32-4x64-standard"].layers is cases["float32-2x3x8-standard"].layers


def test_a_golden_and_files_as_golden(write):
    golden = "suite: a\nsubject: kernels:naive\ngolden: kernels:exact\n"
    stored = "suite: b\nsubject: kernels:naive\ngolden: {files: ../data/x.npy}\n"
    many = "suite: c\nsubject: kernels:naive\nreference: {files: {loss: ../data/x.npy, w: ../data/x.npy}}\n"
    bundle = "suite: d\nsubject: kernels:naive\nreference: {files: ../data/x.npz}\n"
    data = {"suites/data/x.npy": "", "suites/data/x.npz": ""}
    oracles = {
        case.suite: (case.role, case.oracle) for case in load_cases(write(data, a=golden, b=stored, c=many, d=bundle))
    }
    path = "suites/data/x.npy"
    assert oracles == {
        "a": ("golden", Computation("python", "kernels:exact")),
        "b": ("golden", Computation("files", {"out": path})),
        "c": ("reference", Computation("files", {"loss": path, "w": path})),
        "d": ("reference", Computation("files", {"*": "suites/data/x.npz"})),
    }


def test_baseline_of_names_another_case_by_its_parameters(write):
    text = SUITE + "matrix: {v: [old, new], n: [1, 2]}\nparams: {v: $v, n: $n}\nbaseline_of: {v: old}\n"
    cases = {case.name: case for case in load_cases(write(s=text))}
    assert {name: case.baseline_id.rpartition("/")[2] for name, case in cases.items()} == {
        "old-n=1": "old-n=1",
        "old-n=2": "old-n=2",
        "new-n=1": "old-n=1",
        "new-n=2": "old-n=2",
    }
    assert cases["new-n=2"].baseline_definition == cases["old-n=2"].definition != cases["new-n=2"].definition


def test_suites_come_in_order_of_their_paths_from_every_tier_and_folder(write):
    files = {"suites/model/x.yaml": SUITE, "suites/model/kernels.py": "def naive(): ...\ndef exact(): ...\n"}
    project = write({**files, "suites/unit/deep/y.yml": SUITE.replace("softmax", "deep")}, softmax=SUITE)
    assert [case.id for case in load_cases(project)] == [
        "model/softmax/default",
        "unit/deep/default",
        "unit/softmax/default",
    ]


def test_zeros_of_both_signs_are_two_cases_and_equal_numbers_are_one_too_many(write):
    text = SUITE + "matrix: {v: [%s]}\ninputs: {x: {shape: 2, dtype: float32, constant: {value: $v}}}\n"
    both = load_cases(write({}, s=text % "0.0, -0.0"))
    assert len({case.definition for case in both}) == 2
    with pytest.raises(UserError, match="v=1") as caught:
        load_cases(write({}, s=text % "1, 1.0"))
    assert caught.value.slug == "duplicate-case"


def test_a_benchmark_belongs_to_every_case_and_to_no_definition(write):
    """Stored baselines stay valid: their definitions are those of the same suite without a benchmark."""
    before = load_cases(write(softmax=FULL))
    after = load_cases(write(softmax=FULL.replace("about:", "benchmark: kernels:naive\nabout:", 1)))
    assert {case.benchmark for case in before} == {None}
    assert {case.benchmark for case in after} == {Computation("python", "kernels:naive")}
    assert [case.definition for case in after] == [case.definition for case in before]
    # Measured before suites could name a benchmark.
    assert before[0].definition == "1:abed25bc1d9402731c5f63c1bdefd1ed"


@pytest.mark.parametrize(
    ("inputs", "seeds"),
    [
        ("x: {shape: [4], dtype: float32, normal: {}}", DEFAULT_SEEDS),
        ("x: {shape: [4], dtype: float32, pick: easy, from: {easy: {uniform: {low: 0, high: 1}}}}", DEFAULT_SEEDS),
        ("x: {shape: [4], dtype: float32, constant: {value: 1}}", 1),
        ("{}", 1),
    ],
)
def test_a_case_with_random_inputs_has_several_seeds_by_default(write, inputs, seeds):
    suite = SUITE + (f"inputs:\n  {inputs}\n" if inputs != "{}" else "")
    assert [case.seeds for case in load_cases(write(softmax=suite))] == [seeds]
