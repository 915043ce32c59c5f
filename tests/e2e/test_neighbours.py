"""A case that runs later has the same results as alone, whatever the cases before it did to their process."""

import ast
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.command import started

FOLDER = Path(__file__).parent / "neighbours"
VICTIMS = ("numbers", "python", "process", "modules", "late")


def kinds_by_neighbour():
    """Return, by neighbour, the kinds of the changes that it leaves."""
    tree = ast.parse((FOLDER / "hostile.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    return {node.name: ast.get_docstring(node).split() for node in functions if node.name not in ("run", "exact")}


NEIGHBOURS = kinds_by_neighbour()
# One neighbour of each kind, the first. After each neighbour a worker is replaced, which takes most of a run's time.
ONE_OF_EACH_KIND = {tuple(kinds): name for name, kinds in reversed(NEIGHBOURS.items())}.values()
# Another process alone undoes these, or they end the command itself.
WORKERS_ONLY = {
    *(name for name in NEIGHBOURS if name.startswith("leaves_a_thread")),
    *("closes_stdin", "moves_stdout", "limits_files_for_good", "is_nice", "registers_at_exit", "disables_faulthandler"),
}
HOSTILE_SUITE = """
suite: n{number:02}_a_{name}
subject: hostile:run
reference: hostile:exact
params: {{what: {name}}}
inputs: {{x: {{shape: 8, dtype: float32, normal: {{}}}}}}
seeds: 1
"""
VICTIM_SUITE = """
suite: n{number:02}_b_{victim}
subject: victims:{victim}
reference: victims:{reference}
inputs: {{x: {{shape: 8, dtype: float32, normal: {{}}}}}}
tolerance: {{atol: 1.0, rtol: 1.0}}
seeds: 1
"""


def make_project(folder, names):
    """Make a project in which each neighbour comes directly before victims of its own."""
    suites = folder / "suites" / "unit"
    suites.mkdir(parents=True)
    for module in ("hostile.py", "victims.py"):
        shutil.copy(FOLDER / module, suites / module)
    (suites / "elsewhere").mkdir()
    (suites / "elsewhere" / "only_elsewhere.py").touch()
    for number, name in enumerate(names):
        (suites / f"n{number:02}_a_{name}.yaml").write_text(HOSTILE_SUITE.format(number=number, name=name))
        for victim in VICTIMS:
            reference = "numbers" if victim == "late" else victim
            text = VICTIM_SUITE.format(number=number, victim=victim, reference=reference)
            (suites / f"n{number:02}_b_{victim}.yaml").write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def run_results(project, jobs, *patterns, **variables):
    """Run the command and return the results of its record by id, and its printed text."""
    done = started(project, "run", *patterns, "--jobs", jobs, **variables)
    assert done.returncode in (0, 1, 2), done.stderr
    record = json.loads((project / "reports" / "record.json").read_text())
    return {result["id"]: result for result in record["results"]}, done


class Run:
    """One run of all neighbours and victims, and one of each victim alone, with so many workers.

    Two workers are replaced as one is, and only a victim's place may be another: one neighbour of a kind suffices.
    """

    def __init__(self, folder, jobs):
        neighbours = ONE_OF_EACH_KIND if jobs == 2 else NEIGHBOURS
        self.names = [name for name in neighbours if jobs or name not in WORKERS_ONLY]
        project = make_project(folder, self.names)
        alone, _ = run_results(project, jobs, "n00_b_*", VICTIMS_ALONE="1")
        self.alone = {victim_of(id): result for id, result in alone.items()}
        self.results, self.printed = run_results(project, jobs)


@pytest.fixture(scope="module", params=[1, 2, 0], ids=["one worker", "two workers", "in process"])
def run(request, tmp_path_factory):
    return Run(tmp_path_factory.mktemp("neighbours"), request.param)


def victim_of(id):
    """Return the victim of a case unit/nNN_b_VICTIM/default: all cases of a victim have the same inputs."""
    return id.split("/")[1].partition("_b_")[2]


def facts(result):
    execution = result["outcome"]["execution"]
    return {
        "verdict": (result["verdict"]["status"], result["verdict"]["reason"]),
        "inputs": execution["inputs"],
        "outputs": execution["outputs"],
        "failure": execution["failure"],
        "left": execution["left"],
    }


def test_there_are_many_neighbours():
    assert len(NEIGHBOURS) >= 60


def test_victims_compute_alone(run):
    assert run.alone.keys() == {*VICTIMS}
    assert {facts(result)["failure"] for result in run.alone.values()} == {None}


def test_a_later_case_has_the_results_that_it_has_alone(run):
    later = [id for id in run.results if victim_of(id)]
    assert len(later) == len(run.names) * len(VICTIMS)
    for id in later:
        neighbour = run.names[int(id.split("/")[1][1:3])]
        assert facts(run.results[id]) == facts(run.alone[victim_of(id)]), f"{id} after {neighbour}"


def test_the_record_names_the_neighbours_and_what_they_left(run):
    for number, name in enumerate(run.names):
        result = run.results[f"unit/n{number:02}_a_{name}/default"]
        kinds = {change["kind"] for change in facts(result)["left"]}
        # The thread may have patched before the check, or it patches after it.
        expected = set(NEIGHBOURS[name])
        assert expected <= kinds if "threads" in expected else expected == kinds, name


IMPORTING = """
suite: {suite}
subject: {module}:run
reference: {module}:run
inputs: {{x: {{shape: 8, dtype: float32, uniform: {{low: 1.0e-42, high: 1.0e-40}}}}}}
matrix: {{k: [1, 2, 3]}}
params: {{k: $k}}
seeds: 1
"""
# What each module does when it is imported, and the kind of its change.
ON_IMPORT = {
    "fast": ("import hostile\nhostile.ftz(None)\nhostile.daz(None)\n", "floating_point_mode"),
    "patching": ("import numpy\nnumpy.sum = lambda *_, **__: numpy.float64(0)\n", "functions"),
    "extending": ("import sys\nsys.path.insert(0, '/elsewhere')\n", "search_path"),
    "precise": ("import decimal\ndecimal.getcontext().prec = 50\n", "decimal_context"),
    "threading_": ("import hostile\nhostile.leaves_a_thread_that_patches(None)\n", "threads"),
}
COMPUTING = """
import decimal
import numpy

def run(x, k):
    return {"out": x / 3, "own": float(len(str(decimal.Decimal(1) / 7)))}
"""


def test_an_import_changes_the_cases_of_its_own_module_alone(tmp_path):
    """Each case that uses the module is named, whichever of them imported it first."""
    project = make_project(tmp_path, ["seeds"])
    for number, (module, (code, _)) in enumerate(ON_IMPORT.items()):
        (project / "suites" / "unit" / f"{module}.py").write_text(code + COMPUTING)
        text = IMPORTING.format(suite=f"i{number}_{module}", module=module)
        (project / "suites" / "unit" / f"i{number}_{module}.yaml").write_text(text)
    (project / "suites" / "unit" / "plain.py").write_text(COMPUTING)
    (project / "suites" / "unit" / "j.yaml").write_text(IMPORTING.format(suite="j", module="plain"))
    alone, _ = run_results(project, 1, "unit/j/*", "*_b_*", VICTIMS_ALONE="1")
    results, done = run_results(project, 1)
    assert {id: facts(results[id]) for id in alone} == {id: facts(alone[id]) for id in alone}
    for number, (module, (_, kind)) in enumerate(ON_IMPORT.items()):
        for k in (1, 2, 3):
            found = facts(results[f"unit/i{number}_{module}/k={k}"])
            assert {change["kind"] for change in found["left"]} >= {kind}, module
            # Subnormal numbers in, subnormal numbers out: the mode that the import left reached neither.
            assert found["inputs"] == facts(alone[f"unit/j/k={k}"])["inputs"]
            assert found["outputs"]["out"] == facts(alone[f"unit/j/k={k}"])["outputs"]["out"]
    own = [facts(results[f"unit/{suite}/k=3"])["outputs"]["own"] for suite in ("i3_precise", "j")]
    assert own[0] != own[1], "what a module sets for its own functions stays for them"
    assert "process   15 cases changed their process, and no other case noticed" in done.stdout


def test_every_report_names_the_case_and_its_change(tmp_path):
    project = make_project(tmp_path, ["ftz", "patches_math"])
    results, done = run_results(project, 0, "*_a_*")
    assert len(results) == 2
    reports = [(project / "reports" / name).read_text() for name in ("junit.xml", "summary.md", "report.html")]
    for text in (done.stdout, *reports):
        assert "floating-point mode (FTZ): repaired" in text
        assert "functions of others (math.fsum, math.sqrt): repaired" in text
    assert "process   2 cases changed their process, and no other case noticed" in done.stdout
    for text in (done.stdout, reports[1], reports[2]):
        assert "unit/n00_a_ftz/default" in text
