"""`precreg trace` where the order of operations differs and the formula does not: operators of the golden's kind."""

import json

import numpy as np
import pytest

from tests.e2e.command import ROOT, change, git, precreg, repository, with_suite

SUITE = """\
suite: step
about: An update keeps the golden's bits
subject: k:step
golden: k:golden
matrix:
  dtype: [float32]
inputs:
  w: {shape: [64, 64], dtype: $dtype, normal: {mean: 0, std: 1}}
  m: {shape: [64, 64], dtype: $dtype, normal: {mean: 0, std: 0.2}}
  v: {shape: [64, 64], dtype: $dtype, uniform: {low: 0.5, high: 0.7}}
params: {rate: 0.3}
tolerance: {rtol: 1e-6, atol: 1e-7}
"""

# The golden multiplies by 2 in another order, too, which rounds nothing.
KERNEL = """\
import numpy as np


def step(w, m, v, rate):
    twice = w + w
    rate = w.dtype.type(rate)
    quotient = m / np.sqrt(v)
    return {"w": (twice - rate * quotient) * w.dtype.type(0.5), "m": m * m}


def golden(w, m, v, rate):
    rate = w.dtype.type(rate)
    quotient = np.divide(m, np.sqrt(v))
    twice = np.multiply(w, w.dtype.type(2))
    return {"w": np.multiply(np.subtract(twice, np.multiply(rate, quotient)), w.dtype.type(0.5)), "m": m * m}
"""


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path, SUITE, KERNEL, "step"))


@pytest.fixture
def kernel(project):
    return project / "suites" / "unit" / "k.py"


def swap(kernel):
    change(kernel, "    quotient = m / np.sqrt(v)\n", "    product = rate * m\n")
    change(kernel, "twice - rate * quotient", "twice - product / np.sqrt(v)")


def traced(project, *arguments):
    done = precreg(project, "trace", "step", *arguments, "--json", "trace.json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads((project / "trace.json").read_text()), done.stdout


def changed_elements(project):
    """Run both functions of the kernel apart from precreg, and count the elements of w that differ."""
    from precreg.run import draw_inputs
    from precreg.suite import load_cases

    (case,) = load_cases(project)
    inputs = draw_inputs(case, 0, project / "suites" / "unit", project)
    namespace = {}
    exec((project / "suites" / "unit" / "k.py").read_text(), namespace)
    return int(np.sum(namespace["step"](**inputs, rate=0.3)["w"] != namespace["golden"](**inputs, rate=0.3)["w"]))


def test_the_golden_s_order_needs_no_sentence(project):
    trace, text = traced(project)
    assert trace.get("order") is None
    assert "order of operations" not in text


def test_a_swap_is_named_with_the_golden_s_operation(project, kernel):
    swap(kernel)
    trace, text = traced(project)
    order = trace["order"]
    assert trace.get("formula") is None
    assert (order["output"], order["elements"]) == ("w", 4096)
    assert order["changed"] == changed_elements(project) > 0
    assert order["first"]["site"]["code"] == "product = rate * m"
    assert order["counterpart"]["site"]["code"] == "quotient = np.divide(m, np.sqrt(v))"
    assert (order["own_steps"], order["other_steps"]) == (1, 1)
    place = "suites/unit/k.py:7 `product = rate * m`, multiply"
    assert (
        f"the order of operations differs from the golden's: {place}; {order['changed']} of 4,096 elements of w" in text
    )
    assert "the golden has there: suites/unit/k.py:13 `quotient = np.divide(m, np.sqrt(v))`, divide" in text


def test_a_swap_is_on_the_page_and_in_a_stored_trace(project, kernel):
    swap(kernel)
    traced(project, "--report", "page.html", "--save", "saved.json")
    assert "the order of operations differs from the golden" in (project / "page.html").read_text()
    assert (
        "the order of operations differs from the golden's: " in precreg(project, "trace", "show", "saved.json").stdout
    )


def test_a_step_more_than_the_golden_takes_is_named(project, kernel):
    change(kernel, "quotient = m / np.sqrt(v)", "quotient = m * (w.dtype.type(1) / np.sqrt(v))")
    order = traced(project)[0]["order"]
    assert order["first"]["name"] == "divide"
    assert "m * (w.dtype.type(1) / np.sqrt(v))" in order["first"]["site"]["code"]
    assert order["counterpart"] is None


def test_a_step_that_the_golden_alone_takes_is_named(project, kernel):
    change(kernel, "np.divide(m, np.sqrt(v))", "np.multiply(m, np.divide(w.dtype.type(1), np.sqrt(v)))")
    trace, text = traced(project)
    assert trace["order"]["first"] is None
    assert (trace["order"]["counterpart"]["name"], trace["order"]["other_steps"]) == ("divide", 1)
    assert "the order of operations differs: the golden takes 1 step more: suites/unit/k.py:13 " in text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # The golden computes a part in float64, and rounds it.
        ("np.divide(m, np.sqrt(v))", "np.divide(m, np.sqrt(v.astype(np.float64))).astype(m.dtype)"),
        # The subject's scalar has another rounding.
        (
            "    rate = w.dtype.type(rate)\n    quotient = m",
            "    rate = w.dtype.type(np.float16(rate))\n    quotient = m",
        ),
    ],
)
def test_another_precision_is_no_other_order(project, kernel, before, after):
    change(kernel, before, after)
    trace, text = traced(project)
    assert changed_elements(project) > 0
    assert trace.get("order") is None
    assert "order of operations" not in text


