"""`precreg trace` as the real command in a repository of its own: faults in a small network of numpy, by name."""

import json
import re

import numpy as np
import pytest

from tests.e2e.command import git, precreg, repository, started, with_suite

SUITE = """\
suite: block
about: LayerNorm and attention
subject: k:block
reference: k:exact
matrix:
  dtype: [float32, float16]
inputs:
  x: {shape: [6, 16], dtype: $dtype, normal: {mean: 0, std: 0.01}}
  w: {shape: [3, 16, 16], dtype: $dtype, normal: {mean: 0, std: 0.3}}
params: {eps: 1e-5}
tolerance: {rtol: 1e-3, atol: 1e-5}
"""

# The subject and the reference write one formula in two ways: by the reciprocal of the square root, and by a division.
KERNEL = """\
import numpy as np


def block(x, w, eps):
    normed = layer_norm(x, eps)
    q, k, v = normed @ w[0], normed @ w[1], normed @ w[2]
    scores = q @ k.T * x.dtype.type(0.25)
    scores = np.where(np.tri(6, dtype=bool), scores, -np.inf)
    return softmax(scores) @ v


def layer_norm(x, eps):
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered * centered).mean(-1, keepdims=True)
    return centered * (1 / np.sqrt(variance + x.dtype.type(eps)))


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def exact(x, w, eps):
    normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    q, k, v = normed @ w
    scores = q @ k.T / 4
    scores = np.where(np.tri(6, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ v
"""


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path, SUITE, KERNEL, "block"))


def plant(project, before, after):
    file = project / "suites" / "unit" / "k.py"
    subject, mark, reference = file.read_text().partition("def exact")
    assert subject.count(before) == 1
    file.write_text(subject.replace(before, after) + mark + reference)


