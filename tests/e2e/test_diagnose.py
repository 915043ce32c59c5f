"""`precreg diagnose` in a repository: one change of a kernel, and the cause that is named for it."""

import json

import pytest

from tests.e2e.command import accept_on_main, change, git, precreg, repository

KERNELS = """\
import numpy as np


def adam(w, m, v, g):
    m = np.float32(0.9) * m + np.float32(0.1) * g
    v = np.float32(0.999) * v + np.float32(0.001) * g * g
    denominator = np.sqrt(v) + np.float32(1e-8)
    return {"w": w - np.float32(0.001) * (m / denominator), "m": m, "v": v}


def layer_norm(x):
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + np.float32(1e-5))


def attention(q, k, v):
    scores = q @ k.T / np.float32(8)
    scores = scores - scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights @ v


def score(x, w):
    hidden = np.maximum(x @ w, np.float32(0))
    return hidden.mean(axis=0)
"""
SUITE = """\
suite: {name}
subject: kernels:{name}
{oracle}
inputs:
{inputs}
"""
INPUTS = {
    "adam": {"w": [64, 50], "m": [64, 50], "v": [64, 50], "g": [64, 50]},
    "layer_norm": {"x": [32, 100]},
    "attention": {"q": [40, 64], "k": [50, 64], "v": [50, 64]},
    "score": {"x": [30, 70], "w": [70, 45]},
}


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """Return a repository with accepted baselines of all kernels."""
    folder = tmp_path_factory.mktemp("accepted") / "project"
    (folder / "suites/unit").mkdir(parents=True)
    (folder / "suites/unit/kernels.py").write_text(KERNELS)
    for name, inputs in INPUTS.items():
        lines = [f"  {key}: {{shape: {shape}, dtype: float32, {_values(key)}}}" for key, shape in inputs.items()]
        text = SUITE.format(name=name, oracle=f"reference: kernels:{name}", inputs="\n".join(lines))
        (folder / f"suites/unit/{name}.yaml").write_text(text)
    return accept_on_main(repository(folder))


def _values(name):
    return "uniform: {low: 0, high: 1}" if name == "v" else "normal: {mean: 0, std: 1}"


def diagnosed(accepted, tmp_path, old, new, case, *options):
    """Change the kernels, and return the finished command and its diagnosis."""
    project = tmp_path / "project"
    git(tmp_path, "clone", "-q", str(accepted), str(project))
    git(project, "config", "user.name", "Ada")
    git(project, "config", "user.email", "ada@example.org")
    change(project / "suites/unit/kernels.py", old, new)
    done = precreg(project, "diagnose", case, "--json", "-", "--seconds", "300", *options)
    assert "Traceback" not in done.stderr, done.stderr
    return done, json.loads(done.stdout)