def test_other_steps_to_the_same_bits_are_not_blamed(project, kernel):
    """m * m comes first, in another order of exact values, and the output w has its bits all the same."""
    swap(kernel)
    change(kernel, '"m": m * m}\n\n\ndef golden', '"m": (m * w) * m / w}\n\n\ndef golden')
    change(kernel, '"m": m * m', '"m": (m * m) * w / w')
    order = traced(project)[0]["order"]
    assert order["output"] == "m"
    assert "(m * w) * m / w" in order["first"]["site"]["code"]


def test_a_commit_that_changed_the_order_is_named(project, kernel):
    swap(kernel)
    git(project, "commit", "-qam", "another order")
    trace, text = traced(project, "--against", "HEAD~1")
    order = trace["against"]["order"]
    commit = git(project, "rev-parse", "HEAD~1")
    assert (order["other"], order["commit"], order["output"]) == ("version", commit, "w")
    assert order["first"]["site"]["code"] == "product = rate * m"
    assert order["counterpart"]["site"] == {
        "file": "suites/unit/k.py",
        "line": 7,
        "code": "quotient = m / np.sqrt(v)",
        "module": "",
    }
    assert f"the order of operations differs from the other version at {commit[:8]}'s" in text
    assert "w has other bits" in text
    assert "first new operation" not in text


def test_the_accepted_order_is_named(project, kernel):
    precreg(project, "run", "step")
    assert precreg(project, "baseline", "accept", "--all", "--reason", "first").returncode == 0
    git(project, "add", "-A")
    git(project, "commit", "-qm", "accepted")
    swap(kernel)
    trace, _ = traced(project, "--against", "accepted")
    assert trace["against"]["order"]["first"]["site"]["code"] == "product = rate * m"


def test_another_order_with_the_same_bits_needs_no_sentence(project, kernel):
    change(kernel, "twice = w + w", "twice = w.dtype.type(2) * w")
    assert traced(project, "--against", "HEAD")[0]["against"]["order"] is None


def test_the_swapped_order_of_the_shipped_adam_is_named(tmp_path):
    done = precreg(ROOT, "trace", "unit/apply_adam/float32-768x768-swapped", "--json", str(tmp_path / "trace.json"))
    assert done.returncode == 0, done.stderr
    order = json.loads((tmp_path / "trace.json").read_text())["order"]
    assert (order["first"]["site"]["file"], order["output"]) == ("suites/networks/adam.py", "w")
    assert order["first"]["site"]["code"] == "return (rate * m) / denominator"
    assert order["first"]["name"] == "multiply"
    assert order["counterpart"]["name"] == "divide"
    assert 0 < order["changed"] < order["elements"] / 1000
    assert "suites/networks/adam.py:47 `return (rate * m) / denominator`, multiply" in done.stdout


def test_the_cast_of_the_published_layer_norm_is_the_first_loss(tmp_path):
    done = precreg(ROOT, "trace", "unit/layer_norm_study/float16_by_64", "--json", str(tmp_path / "trace.json"))
    assert done.returncode == 0, done.stderr
    trace = json.loads((tmp_path / "trace.json").read_text())
    first = trace["operations"][trace["first_loss"]["operation"] - 1]
    assert first["site"]["code"] == "values = x.astype(np.float16).astype(np.float32)"
    assert trace["first_loss"]["cause"] == "cast"
    assert first["shares"]["out"] > 0.3
    assert 0.95 < trace["outputs"][0]["sum_of_shares"] < 1.05


@pytest.mark.parametrize("function", ["step", "golden"])
def test_a_function_that_fails_in_the_second_trace_leaves_the_reason(project, kernel, function):
    swap(kernel)
    # The subject runs plainly, traced, and for a second shadow before the orders are compared.
    limit = {"step": 3, "golden": 1}[function]
    change(
        kernel,
        f"def {function}(w, m, v, rate):\n",
        f"calls = []\n\n\ndef {function}(w, m, v, rate):\n    calls.append(w)\n"
        f"    if len(calls) > {limit}:\n        raise ValueError('called too often')\n",
    )
    trace, text = traced(project)
    assert trace["order"]["problem"] == "ValueError: called too often"
    assert "the order of operations is not compared with the golden's: ValueError: called too often; " in text
    assert f"{changed_elements(project)} of 4,096 elements of w differ" in text