def traced(project, *arguments):
    """Trace a case, and return its JSON and the text."""
    done = precreg(project, "trace", *arguments, "--json", "trace.json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads((project / "trace.json").read_text()), done.stdout


def refused(project, *arguments):
    done = precreg(project, "trace", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr.partition("Traceback (most recent call last):\n    File")[0]
    return done.stderr


def test_a_good_kernel_has_no_loss_and_its_shares_add_up(project):
    trace, text = traced(project, "block/float32")
    assert (trace["case"], trace["seed"], trace["dtype"]) == ("unit/block/float32", 0, "float32")
    assert (trace["same_bits"], trace["oracle"]) == (True, "reference")
    (out,) = trace["outputs"]
    assert out["rounding"]["relative"] < 1e-6
    # The kernel rounds eps to float32 before it adds it, and the reference does not.
    assert out["formula"]["relative"] < 1e-8
    assert out["whole"]["relative"] == pytest.approx(out["rounding"]["relative"], rel=0.05)
    assert 0.95 < out["sum_of_shares"] < 1.05
    assert 0 < out["tolerances"] < 1
    assert trace["operations"][out["number"] - 1]["name"] == "matmul"
    assert {operation["site"]["file"] for operation in trace["operations"]} == {"suites/unit/k.py"}
    assert trace.get("formula") is None
    assert "first loss" not in text


def test_the_errors_are_those_of_the_run(project):
    """The whole error and the share of the tolerance, against plain numpy on the same inputs."""
    trace, _ = traced(project, "block/float16", "--seed", "3")
    namespace = {}
    exec(KERNEL, namespace)
    from precreg.run import draw_inputs
    from precreg.suite import load_cases

    (case,) = [case for case in load_cases(project) if case.name == "float16"]
    inputs = draw_inputs(case, 3, project / "suites" / "unit", project)
    actual = namespace["block"](**inputs, eps=1e-5).astype(np.float64)
    reference = namespace["exact"](**{name: array.astype(np.float64) for name, array in inputs.items()}, eps=1e-5)
    (out,) = trace["outputs"]
    assert out["whole"]["relative"] == pytest.approx(
        np.linalg.norm(actual - reference) / np.linalg.norm(reference), rel=1e-9
    )
    share = np.max(np.abs(actual - reference) / (1e-5 + 1e-3 * np.abs(reference)))
    assert out["tolerances"] == pytest.approx(share, rel=1e-9)


FAULTS = {
    "a dropped epsilon": ("variance + x.dtype.type(eps)", "variance", "sqrt", "1 / np.sqrt(variance)"),
    "a wrong scale": ("x.dtype.type(0.25)", "x.dtype.type(0.5)", "multiply", "x.dtype.type(0.5)"),
    "a missing mask": (
        "    scores = np.where(np.tri(6, dtype=bool), scores, -np.inf)\n",
        "",
        "max",
        "scores.max(-1, keepdims=True)",
    ),
    "a wrong axis": ("weights.sum(-1, keepdims=True)", "weights.sum(0, keepdims=True)", "sum", "weights.sum(0"),
    "a stale buffer": ("softmax(scores) @ v", "softmax(scores) @ np.roll(v, 1, 0)", "matmul", "np.roll(v, 1, 0)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_formula_is_named_by_its_line(project, fault):
    before, after, name, line = FAULTS[fault]
    plant(project, before, after)
    trace, text = traced(project, "block/float32")
    first = trace["formula"]["first"]
    assert (first["name"], trace["formula"]["other"]) == (name, "reference")
    assert line in first["site"]["code"]
    (out,) = trace["outputs"]
    assert out["formula"]["relative"] > 100 * out["rounding"]["relative"]
    assert f"from here the formula differs: suites/unit/k.py:{first['site']['line']}" in text


def test_the_line_of_the_reference_stands_beside_a_dropped_epsilon(project):
    plant(project, "variance + x.dtype.type(eps)", "variance")
    trace, _ = traced(project, "block/float32")
    counterpart = trace["formula"]["counterpart"]
    assert counterpart["name"] == "add"
    assert "+ eps" in counterpart["site"]["code"]


def test_an_accumulator_of_float16_is_the_first_loss_and_no_formula(project):
    plant(project, "scores = q @ k.T", "scores = (q.astype(np.float16) @ k.T.astype(np.float16)).astype(x.dtype)")
    trace, text = traced(project, "block/float32")
    assert trace.get("formula") is None
    assert re.search(r"first loss: suites/unit/k.py:7 `scores = \(q.astype\(np.float16\)", text)


def test_a_version_that_casts_is_named_against_the_one_before(project):
    plant(
        project,
        "variance = (centered * centered)",
        "centered = centered.astype(np.float16).astype(x.dtype)\n    variance = (centered * centered)",
    )
    trace, text = traced(project, "block/float32", "--against", "HEAD")
    found = trace["against"]
    assert (found["kind"], found["first"]["name"], found["first"]["dtype"]) == ("new", "astype", "float16")
    assert found["commit"] == git(project, "rev-parse", "HEAD")
    assert found["outputs"][0]["rounding"]["relative"] < trace["outputs"][0]["rounding"]["relative"]
    assert found["formula"] is None
    assert "suites/unit/k.py:14" in text


def test_an_operation_that_rounds_more_is_named_with_its_line_before(project):
    plant(
        project,
        "weights / weights.sum(-1, keepdims=True)",
        "weights / weights.sum(-1, keepdims=True, dtype=np.float16)",
    )
    found = traced(project, "block/float32", "--against", "HEAD")[0]["against"]
    assert (found["kind"], found["first"]["name"], found["counterpart"]["name"]) == ("grew", "sum", "sum")
    assert "dtype=np.float16" in found["first"]["site"]["code"]
    assert "dtype" not in found["counterpart"]["site"]["code"]


def test_another_formula_than_that_of_the_version_before_is_named(project):
    plant(project, "variance + x.dtype.type(eps)", "variance")
    found = traced(project, "block/float32", "--against", "HEAD")[0]["against"]
    assert (found["formula"]["other"], found["formula"]["first"]["name"]) == ("version", "sqrt")
    assert found["formula"]["counterpart"]["name"] == "add"


def test_the_accepted_version_is_found_without_its_commit(project):
    assert "error[no-accepted-version]: expected the accepted version of unit/block/float32 but it has no baseline" in (
        refused(project, "block/float32", "--against", "accepted")
    )
    precreg(project, "run", "block")
    assert precreg(project, "baseline", "accept", "--all", "--reason", "first").returncode == 0
    assert "no commit has its present entry" in refused(project, "block/float32", "--against", "accepted")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "accepted")
    accepted = git(project, "rev-parse", "HEAD")
    # A small new rounding stands before the cause.
    plant(project, "normed = layer_norm(x, eps)", "normed = layer_norm(x * 3 / 3, eps)")
    plant(project, "weights.sum(-1, keepdims=True)", "weights.sum(-1, keepdims=True, dtype=np.float16)")
    git(project, "commit", "-qam", "regressed")
    trace, text = traced(project, "block/float32", "--against", "accepted")
    found = trace["against"]
    assert (found["commit"], found["revision"], found["first"]["name"]) == (accepted, "accepted", "sum")
    assert found["explained"] == pytest.approx(1, abs=0.05)
    assert re.search(
        rf"since accepted \({accepted[:8]}\): .*; its line explains \d+ % of the growth of the error of out", text
    )


def test_the_same_version_has_no_difference(project):
    found = traced(project, "block/float32", "--against", "HEAD")[0]["against"]
    assert (found["first"], found["formula"]) == (None, None)
    assert found["matched"] == found["operations"] >= 15


def test_a_version_that_cannot_run_the_case_is_reported(project):
    plant(
        project,
        "def block(x, w, eps):",
        "def block(x, w, eps):\n    return helper(x, w, eps)\n\n\ndef helper(x, w, eps):",
    )
    git(project, "commit", "-qam", "second")
    (project / "suites" / "unit" / "block.yaml").write_text(SUITE.replace("k:block", "k:helper"))
    assert "at HEAD~1" in refused(project, "block/float32", "--against", "HEAD~1")
    assert "error[unknown-revision]" in refused(project, "block/float32", "--against", "no-such-branch")


def test_one_case_at_a_time(project):
    several = refused(project, "unit/block")
    assert "got pattern=unit/block; there are 2: unit/block/float32, unit/block/float16" in several
    assert 'did you mean "unit/block/float32"?' in refused(project, "unit/block/float33")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--output", "outt"), 'got output=outt; did you mean "out"?'),
        (("--dtype", "flaot16"), 'got dtype=flaot16; did you mean "float16"?\n  what to do: write --dtype bfloat16'),
        (("--seed", "-1"), "-1 is not in the range"),
    ],
)
def test_wrong_options_are_refused(project, arguments, expected):
    assert expected in refused(project, "block/float32", *arguments)


def test_the_declared_dtype_decides_which_rounding_is_normal(project):
    plant(project, "scores = q @ k.T", "scores = (q.astype(np.float16) @ k.T.astype(np.float16)).astype(x.dtype)")
    assert "first loss" not in traced(project, "block/float32", "--dtype", "float16")[1]


def test_without_shares_there_are_none(project):
    trace, _ = traced(project, "block/float32", "--no-shares")
    assert not any(operation.get("shares") for operation in trace["operations"])
    assert trace["outputs"][0].get("sum_of_shares") is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("raise ValueError('no such lane')", "ValueError: no such lane"),
        ("raise SystemExit(3)", "exited with 3"),
        ("import os; os._exit(3)", "exited with 3"),
        ("return None", "got None for output out"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_a_subject_that_fails_is_reported_as_a_run_reports_it(project, body, expected):
    plant(project, "def block(x, w, eps):\n", f"def block(x, w, eps):\n    {body}\n")
    message = refused(project, "block/float32")
    assert "error[trace-failed]" in message
    assert expected in message


def test_an_output_with_an_infinity_has_no_shares_and_the_coverage_says_so(project):
    plant(project, "return softmax(scores) @ v", "return softmax(scores) @ v * x.dtype.type(6e4) * x.dtype.type(6e4)")
    assert "no sum of shares of out: " in traced(project, "block/float16")[1]


def test_two_options_do_not_write_one_file(project):
    message = refused(project, "block/float32", "--json", "t.json", "--save", "./t.json")
    assert "error[bad-value]: expected a file of its own for --save but --json has it: t.json" in message
    assert not (project / "t.json").exists()


def test_a_watch_outside_of_the_shape_names_it(project):
    shown = precreg(project, "trace", "block/float32", "--watch", "scores[99]").stdout
    assert "expected indices inside of the shape 6x6 but got [99]" in shown


def test_what_a_subject_prints_stays_out_of_the_output(project):
    plant(project, "def block(x, w, eps):\n", "def block(x, w, eps):\n    print('hello')\n")
    done = precreg(project, "trace", "block/float32", "--json", "-")
    assert "hello" in done.stderr
    assert json.loads(done.stdout)["case"] == "unit/block/float32"


def test_a_subject_that_does_not_repeat_is_named(project):
    plant(
        project,
        "return softmax(scores) @ v",
        "return softmax(scores) @ v * x.dtype.type(np.random.default_rng().random())",
    )
    trace, _ = traced(project, "block/float32")
    assert (trace["same_bits"], trace["repeats"]) == (False, False)


def test_a_failing_reference_leaves_the_trace_of_the_subject(project):
    file = project / "suites" / "unit" / "k.py"
    file.write_text(
        file.read_text().replace("def exact(x, w, eps):\n", "def exact(x, w, eps):\n    raise ValueError('lost')\n")
    )
    trace, _ = traced(project, "block/float32")
    assert (trace["oracle"], trace["oracle_problem"]) == ("", "ValueError: lost")
    assert trace["outputs"][0]["rounding"]["relative"] > 0


def test_a_golden_is_named_as_such(project):
    suite = project / "suites" / "unit" / "block.yaml"
    suite.write_text(SUITE.replace("reference: k:exact", "golden: k:block"))
    trace, _ = traced(project, "block/float32")
    assert trace["oracle"] == "golden"
    assert trace.get("formula") is None
    assert trace["outputs"][0]["tolerances"] == 0.0


def test_recorded_outputs_have_nothing_to_trace(project):
    np.save(project / "suites" / "unit" / "out.npy", np.zeros((6, 16), np.float32))
    suite = project / "suites" / "unit" / "block.yaml"
    suite.write_text(SUITE.replace("subject: k:block", "subject: {files: {out: out.npy}}"))
    assert "error[untraceable]" in refused(project, "block/float32")


def test_a_case_that_cannot_run_here_is_refused(project):
    suite = project / "suites" / "unit" / "block.yaml"
    suite.write_text(SUITE + "requires: [no_such_package]\n")
    message = refused(project, "block/float32")
    assert "error[untraceable]" in message
    assert "needs no_such_package, which is not installed" in message


def test_a_trace_leaves_the_project_as_it_was_and_uses_one_thread(project):
    done = started(project, "trace", "block/float32")
    assert done.returncode == 0, done.stderr
    assert git(project, "status", "--short") == ""


def test_dumps_of_another_machine_are_compared_in_order(project):
    """A probe and the output, whose stored values are those of a run and of a run with a fault."""
    plant(
        project, "    return softmax(scores) @ v", "    precreg.probe('scores', scores)\n    return softmax(scores) @ v"
    )
    kernel = project / "suites" / "unit" / "k.py"
    kernel.write_text(f"import precreg\n{kernel.read_text()}")
    from precreg.run import draw_inputs
    from precreg.suite import load_cases

    (case,) = [case for case in load_cases(project) if case.name == "float32"]
    inputs = draw_inputs(case, 0, project / "suites" / "unit", project)
    namespace = {}
    exec(KERNEL, namespace)
    out = namespace["block"](**inputs, eps=1e-5)
    folder = project / "dumps"
    folder.mkdir()
    np.save(folder / "out.npy", out * np.float32(1.001))
    np.save(folder / "other.npy", out)
    trace, text = traced(project, "block/float32", "--dumps", "dumps")
    found = trace["dumps"]
    assert [(layer["name"], layer["unexplained"]) for layer in found["layers"]] == [("out", True)]
    assert (found["only_dumped"], found["only_traced"]) == (["other"], ["scores"])
    assert found["layers"][0]["dumped"]["relative"] == pytest.approx(1e-3, rel=0.01)
    rounding = trace["outputs"][0]["rounding"]["relative"]
    assert found["layers"][0]["here"]["relative"] == pytest.approx(rounding, rel=1e-9)
    assert "out" in text


def test_a_folder_without_tensors_is_refused(project):
    (project / "dumps").mkdir()
    assert "error[not-comparable]" in refused(project, "block/float32", "--dumps", "dumps")


CHOICE = """\
suite: choice
about: A classifier, a loop and a logarithm
subject: c:FUNCTION
reference: c:FUNCTION_exact
matrix:
  dtype: [float32]
inputs:
  x: {shape: [64, 128], dtype: $dtype, normal: {mean: 0.5, std: 1}}
tolerance: {rtol: 1e-3, atol: 1e-5}
"""

CHOICES = """\
import numpy as np


def classes(x):
    scores = (x @ x.T - 64).astype(np.float16) * np.float16(1e-3)
    return scores.argmax(-1)


def classes_exact(x):
    return ((x @ x.T - 64) * np.float16(1e-3)).argmax(-1)


def loop(x):
    total = np.zeros(128, x.dtype)
    for row in x:
        total = total + row
    return total


def loop_exact(x):
    return x.sum(0)


def logarithm(x):
    narrow = x.astype(np.float16)
    return np.log(narrow - narrow)


def logarithm_exact(x):
    return np.log(x - x + 1)
"""


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            "loop",
            r"largest share: suites/unit/c.py:16 `total = total \+ row`, add 64 times: own errors up to 0.\d+ ULP",
        ),
        ("loop", r"ULP of float32; 100 % of the error of out"),
        ("logarithm", r"no shares of out: its rounding error is 0, and it has 8,192 Inf"),
    ],
)
def test_answers_are_of_lines_and_sums_that_are_missing_have_a_reason(project, function, expected):
    (project / "suites" / "unit" / "c.py").write_text(CHOICES)
    (project / "suites" / "unit" / "choice.yaml").write_text(CHOICE.replace("FUNCTION", function))
    assert re.search(expected, traced(project, "choice")[1])