# The change, the case, and what is named: rewrite, options and the code of the guilty line.
CHANGES = {
    "divide after multiply": (
        "np.float32(0.001) * (m / denominator)",
        "(np.float32(0.001) * m) / denominator",
        "adam",
        ("swapped_order", {}, "np.float32(0.001) * (m / denominator)"),
    ),
    "dropped epsilon": (
        "np.sqrt(variance + np.float32(1e-5))",
        "np.sqrt(variance)",
        "layer_norm",
        ("dropped_epsilon", {}, "np.sqrt(variance + np.float32(1e-5))"),
    ),
    "moved epsilon": (
        "np.sqrt(variance + np.float32(1e-5))",
        "(np.sqrt(variance) + np.float32(1e-5))",
        "layer_norm",
        ("moved_epsilon", {}, "np.sqrt(variance + np.float32(1e-5))"),
    ),
    "other epsilon": (
        "np.float32(1e-5)",
        "np.float32(1e-3)",
        "layer_norm",
        ("other_constant", {"operand": 1, "value": pytest.approx(1e-3)}, "variance + np.float32(1e-5)"),
    ),
    "cast of an input": (
        "    scores = q @ k.T / np.float32(8)",
        "    k = k.astype(np.float16).astype(np.float32)\n    scores = q @ k.T / np.float32(8)",
        "attention",
        ("hop_operand", {"operand": 1, "format": "float16"}, "q @ k.T"),
    ),
    "cast of a result": (
        "weights = np.exp(scores)",
        "weights = np.exp(scores).astype(np.float16).astype(np.float32)",
        "attention",
        ("hop_result", {"format": "float16"}, "np.exp(scores)"),
    ),
    "constant without a usual value": (
        "np.float32(8)",
        "np.float32(7.93)",
        "attention",
        ("other_constant", {"operand": 1, "value": pytest.approx(7.93, rel=1e-5)}, "q @ k.T / np.float32(8)"),
    ),
    "tail of a block": (
        "    hidden = np.maximum(x @ w, np.float32(0))",
        "    x = x.copy()\n    x[:, 64:] = x[:, 63:69].copy()\n    hidden = np.maximum(x @ w, np.float32(0))",
        "score",
        ("tail", {"block": 16, "way": "early", "axis": -1}, None),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_cause_is_named_with_its_place_and_all_bits(accepted, tmp_path, name):
    old, new, case, (rewrite, options, expression) = CHANGES[name]
    done, found = diagnosed(accepted, tmp_path, old, new, case)
    assert found["status"] == "found", found
    cause = found["causes"][0]
    assert (cause["rewrite"], cause["options"]) == (rewrite, options)
    assert cause["evidence"]["reproduced"] == cause["evidence"]["elements"]
    assert cause["evidence"]["explained"] == cause["evidence"]["differing"] > 0
    if expression is not None:
        assert cause["place"]["expression"] == expression
        assert cause["place"]["site"]["file"] == "suites/unit/kernels.py"
    assert done.returncode == 0


def test_a_stale_buffer_is_named_where_the_second_run_departs(accepted, tmp_path):
    old = "    return hidden.mean(axis=0)\n"
    new = "    total = hidden.mean(axis=0) + STALE\n    STALE[:] = np.asarray(total) * 1e-7\n    return total\n\n\n"
    done, found = diagnosed(accepted, tmp_path, old, f"{new}STALE = np.zeros(45, np.float32)\n", "score")
    assert found["status"] == "nondeterministic"
    (cause,) = found["causes"]
    assert (cause["rewrite"], cause["options"]) == ("left_by_earlier_call", {"operand": 1})
    assert cause["place"]["expression"] == "hidden.mean(axis=0) + STALE"
    assert done.returncode == 1


def test_the_shapes_of_the_errors_are_in_the_diagnosis(accepted, tmp_path):
    old = "    return centred / np.sqrt(variance + np.float32(1e-5))"
    new = "    out = centred / np.sqrt(variance + np.float32(1e-5))\n    out[:, 96:] = out[:, :4]\n    return out"
    done, found = diagnosed(accepted, tmp_path, old, new, "layer_norm")
    shapes = {each["kind"]: each["values"] for each in found["fingerprints"]}
    assert (shapes["last_block"]["axis"], shapes["last_block"]["start"]) == (1, 96)
    assert "shape: out: 100 % of the squared error is from index 96 of axis 1" in done.stderr


def test_a_case_without_an_error_passes(accepted, tmp_path):
    done, found = diagnosed(accepted, tmp_path, "import numpy as np\n", "import numpy as np  # fast\n", "adam")
    assert (done.returncode, found["status"], found["causes"]) == (0, "passed", [])


def test_a_case_that_fails_itself_is_said_plainly(accepted, tmp_path):
    done, found = diagnosed(
        accepted, tmp_path, "    mean = x.mean(axis=-1, keepdims=True)", "    mean = y", "layer_norm"
    )
    assert (done.returncode, found["status"]) == (2, "failed")
    assert "NameError" in found["problem"]
