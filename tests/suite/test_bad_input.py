"""Every mistake of a suite's author: its slug, file and line, and that the message names what came."""

import pytest

from precreg.errors import UserError
from precreg.suite.expand import load_cases
from tests.suite.conftest import SUITE

FILE = "suites/unit/s.yaml"


def refused(project):
    with pytest.raises(UserError) as caught:
        load_cases(project)
    return caught.value


def lines(text):
    return SUITE + text


@pytest.mark.parametrize(
    ("text", "slug", "line", "says"),
    [
        # keys and values of the suite
        (lines("sedes: 3\n"), "unknown-key", 4, ['expected a known key but got sedes=3; did you mean "seeds"?']),
        ("subject: kernels:naive\nreference: kernels:exact\n", "missing-key", 1, ["expected suite:"]),
        (lines("seeds: three\n"), "bad-value", 4, ["expected a whole number or null but got seeds=three"]),
        (lines("tolerance: {max_ulp: .inf}\n"), "bad-value", 4, ["expected a finite number", "max_ulp=Infinity"]),
        (lines("tolerance: {mean_log2_ulp: -.inf}\n"), "bad-value", 4, ["mean_log2_ulp=-Infinity", "at least -2"]),
        (lines("tolerance: {match_ratio: 1.01}\n"), "bad-value", 4, ["a share from 0 to 1", "match_ratio=1.01"]),
        (lines(f"tolerance: {{max_ulp: {'9' * 400}}}\n"), "bad-value", 4, ["expected a finite number", "max_ulp=99"]),
        (lines(f"tolerance: {{regression: {{bias: {'9' * 400}}}}}\n"), "bad-value", 4, ["or off", "bias=99"]),
        (lines("tolerance: {regression: {mean_ulp: .inf}}\n"), "bad-value", 4, ["or off", "mean_ulp=Infinity"]),
        (lines("seeds: 0\n"), "bad-value", 4, ["a whole number >= 1", "seeds=0"]),
        (lines("timeout: true\n"), "bad-value", 4, ["expected a number", "timeout=true"]),
        (lines("exact: yes\n"), "bad-value", 4, ["expected true or false but got exact=yes"]),
        (lines("tags: slow\n"), "bad-value", 4, ["expected a list but got tags=slow"]),
        (lines("tags:\n- fast\n- 3\n"), "bad-value", 6, ["expected text", "tags.1=3"]),
        (lines("budget: {time_ratio: -1}\n"), "bad-value", 4, ["budget.time_ratio=-1"]),
        (lines("budget: {ratio: 2}\n"), "unknown-key", 4, ['ratio=2; did you mean "time_ratio"?']),
        (lines("cases:\n- {match: '*', seed: 2}\n"), "unknown-key", 5, ['seed=2; did you mean "seeds"?']),
        (lines("cases:\n- {seeds: 2}\n"), "missing-key", 5, ["expected cases.0.match:"]),
        (lines("expect: pass\nreason: none\n"), "bad-value", 4, ["expected fail but got expect=pass"]),
        ("suite: a/b\nsubject: k:f\nreference: k:f\n", "bad-value", 1, ["suite=a/b"]),
        ("- suite\n", "bad-value", 1, ["expected a mapping"]),
        ("# empty\n", "bad-value", 1, ["expected a mapping but the file is empty"]),
        # what is held against what
        ("suite: s\nreference: kernels:exact\n", "missing-key", 1, ["subject:, files: or table:"]),
        ("suite: s\nsubject: kernels:naive\n", "missing-key", 1, ["reference: or golden:"]),
        (lines("golden: kernels:exact\n"), "bad-value", 4, ["expected reference or golden but got both"]),
        (lines("files: {actual: a.npy, golden: b.npy}\n"), "bad-value", 2, ["expected subject or files but got both"]),
        ("suite: s\nfiles:\n  actual: a.npy\n", "missing-key", 2, ["reference: or golden:"]),
        ("suite: s\nfiles: {actual: a.npy, golden: b.npy}\ninputs: {}\n", "bad-value", 3, ["inputs or files"]),
        (lines("deterministic: 0\n"), "bad-value", 4, ["expected true or false but got deterministic=0"]),
        (lines("exact: true\ndeterministic: false\n"), "bad-value", 5, ["exact: true or deterministic: false"]),
        (lines("exact: true\ncases:\n- {match: '*', deterministic: false}\n"), "bad-value", 6, ["but got both"]),
        (lines("expect: fail\n"), "missing-key", 4, ["expected reason:", "expect=fail"]),
        (lines("reason: known\n"), "missing-key", 4, ["expected expect:", "reason=known"]),
        (lines("cases:\n- match: '*'\n  expect: fail\n"), "missing-key", 6, ["expected reason:"]),
        (lines("cases:\n- {match: '*', expect: pass, reason: r}\n"), "missing-key", 5, ["expect: fail beside reason"]),
        (lines("cases:\n- {match: '*', expect: no}\n"), "bad-value", 5, ["expected fail or pass", "cases.0.expect=no"]),
        (
            lines("requires:\n- numpy>=2\n- '!!'\n"),
            "bad-value",
            6,
            ["requirement=!!", "numpy>=2, device:npu or memory:8GB"],
        ),
        (lines("requires: [numpy>>2]\n"), "bad-value", 4, ["requirement=numpy>>2"]),
        (lines("requires: [__main__]\n"), "bad-value", 4, ["requirement=__main__"]),
        (lines("requires: ['memory:8']\n"), "bad-value", 4, ["requirement=memory:8"]),
        (lines("requires: ['device:']\n"), "bad-value", 4, ["requirement=device:"]),
        # modules and kinds
        ("suite: s\nsubject: kernel:naive\nreference: kernels:exact\n", "missing-module", 2, ['"kernels"?']),
        ("suite: s\nsubject: kernels:naiv\nreference: kernels:exact\n", "missing-function", 2, ['"naive"?']),
        ("suite: s\nsubject: kernels\nreference: kernels:exact\n", "bad-value", 2, ["module:function", "'kernels'"]),
        ("suite: s\nsubject: 3\nreference: kernels:exact\n", "bad-value", 2, ["subject=3"]),
        (
            "suite: s\nsubject: {pyton: a}\nreference: k:f\n",
            "unknown-subject-kind",
            2,
            ['kind=pyton; did you mean "python"'],
        ),
        ("suite: s\nsubject: kernels:naive\ngolden: {files: no.npy}\n", "missing-file", 3, ["suites/unit/no.npy"]),
        (
            "suite: s\nsubject: kernels:naive\ngolden: {files: ../../../x.npy}\n",
            "outside-project",
            3,
            ["../../../x.npy"],
        ),
        ("suite: s\nsubject: kernels:naive\ngolden: {files: /etc/x.npy}\n", "outside-project", 3, ["path=/etc/x.npy"]),
        ("suite: s\nsubject: kernels:naive\ngolden: {files: [1]}\n", "bad-value", 3, ["files=[1]"]),
        # the matrix
        (lines("matrix: [1]\n"), "bad-value", 4, ["expected a mapping but got matrix=[1]"]),
        (lines("matrix:\n  order: []\n"), "empty-matrix", 5, ["order=[]"]),
        (
            lines("matrix: {" + ", ".join(f"p{i}: {list(range(10))}" for i in range(6)) + "}\n"),
            "bad-value",
            4,
            ["at most 100000 combinations but got 1000000"],
        ),
        (lines("matrix:\n  order: up\n"), "bad-value", 5, ["expected a list", "order=up"]),
        (lines("matrix:\n  order: [{a: 1}]\n"), "bad-value", 5, ['order={"a": 1}']),
        (lines("matrix:\n  a: [$b]\n  b: [$a]\n"), "bad-value", 5, ["without $", "a=$b"]),
        (
            lines("matrix:\n  dtype:\n  - float32\n  - floot16\n"),
            "unknown-dtype",
            7,
            ['dtype=floot16; did you mean "float16"'],
        ),
        (lines("matrix: {a: [1, 1]}\n"), "duplicate-case", 4, ["case=unit/softmax/a=1"]),
        (
            lines("matrix:\n  n: [1, 2]\n  order: [up, down]\nparams: {n: $n}\n"),
            "duplicate-case",
            6,
            ["n=1-up and n=1-down to compute different things", "$order"],
        ),
        (lines("matrix:\n  a: [1]\n  exclude: [{a: 1}]\n"), "empty-matrix", 4, ["exclude removes all 1"]),
        (lines("matrix:\n  a: [1]\n  exclude: [{a: 2}]\n"), "bad-value", 6, ['exclude={"a": 2}', "matches none"]),
        (lines("matrix:\n  order: [1]\n  exclude: [{oder: 1}]\n"), "unknown-key", 6, ['oder=1; did you mean "order"']),
        (
            lines("matrix:\n  a: [1]\n  b: [2]\n  include:\n  - {a: 1}\n"),
            "missing-key",
            8,
            ["b is missing", '{"a": 1}'],
        ),
        (lines("matrix:\n  a: [1]\n  include:\n  - {a: 1, c: 1}\n"), "unknown-key", 7, ["c=1"]),
        (lines("matrix:\n  include: {a: 1}\n"), "bad-value", 5, ["expected a list of mappings"]),
        (lines("matrix:\n  dtype: [int8]\n  include: [{dtype: in8}]\n"), "unknown-dtype", 6, ["dtype=in8"]),
        # references, inputs and params
        (lines("params: {axis: $axes}\nmatrix: {axis: [1]}\n"), "unknown-reference", 4, ["axis=$axes", '"axis"?']),
        (lines("params:\n  a: $b\n  b: [$a]\n"), "cyclic-reference", 5, ["a -> b -> a"]),
        (lines("params:\n  a: $a\n"), "cyclic-reference", 5, ["a -> a"]),
        (lines("inputs:\n  x: {shape: $n, dtype: int8, constant: {value: 1}}\n"), "unknown-reference", 5, ["shape=$n"]),
        (lines("inputs:\n  x: [1]\n"), "bad-value", 5, ["expected a mapping but got x=[1]"]),
        (lines("inputs:\n  x: {shape: [2], dtype: float23, normal: {}}\n"), "unknown-dtype", 5, ["float23"]),
        (lines("inputs:\n  x: {shape: [2], dtype: float32, nomal: {}}\n"), "unknown-distribution", 5, ['"normal"?']),
        (lines("inputs:\n  x: {shape: [2], dtype: float32, normal: {sd: 1}}\n"), "unknown-key", 5, ["sd"]),
        (
            lines("inputs:\n  x:\n    shape: [2]\n    dtype: int8\n    file: {path: x.npy}\n"),
            "missing-file",
            8,
            ["x.npy"],
        ),
        (
            lines("inputs:\n  x: {shape: [2], dtype: int8, file: {path: ../../../x.npy}}\n"),
            "outside-project",
            5,
            ["path=suites/unit/../../../x.npy"],
        ),
        (
            lines("inputs:\n  x: {shape: [2], dtype: int8, constant: {value: 1}}\nparams: {x: 1}\n"),
            "bad-value",
            6,
            ["x in both"],
        ),
        # tolerances
        (lines("tolerance: 1e-3\n"), "bad-value", 4, ["expected a mapping but got tolerance=0.001"]),
        (lines("tolerance:\n  max_upl: 4\n"), "unknown-metric", 5, ['max_upl=4; did you mean "max_ulp"?']),
        (lines("tolerance:\n  flot16: {rtol: 1}\n"), "unknown-dtype", 5, ['flot16; did you mean "float16"?']),
        (lines("tolerance:\n  standard: torch\n"), "unknown-standard", 5, ["standard=torch; did you mean"]),
        (lines("tolerance:\n  rtol: -1\n"), "bad-value", 5, ["rtol=-1"]),
        (lines("tolerance:\n  rtol: .nan\n"), "bad-value", 5, ["rtol=NaN"]),
        (lines("tolerance:\n  max_ulp: four\n"), "bad-value", 5, ["max_ulp=four"]),
        (
            lines("tolerance:\n  regression: {mean_upl: 1}\n"),
            "unknown-metric",
            5,
            ['mean_upl=1; did you mean "mean_ulp"'],
        ),
        (lines("tolerance:\n  regression: {mean_ulp: on}\n"), "bad-value", 5, ["or off, but got mean_ulp=on"]),
        (
            lines("tolerance:\n  regression:\n    p99_abs_error: 0.1\n"),
            "bad-value",
            6,
            ["that baselines keep (max_abs_error, mean_abs_error, ", "ulp_scale", "but got p99_abs_error=0.1"],
        ),
        (lines("tolerance:\n  float16:\n    int8: {rtol: 1}\n"), "bad-value", 6, ["int8 again inside float16"]),
        (lines("tolerance:\n  outputs:\n    loss: {rtl: 1}\n"), "unknown-metric", 6, ['rtl=1; did you mean "rtol"?']),
        (lines("cases:\n- match: '*'\n  tolerance: {rtol: x}\n"), "bad-value", 6, ["rtol=x"]),
        # a second implementation
        (lines("benchmark: naive\n"), "bad-value", 4, ["expected module:function but got 'naive'"]),
        (lines("benchmark: 3\n"), "bad-value", 4, ["expected module:function or {KIND: spec} but got benchmark=3"]),
        (lines("benchmark: kernels:nave\n"), "missing-function", 4, ['did you mean "naive"?']),
        (lines("benchmark: theirs:f\n"), "missing-module", 4, ["module=theirs"]),
        (lines("benchmark: {files: b.npy}\n"), "missing-file", 4, ["b.npy"]),
        (lines("benchmark: {files: ../../../b.npy}\n"), "outside-project", 4, ["b.npy"]),
        # overrides and baselines
        (
            lines("matrix: {dtype: [float16]}\ncases:\n- match: float32\n"),
            "unknown-case",
            6,
            ["match=float32", 'did you mean "float16"?'],
        ),
        (lines("matrix: {v: [a]}\nbaseline_of: {w: a}\n"), "unknown-key", 5, ["w=a"]),
        (
            lines("matrix: {v: [first]}\nbaseline_of: {v: frist}\n"),
            "unknown-case",
            5,
            ["baseline_of=frist", '"first"?'],
        ),
        (lines("baseline_of: x\n"), "bad-value", 4, ["baseline_of=x"]),
        # YAML itself
        (lines("seeds: 1\nseeds: 2\n"), "duplicate-key", 5, ["seeds", "line 4"]),
        (lines("params: {f: !!python/name:os.system }\n"), "yaml-tag", 4, ["os.system"]),
    ],
)
def test_mistakes_in_a_suite(write, text, slug, line, says):
    error = refused(write(s=text))
    assert (error.slug, error.file, error.line) == (slug, FILE, line), error
    for words in says:
        assert words in error.message