def test_flipped_classes_are_counted_and_the_error_that_moved_them_is_named(project):
    """Scores of distinct sizes that float16 rounds to one: plain numpy counts the classes that differ."""
    (project / "suites" / "unit" / "c.py").write_text(CHOICES)
    suite = CHOICE.replace("FUNCTION", "classes").replace(
        "normal: {mean: 0.5, std: 1}", "uniform: {low: 1, high: 1.0001}"
    )
    (project / "suites" / "unit" / "choice.yaml").write_text(suite)
    from precreg.run import draw_inputs
    from precreg.suite import load_cases

    (case,) = [case for case in load_cases(project) if case.suite == "choice"]
    x = draw_inputs(case, 0, project / "suites" / "unit", project)["x"]
    wide = x.astype(np.float64)
    exact = (wide @ wide.T - 64) * float(np.float16(1e-3))
    rounded = ((x @ x.T - 64).astype(np.float16) * np.float16(1e-3)).argmax(-1)
    differ = int(np.sum(rounded != exact.argmax(-1)))
    assert differ > 10
    text = traced(project, "choice")[1]
    counted = rf"out: {differ} of 64 elements differ from the exact choice of argmax; the largest own error before it: "
    assert re.search(counted + r"suites/unit/c.py:5 .*, (astype|multiply): [\d.]+ ULP of float32", text)


def test_bounds_are_no_smaller_than_the_measured_errors(project):
    plain, _ = traced(project, "block/float32")
    assert all(operation["bound"] is None for operation in plain["operations"])
    found, text = traced(project, "block/float32", "--bounds", "--all")
    assert "bound of rounding" in text
    bounded = [each for each in found["operations"] if each["bound"] is not None]
    assert {"matmul", "exp", "divide", "multiply"} <= {each["name"] for each in bounded}
    for operation in bounded:
        assert operation["own"]["relative"] <= operation["bound"] * 1.0001
    (output,) = found["outputs"]
    assert output["rounding"]["relative"] <= output["bound"] < 1e-3
    # Bounds change neither bits nor errors.
    assert [each["own"] for each in found["operations"]] == [each["own"] for each in plain["operations"]]
