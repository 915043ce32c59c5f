"""CONTRIBUTING.md: the files and names of its steps exist, and its package brings a kind of subject."""

import re
import tomllib

import pytest

from precreg.run.case_run import run_case
from precreg.suite.expand import load_cases
from precreg.vcs.dependency import affected_cases
from tests.e2e.command import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
STEPS = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
# Words in capitals, as in tables/NAME.yaml, stand for names that a contributor chooses.
PATHS = sorted(set(re.findall(r"`((?:precreg|tests|docs|benchmarks)/[a-z\d_./]*)`", STEPS)))
NAMES = sorted(set(re.findall(r"`(\w+)`\s+(?:in|of)\s+`([a-z\d_/]+\.py)`", STEPS)))
SUITE = """\
suite: line
subject: {polynomial: [1, 2]}
reference: {polynomial: [1, 2]}
inputs: {x: {shape: [8], dtype: float32, normal: {}}}
"""


@pytest.mark.parametrize("path", PATHS)
def test_a_file_of_a_step_exists(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("name", "path"), NAMES)
def test_a_name_of_a_step_is_in_its_file(name, path):
    assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8"))


def test_the_package_of_the_page_brings_its_kind_and_declares_its_dependencies(tmp_path, monkeypatch):
    (module,) = (block for block in BLOCKS if "def run(spec, call)" in block)
    (declaration,) = (block for block in BLOCKS if "def depends(spec, folder)" in block)
    blocks = [block for block in BLOCKS if "entry-points" in block]
    groups = {
        name: points for block in blocks for name, points in tomllib.loads(block)["project"]["entry-points"].items()
    }
    assert set(groups) == {"precreg.subjects", "precreg.dependencies"}
    metadata = tmp_path / "our_polynomials-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: our-polynomials\nVersion: 1.0\n")
    lines = [f"[{group}]\n{name} = {value}\n" for group, points in groups.items() for name, value in points.items()]
    (metadata / "entry_points.txt").write_text("".join(lines))
    (tmp_path / "our_polynomials_depend.py").write_text(declaration)
    (tmp_path / "our_polynomials.py").write_text(module)
    (tmp_path / "suites/unit").mkdir(parents=True)
    (tmp_path / "suites/unit/line.yaml").write_text(SUITE)
    monkeypatch.syspath_prepend(str(tmp_path))
    (case,) = load_cases(tmp_path)
    outcome = run_case(case, tmp_path, ("generic",))
    assert outcome.execution.failure is None
    assert list(outcome.execution.outputs) == ["out"]
    assert outcome.execution.duration_s > 0
    touched = ("suites/unit/degree2.txt", "suites/unit/tables/a/b.txt", "suites/powers.py", "our_polynomials_depend.py")
    assert [path for path in touched if not affected_cases([case], {path}, tmp_path)] == []
    assert affected_cases([case], {"other.py"}, tmp_path) == []
