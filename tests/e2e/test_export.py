"""The tool chain as real commands: `precreg export` a node, `compare` it with its golden, `visualize` the two."""

import json

import numpy as np
import pytest

from tests.e2e.command import precreg

MODEL = """\
import numpy as np


def network(x, w, slope=np.float32(0.25)):
    hidden = x @ w
    return {"hidden": hidden, "active": np.where(hidden > 0, hidden, hidden * slope)}


def swapped(x, w):
    return network(x, w)["hidden"].T


def broken(x, w):
    return inner(x)


def inner(x):
    raise ValueError("no such layer")
"""


@pytest.fixture
def project(tmp_path):
    """A project whose model lies beside its suites; the inputs are float16 numbers, so that a device loses none."""
    folder = tmp_path / "suites" / "unit"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(MODEL)
    draw = np.random.default_rng(0).standard_normal
    np.save(tmp_path / "x.npy", draw((8, 300)).astype(np.float16).astype(np.float32))
    np.save(tmp_path / "w.npy", draw((300, 5)).astype(np.float16).astype(np.float32))
    return tmp_path


def export(project, *arguments, model="suites/unit/model:network", inputs=("x.npy", "w.npy")):
    given = [word for file in inputs for word in ("--input", file)]
    return precreg(project, "export", model, *given, *arguments)


def test_from_a_model_to_a_verdict_and_a_picture(project):
    for name, device in (("golden", "cpu"), ("actual", "mlu370")):
        done = export(project, "--node", "active", "--device", device, "--output", f"{name}.npy")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"{name}.npy  active: float32, shape 8×5\n"

    sides = ("--golden", "golden.npy", "--actual", "actual.npy")
    limits = ("--rtol", "1e-3", "--atol", "1e-5", "--report", "report.html", "--json", "record.json")
    compared = precreg(project, "compare", *sides, *limits)
    golden, actual = np.load(project / "golden.npy"), np.load(project / "actual.npy")
    error = np.abs(actual.astype(float) - golden)
    within = (error <= 1e-5 + 1e-3 * np.abs(golden.astype(float))).mean()
    assert error.max() > 0, "a device that cuts off at 20 bits is not numpy"
    figures = json.loads((project / "record.json").read_text())["pairs"][0]["comparison"]["metrics"]
    assert figures["max_abs_error"] == pytest.approx(error.max(), rel=1e-12)
    assert figures["match_ratio"] == within
    assert compared.returncode == (0 if within == 1 else 1), compared.stdout
    assert "<html" in (project / "report.html").read_text()

    drawn = precreg(project, "visualize", *sides, "--output", "dashboard.html")
    assert drawn.returncode == 0, drawn.stderr
    assert "<svg" in (project / "dashboard.html").read_text()


def test_a_node_is_what_the_model_computes(project):
    assert export(project, "--output", "all.npz").returncode == 0
    hidden = np.load(project / "x.npy") @ np.load(project / "w.npy")
    nodes = np.load(project / "all.npz")
    assert nodes.files == ["hidden", "active"]
    assert nodes["hidden"].tobytes() == hidden.tobytes()
    assert nodes["active"].tobytes() == np.where(hidden > 0, hidden, hidden / 4).tobytes()


def test_a_sequential_sum_of_cut_off_numbers_is_the_devices(project):
    """The device's sum against one written out here: each sum is cut off, one term after the other."""
    (project / "model.py").write_text("def total(x):\n    return x.sum(axis=-1)\n")
    done = export(project, "-o", "t.npy", "--device", "mlu370", model="model:total", inputs=["x.npy"])
    assert done.returncode == 0, done.stderr
    sums = np.zeros(8)
    for column in np.load(project / "x.npy").T:
        sums = cut_off(sums + column.astype(float))
    assert np.load(project / "t.npy").astype(float).tolist() == sums.tolist()


def cut_off(values, bits=21):
    """Keep 20 bits of the mantissa, and the leading one that no format stores."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.trunc(np.ldexp(fraction, bits)), exponent - bits)


@pytest.mark.parametrize("where", ["suites/unit", "."])
def test_a_module_is_found_from_a_folder_or_from_the_project_named(project, where):
    model = "model:swapped" if where == "suites/unit" else "suites/unit/model:swapped"
    inputs = ("--input", f"x={project}/x.npy", "--input", f"w={project}/w.npy")
    named = () if where == "suites/unit" else ("--project", project)
    folder = project / where if not named else project.parent
    done = precreg(folder, *named, "export", model, *inputs, "--output", "out/y.npy")
    assert done.returncode == 0, done.stderr
    assert np.load(folder / "out" / "y.npy").shape == (5, 8)


def test_a_model_that_raises_is_told_with_its_own_lines_and_leaves_what_was_there(project):
    (project / "y.npy").write_text("as it was")
    done = export(project, "--output", "y.npy", model="suites/unit/model:broken")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error[model-failed]: expected model:broken to return arrays but it failed: ValueError" in done.stderr
    assert "model.py" in done.stderr
    assert "precreg/" not in done.stderr.replace(str(project), "")
    assert "bug of precreg" not in done.stderr
    assert (project / "y.npy").read_text() == "as it was"
    assert not list(project.glob(".y*"))
