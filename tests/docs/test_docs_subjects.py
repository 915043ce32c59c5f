"""docs/subjects.md: the package of the page brings its kind, and all that the page names is there."""

import inspect
import re
import tomllib

import pytest

from precreg import subjects
from precreg.subject.kind import Kind, SpecPlace
from precreg.suite.expand import load_cases
from precreg.vcs.dependency import affected_cases
from tests.docs.test_docs import page
from tests.e2e.command import change, git, precreg, repository

PAGE = page("subjects.md")
FILES = dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
BLOCKS = re.findall(r"^```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SUITE = """\
suite: line
subject: {declared: [1, 2]}
reference: {declared: [1, 2]}
inputs: {x: {shape: [8], dtype: float32, normal: {}}}
"""
SHOWN = re.findall(r"^```text\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)


def lay_out(site):
    """Install the package of the page in a folder, as pip would."""
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (site / "our_polynomials.py").write_text(FILES["our_polynomials.py"])
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
            for group, points in project["entry-points"].items()
        )
    )


@pytest.fixture
def project(tmp_path):
    """A committed project with the suite of the page, beside the installed package."""
    lay_out(tmp_path / "site")
    for name, text in FILES.items():
        if name.startswith("suites/"):
            path = tmp_path / "project" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return repository(tmp_path / "project")


def run(project, *arguments):
    return precreg(project, *arguments, PYTHONPATH=str(project.parent / "site"))


def test_a_kind_takes_some_40_lines():
    lines = [line for line in FILES["our_polynomials.py"].splitlines() if line]
    assert len(lines) <= 40


def test_the_suite_runs_with_the_reference_of_the_kind(project):
    (shown,) = re.findall(r"^```console\n\$ precreg list curve\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert run(project, "list", "curve").stdout == shown
    assert "2 proposed" in run(project, "run").stdout
    assert run(project, "baseline", "accept", "--all", "--reason", "first").returncode == 0
    done = run(project, "run")
    assert done.returncode == 0, done.stdout
    # The default of an option is the same case as its absence.
    change(project / "suites/unit/curve.yaml", "[powers, horner]", "[powers]")
    change(project / "suites/unit/curve.yaml", ", scheme: $scheme", "")
    assert "1 passed" in run(project, "run", "curve").stdout


def test_a_loss_in_the_package_is_found(project):
    run(project, "run")
    run(project, "baseline", "accept", "--all", "--reason", "first")
    change(project.parent / "site/our_polynomials.py", "term * x**power", "term * x**power * x.dtype.type(1.00003)")
    done = run(project, "run")
    assert done.returncode == 1
    assert re.search(r"FAILED +unit/curve/powers +regressed", done.stdout)


def test_a_bad_option_is_an_error_with_its_line(project):
    change(project / "suites/unit/curve.yaml", "[powers, horner]", "[powers, taylor]")
    done = run(project, "list")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, SHOWN[0])
    change(project / "suites/unit/curve.yaml", "scheme: $scheme}", "shape: $scheme}")
    done = run(project, "list")
    assert done.stderr.startswith("suites/unit/curve.yaml:2: error[unknown-key]: expected scheme or on but got shape\n")


def test_a_case_without_its_requirement_is_skipped_by_name(project):
    change(project / "suites/unit/curve.yaml", "scheme: $scheme}", "scheme: $scheme, on: gpu}")
    done = run(project, "run")
    # Cases that lack the same are one line.
    assert (done.returncode, done.stdout.count(f"2 cases of unit/curve   {SHOWN[1]}")) == (0, 1), done.stdout
    assert run(project, "run", "--require").returncode == 2
    # With the package, the kind itself looks for the device.
    (project.parent / "site/our_gpu_runtime.py").write_text("")
    done = run(project, "run")
    shown = "2 cases of unit/curve   needs our GPU, but /dev/our_gpu is absent: install its driver"
    assert done.stdout.count(shown) == 1, done.stdout


def test_a_change_of_a_declared_file_selects_the_cases(project):
    every = run(project, "list").stdout
    assert run(project, "list", "--changed-since", "HEAD").stdout == ""
    (project / "suites/unit/curve.txt").write_text("1 -0.5 0.125\n")
    assert run(project, "list", "--changed-since", "HEAD").stdout == every
    git(project, "commit", "-qam", "other coefficients")
    (project / "notes.py").write_text("")
    assert run(project, "list", "--changed-since", "HEAD").stdout == ""


def test_a_second_entry_point_declares_the_dependencies_of_a_function(tmp_path, monkeypatch):
    module = "from precreg.subjects import Outputs\n\n\ndef run(spec, call):\n    return Outputs({}, 0.0)\n"
    (points,) = (block for block in BLOCKS if "precreg.dependencies" in block)
    (declaration,) = (block for block in BLOCKS if "def depends(spec, folder)" in block)
    info = tmp_path / "declared-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 1.0\n")
    # Other tests of this process have installed the name of the page.
    groups = tomllib.loads(points.replace("polynomial =", "declared ="))["project"]["entry-points"]
    lines = [f"[{group}]\n{name} = {value}\n" for group, of in groups.items() for name, value in of.items()]
    (info / "entry_points.txt").write_text("".join(lines) + "[precreg.subjects]\ndeclared = declared_kind:run\n")
    (tmp_path / "our_polynomials_depend.py").write_text(declaration)
    (tmp_path / "declared_kind.py").write_text(module)
    (tmp_path / "suites/unit").mkdir(parents=True)
    (tmp_path / "suites/unit/line.yaml").write_text(SUITE)
    monkeypatch.syspath_prepend(str(tmp_path))
    (case,) = load_cases(tmp_path)
    touched = ("suites/unit/degree2.txt", "suites/unit/tables/a/b.txt", "suites/powers.py", "our_polynomials_depend.py")
    assert [path for path in touched if not affected_cases([case], {path}, tmp_path)] == []
    assert affected_cases([case], {"other.py"}, tmp_path) == []


def test_the_page_lists_the_fields_of_a_kind():
    rows = re.findall(r"^\| `(\w+)` \| the ", PAGE, re.MULTILINE)
    assert sorted([*rows, "widest"]) == sorted(Kind.__struct_fields__)


def test_the_page_names_what_a_place_offers():
    members = {name for name, _ in inspect.getmembers(SpecPlace) if not name.startswith("_")}
    (sentence,) = re.findall(r"^`SpecPlace` has (.*?)\. `keys`", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)", sentence)) == members


def test_the_public_door_exports_what_the_page_uses():
    imported = re.findall(r"^from precreg\.subjects import (.+)$", PAGE, re.MULTILINE)
    used = {name for line in imported for name in line.split(", ")}
    assert used <= set(subjects.__all__)
    assert all(hasattr(subjects, name) for name in subjects.__all__)
    named = set(re.findall(r"`([A-Z]\w+)[`(]", PAGE)) - {"PRECREG_ENVIRONMENT"}
    assert named <= set(subjects.__all__)
