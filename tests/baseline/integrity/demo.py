"""A small project in a repository of its own, with something of everything that can be lowered; all of it accepted."""

import shutil
from pathlib import Path

import numpy as np
import yaml

from precreg.baseline.integrity.base import acceptance_criteria
from precreg.baseline.proposal import update_proposals
from precreg.baseline.review import accept_proposals
from precreg.baseline.store import Baselines
from precreg.run.pipeline import CaseJudge
from precreg.subject.module_space import leave_module_space
from precreg.suite.expand import load_cases
from tests.baseline.plain import document_of, write_document
from tests.e2e.command import git, repository

KERNELS = """\
from pathlib import Path

import numpy as np
from shared import widened


def mean(x, mode=None):
    return (np.sum(x, axis=0, dtype=np.float32) / len(x)).astype(x.dtype)


def exact(x, mode=None):
    return average(widened(x))


def average(x):
    return np.sum(x, axis=0) / len(x)


def copied(x, how):
    return x.copy()


def scaled(x, how):
    return x * x.dtype.type((Path(__file__).parent / how).read_text())
"""
SHARED = """\
from pathlib import Path


def widened(x):
    return x.astype('float64') * float((Path(__file__).parent / "scale.txt").read_text())


def unrelated(x):
    return x
"""
TOLERANCES = """\
default:
  standard: torch-2.13
  float16: {rtol: 1e-2, atol: 1e-3}
tiers:
  unit: {max_ulp: 4096}
categories:
  reduction: {mean_ulp: 4}
environments:
  npu: {max_ulp: 32}
"""
MEAN = """\
suite: mean
subject: kernels:mean
reference: kernels:exact
benchmark: theirs:mean
category: reduction
matrix:
  dtype: [float16, float32]
  n: [16, 32]
inputs:
  x: {shape: [$n, 64], dtype: $dtype, normal: {mean: 0, std: 1}}
params: {}
seeds: 2
repeats: 2
timeout: 60
tags: [gate]
budget: {time_ratio: 1000}
tolerance:
  mean_rel_error: 1
  regression: {mean_abs_error: 0.1}
  outputs: {out: {cosine: 0.9}}
cases:
  - match: float16-*
    tolerance: {rms_error: 0.1, rtol: 0.05, atol: 0.01}
"""
COPY = """\
suite: copy
subject: kernels:copied
golden: kernels:scaled
exact: true
params: {how: ../scale.txt}
matrix: {n: [16]}
inputs: {x: {shape: $n, dtype: float32, uniform: {}}}
"""
RECORDED = """\
suite: recorded
files: {actual: "outputs/{version}/*.npy", golden: "golden/*.npy"}
baseline_of: {version: v1}
"""
DEVICE = """\
suite: device
subject: kernels:mean
reference: kernels:exact
device: npu
matrix: {n: [16]}
inputs: {x: {shape: [$n, 64], dtype: float32, normal: {}}}
tolerance: {rtol: 1, atol: 1, max_ulp: 1e+9}
"""
TABLE = """\
about: ours
reductions:
  float32: {accumulator: float16, output: float32}
elementwise:
  float32: {format: float32}
"""
# A second implementation, one level up: a suite that moves to another tier finds it, too.
THEIRS = """\
def scaled(x):
    return x


def mean(x, mode=None):
    return scaled(x).mean(axis=0)


def worse(x):
    return scaled(x).mean(axis=0) * x.dtype.type(1.5)
"""
FILES = {
    "suites/theirs.py": THEIRS,
    "suites/tolerances.yaml": TOLERANCES,
    "suites/unit/mean.yaml": MEAN,
    "suites/unit/copy.yaml": COPY,
    "suites/unit/recorded.yaml": RECORDED,
    "suites/unit/device.yaml": DEVICE,
    "suites/devices/npu.yaml": TABLE,
    "suites/unit/kernels.py": KERNELS,
    "suites/shared.py": SHARED,
    "suites/scale.txt": "1",
}
MEANS = "baselines/generic/unit/mean.json"
CASE = "unit/mean/float16-n=16"
LABEL = "cpu-test"


class Demo:
    """A copy of the project, one change at a time."""

    def __init__(self, root):
        self.root, self.base = root, git(root, "rev-parse", "HEAD")

    def read(self, path):
        return (self.root / path).read_text()

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def change(self, path, before, after):
        assert self.read(path).count(before) == 1, f"{before!r} in {path}"
        self.write(path, self.read(path).replace(before, after))

    def entries(self, edit, path=MEANS):
        """Change the entries of a file of baselines by hand, as one who knows how checksums are made."""
        document = document_of(self.root / path)
        edit(document["cases"])
        write_document(self.root / path, document)

    def copied_entries(self, path, to, edit=None, **header):
        """Write the entries of a file of baselines into the files of another suite or environment."""
        document = document_of(self.root / path) | header
        if edit is not None:
            edit(document["cases"])
        write_document(self.root / to, document)

    def allow(self, *entries):
        self.write("baselines/allow.yaml", yaml.safe_dump({"allow": list(entries)}))

    def bar(self, environ=None, base=None):
        cases = load_cases(self.root, environ or {})
        return acceptance_criteria(self.root, base or self.base, cases, Baselines(self.root), environ or {})

    def judged(self, case, **options):
        """Return the result of one case, as a run against the base judges it."""
        held = self.bar(**options)
        judge = CaseJudge(self.root, environment=LABEL, ci=True, baselines=held.baselines)
        return ran(judge, [each for each in held.cases if each.id == case])[0]

    def accept(self, *cases):
        """Run cases and accept what they give now, as a person would."""
        every = load_cases(self.root, {})
        judge = CaseJudge(self.root, environment=LABEL, ci=False)
        results = ran(judge, [case for case in every if not cases or case.id in cases])
        update_proposals(self.root, results, judge.environment, None)
        known = {case.id for case in every}
        accept_proposals(self.root, ["*"], known=known, reason="demo", author="Ada", date="2026-11-21", environ={})

    def commit(self):
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", "more")
        return git(self.root, "rev-parse", "HEAD")


def ran(judge, cases):
    """Run cases, and leave sys.path as it was; a folder's modules are loaded once, whatever is written there later."""
    try:
        return [judge.run(case) for case in cases]
    finally:
        leave_module_space()


def make(folder: Path):
    """Make the project, accept what it computes, and commit it."""
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    for name in ("golden/a", "golden/b", "outputs/v1/a", "outputs/v1/b", "outputs/v2/a", "outputs/v2/b"):
        (folder / "suites/unit" / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / "suites/unit" / f"{name}.npy", np.linspace(0, 1, 32, dtype=np.float32))
    repository(folder)
    Demo(folder).accept()
    (folder / ".gitignore").write_text("__pycache__/\n.precreg/\nreports/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "accepted")


def copy(template, folder):
    """Copy the project with its repository."""
    shutil.copytree(template, folder, dirs_exist_ok=True)
    return Demo(folder)
