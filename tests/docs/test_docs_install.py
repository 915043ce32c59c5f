"""docs/install.md: the command is run, and its tables held against the package and its build."""

import re
import tomllib

import pytest

from precreg.measure.comparison import BACKENDS
from tests.docs.test_docs import matches, page, table
from tests.e2e.command import ROOT, precreg, repository, with_suite

PAGE = page("install.md")
SUITE = """\
suite: s
subject: k:same
reference: k:same
inputs: {x: {shape: [2], dtype: float32, normal: {mean: 0, std: 1}}}
"""


def test_the_command_prints_what_the_page_shows(tmp_path):
    expected = re.search(r"^\$ precreg doctor\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
    done = precreg(repository(with_suite(tmp_path, SUITE)), "doctor")
    assert done.returncode == 0, done.stdout
    assert matches(expected, done.stdout), done.stdout


def test_every_extra_is_in_the_table():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [row["extra"].strip("`") for row in table(PAGE, "extra", "brings")] == list(project["optional-dependencies"])
    assert f"Python {project['requires-python'].removeprefix('>=')} or newer" in PAGE


def test_every_form_is_in_the_table():
    told = [row["`PRECREG_FORM`"].strip("`") for row in table(PAGE, "`PRECREG_FORM`", "backend")]
    assert set(told) == {*BACKENDS, "native"}


def test_every_instruction_set_is_in_the_table():
    """As setup.py names them: it is a program that installs, so it is read and not imported."""
    told = [row["`PRECREG_ISA`"].strip("`") for row in table(PAGE, "`PRECREG_ISA`", "where")]
    wide = re.search(r"^WIDE = \{\n(.*?)^\}", (ROOT / "setup.py").read_text(), re.MULTILINE | re.DOTALL)[1]
    assert told == ["generic", *re.findall(r'^ {4}"(\w+)"', wide, re.MULTILINE)]


@pytest.mark.parametrize("variable", ["PRECREG_FORM", "PRECREG_ISA"])
def test_a_name_that_is_none_is_an_error(tmp_path, variable):
    if variable == "PRECREG_ISA" and "native" not in BACKENDS:
        pytest.skip("no C++ compiler was there to build the core")
    project = with_suite(tmp_path, SUITE)
    done = precreg(project, "run", "--jobs", "0", **{variable: "avx1024"})
    assert done.returncode == 2
    assert "error[bad-value]" in done.stdout + done.stderr
    assert f"but got {variable}=avx1024" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
