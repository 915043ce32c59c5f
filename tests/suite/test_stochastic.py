"""`stochastic:` of a suite and of single cases: defaults by kind, and every mistake with its place."""

import pytest

from precreg.errors import UserError
from precreg.suite.expand import load_cases
from precreg.types.case import Stochastic

SUITE = """\
suite: sums
subject: kernels:total
reference: kernels:total
matrix: {n: [16, 32]}
inputs:
  x: {shape: [$n], dtype: float32, normal: {mean: 0, std: 1}}
"""


@pytest.fixture
def cases(tmp_path):
    """Return a function that loads the cases of a suite of these lines."""
    (tmp_path / "suites/unit").mkdir(parents=True)
    (tmp_path / "suites/unit/kernels.py").write_text("def total(x):\n    return x.sum()\n")

    def load(*lines, suite=SUITE):
        (tmp_path / "suites/unit/sums.yaml").write_text(suite + "".join(f"{line}\n" for line in lines))
        return load_cases(tmp_path)

    return load


def test_without_the_key_there_are_no_samples(cases):
    assert [case.stochastic for case in cases()] == [None, None]


def test_the_key_has_defaults(cases):
    (first, second) = cases("stochastic: {}")
    assert first.stochastic == second.stochastic == Stochastic(30, "rounding", "normal", "mean", "relative", 0.95, 0.95)


def test_every_setting_is_read(cases):
    text = "{samples: 70, noise: inputs, method: general, against: oracle, error: absolute, probability: 0.96}"
    (first, _) = cases(f"stochastic: {text[:-1]}, confidence: 0.9}}")
    assert first.stochastic == Stochastic(70, "inputs", "general", "oracle", "absolute", 0.96, 0.9)


def test_a_case_has_its_own(cases):
    (first, second) = cases("stochastic: {}", "cases:", "  - {match: n=16, stochastic: {samples: 5}}")
    assert (first.stochastic.samples, second.stochastic.samples) == (5, 30)
    (first, second) = cases("cases:", "  - {match: n=16, stochastic: {samples: 5}}")
    assert (first.stochastic.samples, second.stochastic) == (5, None)


def test_the_definition_stays(cases):
    assert [case.definition for case in cases()] == [case.definition for case in cases("stochastic: {}")]


def test_another_kind_has_moved_inputs(cases):
    suite = SUITE.replace("subject: kernels:total", "subject: {torch: kernels:total}")
    assert cases("stochastic: {}", suite=suite)[0].stochastic.noise == "inputs"


@pytest.mark.parametrize(
    ("lines", "message", "line"),
    [
        (["stochastic: {samples: 2}"], "samples", 7),
        (["stochastic: {samples: 2.5}"], "samples", 7),
        (["stochastic: {probability: 1}"], "probability", 7),
        (["stochastic: {probability: 0}"], "probability", 7),
        (["stochastic: {confidence: 1.5}"], "confidence", 7),
        (["stochastic: {confidence: -0.5}"], "confidence", 7),
        (["stochastic: {noise: some}"], "noise", 7),
        (["stochastic: {smples: 30}"], "samples", 7),
        (["stochastic: 30"], "stochastic", 7),
        (["stochastic: {method: general}"], "expected samples: 59 or more for probability 0.95", 7),
        (["stochastic: {against: oracle}"], "expected method: general beside against: oracle", 7),
        (["cases:", "  - {match: n=16, stochastic: {method: general}}"], "but got samples=30", 8),
    ],
)
def test_a_mistake_has_its_place(cases, lines, message, line):
    with pytest.raises(UserError) as caught:
        cases(*lines)
    assert message in caught.value.message
    assert (caught.value.file, caught.value.line) == ("suites/unit/sums.yaml", line)


@pytest.mark.parametrize("kind", ["torch", "onnx", "command"])
def test_only_python_rounds_at_random(cases, tmp_path, kind):
    (tmp_path / "suites/unit/total.onnx").touch()
    value = {
        "torch": "{torch: kernels:total}",
        "onnx": "{onnx: total.onnx}",
        "command": "{command: [cp, '{inputs.x}', '{outputs.y}']}",
    }[kind]
    suite = SUITE.replace("subject: kernels:total", f"subject: {value}")
    with pytest.raises(UserError, match="only a Python subject rounds at random") as caught:
        cases("stochastic: {noise: rounding}", suite=suite)
    assert caught.value.slug == "bad-value"
    assert kind in caught.value.message


def test_recorded_results_have_no_samples(cases, tmp_path):
    files = 'suite: sums\nfiles: {actual: "{v}/*.npy", golden: "golden/*.npy"}\n'
    with pytest.raises(UserError, match="expected stochastic or files but got both"):
        cases("stochastic: {}", suite=files)
    with pytest.raises(UserError, match="but got recorded results"):
        cases("cases:", '  - {match: "*", stochastic: {}}', suite=files)
    table = "suite: sums\ntable: {file: a.csv, name: [a], metrics: {max_ulp: b}, dtype: float32}\n"
    with pytest.raises(UserError, match="expected stochastic or table but got both"):
        cases("stochastic: {}", suite=table)