@pytest.mark.parametrize(
    ("text", "slug", "line", "says"),
    [
        ("defaults: {rtol: 1}\n", "unknown-key", 1, ['did you mean "default"?']),
        ("tiers:\n  untit: {rtol: 1}\n", "unknown-key", 2, ['tier=untit; did you mean "unit"?']),
        ("default:\n  flaot32: {rtol: 1}\n", "unknown-dtype", 2, ["flaot32", '"float32"?']),
        ("categories:\n  norm:\n    max_upl: 3\n", "unknown-metric", 3, ["max_upl=3"]),
        ("categories: 3\n", "bad-value", 1, ["categories=3"]),
        ("environments:\n  ascend: {standard: x}\n", "unknown-standard", 2, ["standard=x"]),
        ("environments: []\n", "bad-value", 1, ["environments=[]"]),
        ("default: {rtol: 1\n", "yaml-syntax", 2, ["expected YAML"]),
    ],
)
def test_mistakes_in_the_tolerances(write, text, slug, line, says):
    error = refused(write({"suites/tolerances.yaml": text}, s=SUITE))
    assert (error.slug, error.file, error.line) == (slug, "suites/tolerances.yaml", line), error
    for words in says:
        assert words in error.message


@pytest.mark.parametrize("path", ["suites/units/s.yaml", "suites/s.yaml", "suites/units/deep/s.yml"])
def test_a_suite_outside_the_tiers_is_not_overlooked(write, path):
    error = refused(write({path: SUITE}))
    assert (error.slug, error.file, error.line) == ("bad-value", path, 1)
    assert path in error.message
    assert "units" not in path or 'did you mean "unit"?' in error.message


