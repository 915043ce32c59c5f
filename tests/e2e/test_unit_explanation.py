"""A model's failure names the unit cases that explain it, in a run with every report and in `precreg diagnose`."""

import json
import shutil
from xml.etree import ElementTree

import pytest

from tests.e2e.command import change, git, precreg, repository

# One step of Adam, with the gradients and the decay of weights as kernels of their own.
KERNELS = """\
import numpy as np

RATE = np.float32(0.01)


def update(w, m, v):
    return w - RATE * (m / (np.sqrt(v) + np.float32(1e-8)))


def moments(m, v, g):
    return np.float32(0.9) * m + np.float32(0.1) * g, np.float32(0.999) * v + np.float32(0.001) * (g * g)


def gradient(x, w):
    return np.tanh(x) * w / np.float32(7)


def shown(w):
    rows = []
    for row in w:
        rows.append(row)
    return np.stack(rows)
"""
UNIT = """\
import kernels


def update(w, m, v):
    return kernels.update(w, m, v)


def gradient(x, w):
    return kernels.gradient(x, w)


def shown(w):
    return kernels.shown(w)
"""
STEPS = """\
import numpy as np

import kernels


def step(w, m, v, x):
    m, v = kernels.moments(m, v, kernels.gradient(x, w))
    return kernels.update(w, m, v), m, v


def adam_step(w, m, v, x):
    return kernels.shown(step(w, m, v, x)[0])


def adam_training(w, x):
    m, v = np.zeros_like(w), np.zeros_like(w)
    for _ in range(8):
        w, m, v = step(w, m, v, x)
    return {"weights": kernels.shown(w)}
"""
NORMAL = "{shape: [16, 50], dtype: float32, normal: {}}"
POSITIVE = "{shape: [16, 50], dtype: float32, uniform: {low: 0.1, high: 1}}"
INPUTS = {
    "unit/apply_adam": ("unit_kernels:update", {"w": NORMAL, "m": NORMAL, "v": POSITIVE}),
    "unit/gradient": ("unit_kernels:gradient", {"x": NORMAL, "w": NORMAL}),
    "unit/shown": ("unit_kernels:shown", {"w": NORMAL}),
    "integration/adam_step": ("steps:adam_step", {"w": NORMAL, "m": NORMAL, "v": POSITIVE, "x": NORMAL}),
    "model/adam_training": ("steps:adam_training", {"w": NORMAL, "x": NORMAL}),
}
FILE = "suites/kernels.py"
SWAPPED = ("RATE * (m / (np.sqrt(v) + np.float32(1e-8)))", "(RATE * m) / (np.sqrt(v) + np.float32(1e-8))")
TURNED = ("np.tanh(x) * w / np.float32(7)", "np.tanh(x) * (w / np.float32(7))")
TIDIED = (
    "    rows = []\n    for row in w:\n        rows.append(row)\n    return np.stack(rows)",
    "    return w.copy()",
)
ADAM = "unit/apply_adam/default"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """Return a repository whose three tiers have accepted baselines, with the golden outputs of the code then."""
    folder = tmp_path_factory.mktemp("accepted") / "project"
    for name, (subject, inputs) in INPUTS.items():
        lines = "\n".join(f"  {key}: {value}" for key, value in inputs.items())
        suite = name.partition("/")[2]
        path = folder / f"suites/{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        golden = "golden_" + subject.partition(":")[0]
        path.write_text(
            f"suite: {suite}\nsubject: {subject}\ngolden: {golden}:{subject.partition(':')[2]}\n"
            f"tolerance: {{rtol: 0, atol: 0, match_ratio: 0.5}}\ninputs:\n{lines}\n"
        )
    for file, text in (("kernels", KERNELS), ("steps", STEPS), ("unit_kernels", UNIT)):
        (folder / f"suites/{file}.py").write_text(text)
        (folder / f"suites/golden_{file}.py").write_text(
            text.replace("kernels.", "golden_kernels.").replace("import kernels", "import golden_kernels")
        )
    repository(folder)
    assert precreg(folder, "run", "--jobs", "2").returncode == 2
    done = precreg(folder, "baseline", "accept", "*", "--reason", "first")
    assert done.returncode == 0, done.stderr
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "accepted")
    return folder


@pytest.fixture
def project(accepted, tmp_path):
    folder = tmp_path / "project"
    shutil.copytree(accepted, folder)
    return folder


def run(folder, *changes):
    """Change the kernels, run all cases, and return the command with the explanations of each diagnosed case."""
    for each in changes:
        change(folder / FILE, *each)
    done = precreg(folder, "run", "--jobs", "2", "--diagnose", "300")
    assert done.returncode == 1, done.stdout + done.stderr
    record = json.loads((folder / "reports/record.json").read_text())
    found = {each["id"]: each["diagnosis"] for each in record["results"] if each["diagnosis"] is not None}
    return done, {case: each["explained_by"] for case, each in found.items()}


def test_every_report_names_the_unit_case_that_explains_a_larger_one(project):
    done, found = run(project, SWAPPED, TIDIED)
    whole = {"case": ADAM, "shared": [f"{FILE}:update"], "share": 1.0}
    assert found == {ADAM: [], "integration/adam_step/default": [whole], "model/adam_training/default": [whole]}
    texts = {
        "terminal": (done.stdout, "{case}: explained by {end}"),
        "markdown": ((project / "reports/summary.md").read_text(), "- `{case}`: explained by {end}"),
        "html": ((project / "reports/report.html").read_text(), '["explained by","{end}"]'),
    }
    end = f"{ADAM} (order of operations), 100 % of the loss"
    for case in ("integration/adam_step/default", "model/adam_training/default"):
        for name, (text, line) in texts.items():
            assert line.format(case=case, end=end) in text, name
    bodies = [each.text for each in ElementTree.parse(project / "reports/junit.xml").iter("failure")]
    assert sum(f"explained by: {end}" in body for body in bodies) == 2
    entries = json.loads((project / "reports/codequality.json").read_text())
    assert sum(f"explained by {end}" in entry["description"] for entry in entries) == 2


def test_two_kernels_get_a_share_each_and_the_larger_comes_first(project):
    _, found = run(project, SWAPPED, TURNED, TIDIED)
    gradient, adam = found["model/adam_training/default"]
    assert (gradient["case"], gradient["shared"]) == ("unit/gradient/default", [f"{FILE}:gradient"])
    assert (adam["case"], adam["shared"]) == (ADAM, [f"{FILE}:update"])
    assert gradient["share"] > adam["share"] > 0.2
    assert gradient["share"] + adam["share"] == pytest.approx(1.0)


def test_a_refactoring_explains_nothing(project):
    change(project / FILE, *TIDIED)
    done = precreg(project, "run", "--jobs", "2", "--diagnose", "300")
    assert done.returncode == 0
    assert "explained by" not in done.stdout + done.stderr


def test_diagnose_finds_the_unit_cases_by_the_changed_files(project):
    change(project / FILE, *SWAPPED)
    done = precreg(project, "diagnose", "model/adam_training", "--json", "-", "--seconds", "300")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["explained_by"] == [{"case": ADAM, "shared": [f"{FILE}:update"], "share": 1.0}]
    assert f"explained by: {ADAM}, 100 % of the loss" in done.stderr
