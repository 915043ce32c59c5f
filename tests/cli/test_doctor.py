"""`precreg doctor`: what is said of what is there, of what is not, and of what is broken."""

import json
import shutil
import sys

import pytest

from precreg.arithmetic import rounding
from precreg.arithmetic import rounding as arithmetic
from precreg.arithmetic import sums as accumulate
from precreg.arithmetic.formats import Rounding
from precreg.cli import doctor as examining
from precreg.cli.doctor import examine_installation
from precreg.environment.machine import detect_environment
from precreg.measure import comparison as forms
from precreg.measure import numpy_form
from tests.baseline.plain import document_of, write_former
from tests.e2e.command import ROOT, git, precreg, repository, started, with_suite

SUITE = """\
suite: s
subject: k:same
reference: k:same
inputs: {x: {shape: [2], dtype: float32, normal: {mean: 0, std: 1}}}
"""


@pytest.fixture
def project(tmp_path):
    return repository(with_suite(tmp_path / "p", SUITE))


def doctor(project, *arguments, command=precreg, **variables):
    """Return the exit code and the findings by name, as the real command gives them."""
    done = command(project, "doctor", "--json", *arguments, **variables)
    assert done.stderr == ""
    return done.returncode, {
        finding["name"]: (finding["state"], finding["says"]) for finding in json.loads(done.stdout)
    }


def test_a_project_that_is_well(project):
    code, found = doctor(project)
    assert code == 0
    assert {name for name, (state, _) in found.items() if state == "broken"} == set()
    assert found["measuring"] == (
        "ok",
        f"the backend {forms.FASTEST} gives the reference implementation's figures for 2100 adversarial pairs",
    )
    assert found["arithmetic"] == ("ok", f"the backend {arithmetic.FASTEST_BACKEND} gives 36 known results")
    assert found["python"][1].startswith(sys.version.split()[0])
    here = detect_environment()
    assert found["environment"][1].startswith(f"{here.label}, {here.fingerprint}: kernels {here.facts['kernels']}, ")
    assert found["project"] == ("ok", str(project))
    assert found["history"] == ("absent", "none yet; precreg history add --create begins one")
    assert git(project, "rev-parse", "HEAD")[:8] in found["git"][1]


def test_a_history_is_counted_and_a_named_one_must_be_there(project):
    precreg(project, "run", "--jobs", "0")
    precreg(project, "history", "add", "--create", "reports")
    assert doctor(project)[1]["history"] == ("ok", "1 run")
    code, found = doctor(project, PRECREG_HISTORY="elsewhere.sqlite")
    assert (code, found["history"][0]) == (2, "broken")
    assert "elsewhere.sqlite" in found["history"][1]


def test_baselines_are_counted_and_those_without_a_checksum(project):
    assert doctor(project)[1]["baselines"] == ("absent", "none yet; precreg baseline accept stores the first")
    precreg(project, "run", "--jobs", "0")
    precreg(project, "baseline", "accept", "--all", "--reason", "first")
    found = doctor(project)[1]["baselines"]
    assert (found[0], "without" in found[1]) == ("ok", False)
    (file,) = (project / "baselines/generic").glob("*/*.json")
    document = document_of(file)
    write_former(file, document)
    number = len(document["cases"])
    unchecked = f"{number} without a checksum: precreg baseline checksum adds it"
    former = "1 file of an earlier version: precreg baseline migrate rewrites them"
    assert doctor(project)[1]["baselines"][1].endswith(f"{unchecked}, {former}")
    done = precreg(project, "baseline", "checksum", CI="true")
    assert (done.returncode, "error[accept-in-ci]" in done.stderr) == (2, True)
    done = precreg(project, "baseline", "checksum")
    assert done.stdout == f"added the checksums of {number} {'baseline' if number == 1 else 'baselines'}\n"
    assert "without" not in doctor(project)[1]["baselines"][1]
    file.write_text(file.read_text().replace('"reason": "first"', '"reason": "second"'))
    code, broken = doctor(project)
    assert (code, broken["baselines"][0]) == (2, "broken")
    assert "merged from two sides" in broken["baselines"][1]