def test_two_suites_of_one_name(write):
    error = refused(write(a=SUITE, b="about: x\n" + SUITE))
    assert (error.slug, error.file, error.line) == ("duplicate-suite", "suites/unit/b.yaml", 2)
    assert "suite=softmax, as in suites/unit/a.yaml:1" in error.message


def test_of_two_bad_files_the_first_in_order_of_paths_is_named(write):
    project = write(b="suite: 1\n", a="suite: 2\n")
    assert {refused(project).file for _ in range(3)} == {"suites/unit/a.yaml"}


def test_a_suites_name_ends_where_it_ends(write):
    write({"suites/unit/s.yaml": 'suite: "s\\n"\nsubject: kernels:naive\nreference: kernels:exact\n'})
    with pytest.raises(UserError) as caught:
        load_cases(write())
    assert caught.value.slug == "bad-value"


@pytest.mark.parametrize("name", ["suites/unit/p.yaml", "suites/tolerances.yaml"])
def test_a_link_out_of_the_project_is_not_read(write, tmp_path_factory, name):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("root:x:0")
    project = write(s=SUITE)
    (project / name).symlink_to(secret)
    with pytest.raises(UserError) as caught:
        load_cases(project)
    assert (caught.value.slug, caught.value.file) == ("outside-project", name)
    assert "root:x" not in str(caught.value)


def test_a_recorded_file_with_a_control_character_in_its_name_is_refused(write):
    text = "suite: s\nfiles: {actual: 'o/*.npy', reference: 'g/*.npy'}\n"
    with pytest.raises(UserError) as caught:
        load_cases(write({"suites/unit/o/a\x1b[2J.npy": "", "suites/unit/g/a\x1b[2J.npy": ""}, s=text))
    assert (caught.value.slug, caught.value.line) == ("bad-value", 2)
    assert "\x1b" not in str(caught.value)