def test_a_form_that_does_not_measure_right_is_broken(monkeypatch):
    """numpy's form with one count that is wrong: what a bug of the core would look like."""
    right = numpy_form.tally_numpy

    def wrong(actual, reference, *others):
        tally = right(actual, reference, *others)
        return type(tally)(**{name: getattr(tally, name) for name in tally.__struct_fields__ if name != "counts"})

    monkeypatch.setitem(forms.BACKENDS, "numpy", wrong)
    monkeypatch.setenv("PRECREG_FORM", "numpy")
    (found,) = (finding for finding in examine_installation(None, None) if finding.name == "measuring")
    assert found.state == "broken"
    assert "float32 against float64: counts" in found.says


def test_a_form_that_raises_is_broken(monkeypatch):
    """As does a core that was built from older sources than the package is of."""

    def outdated(*_arguments):
        raise ValueError("expected a plan of 120 bytes")

    monkeypatch.setitem(forms.BACKENDS, "numpy", outdated)
    monkeypatch.setenv("PRECREG_FORM", "numpy")
    (found,) = (finding for finding in examine_installation(None, None) if finding.name == "measuring")
    says = "the backend numpy raises ValueError('expected a plan of 120 bytes'); reinstall precreg"
    assert found == ("measuring", "broken", says)


def of_arithmetic():
    return next(finding for finding in examine_installation(None, None) if finding.name == "arithmetic")


def test_arithmetic_that_is_wrong_or_raises_is_broken(monkeypatch):
    """numpy's form with one rounding that is another, and one that is not there."""
    right = rounding.round_bits

    def wrong(values, format, mode, *others):
        return right(values, format, Rounding.TOWARD_ZERO if mode is Rounding.ODD else mode, *others)

    monkeypatch.setenv("PRECREG_FORM", "numpy")
    monkeypatch.setattr(rounding, "round_bits", wrong)
    assert of_arithmetic().state == "broken"
    assert "the backend numpy is wrong in 2049.0 to fp16, odd; " in of_arithmetic().says
    monkeypatch.setattr(accumulate, "matmul_numpy", None)
    assert of_arithmetic().says.startswith("the backend raises TypeError(")


def test_a_core_that_cannot_be_loaded_is_broken_and_numpy_serves(tmp_path):
    """The package that is in the folder of the command is imported, and no other."""
    package = shutil.copytree(ROOT / "precreg", tmp_path / "precreg", ignore=shutil.ignore_patterns("*.so"))
    found = doctor(tmp_path, command=started)[1]
    assert (found["core"][0], found["arithmetic core"][0]) == ("absent", "absent")
    for room, core, form in (("measure", "core", "measuring"), ("arithmetic", "arithmetic core", "arithmetic")):
        library = package / room / "_core.abi3.so"
        library.write_bytes(b"no library")
        code, found = doctor(tmp_path, command=started)
        assert (code, found[core][0], found[form][0]) == (2, "broken", "ok")
        assert "the backend numpy gives" in found[form][1]
        library.unlink()


@pytest.mark.parametrize("variable", ["PRECREG_FORM", "PRECREG_ISA"])
def test_a_form_that_is_not_there_is_broken(tmp_path, variable):
    if variable == "PRECREG_ISA" and "native" not in forms.BACKENDS:
        pytest.skip("no C++ compiler was there to build the core")
    code, found = doctor(tmp_path, **{variable: "x"})
    assert code == 2
    for form in ("measuring", "arithmetic"):
        assert found[form][0] == "broken"
        assert found[form][1].endswith(f"but got {variable}=x")


def test_no_project_is_no_mistake_unless_one_is_named(tmp_path):
    code, found = doctor(tmp_path)
    assert (code, found["project"][0], "history" in found) == (0, "absent", False)
    named = precreg(tmp_path, "--project", tmp_path, "doctor")
    assert named.returncode == 2
    assert "project          broken: expected a folder with suites/" in named.stdout


def test_what_may_be_installed_is_told_with_its_use(monkeypatch):
    monkeypatch.setattr(examining, "OPTIONAL_PACKAGES", {"no-such-package": "it is of use"})
    (found,) = (finding for finding in examine_installation(None, None) if finding.name == "no-such-package")
    assert found == ("no-such-package", "absent", "not installed; it is of use")


def test_without_git_reports_name_no_commit(project):
    code, found = doctor(project, PATH=str(project))
    assert (code, found["git"][0]) == (0, "absent")
