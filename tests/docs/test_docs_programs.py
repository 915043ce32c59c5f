"""The page on programs: its program is compiled, its suites run, and its tables are what there is."""

import json
import re

import pytest

from precreg.subject.command.build import BUILDS_FOLDER
from precreg.subject.command.kind import (
    _BUILD_OPTIONS,
    _INPUT_OPTIONS,
    _OPTIONS,
    _OUTPUT_OPTIONS,
    DEFAULT_BUILD_TIMEOUT_S,
)
from precreg.subject.surroundings import DETAIL_LENGTH
from tests.docs.test_docs import names, page, table, write_files
from tests.e2e.command import change, precreg, repository

PAGE = page("programs.md")


@pytest.fixture
def project(tmp_path):
    return repository(write_files(tmp_path, PAGE))


def run(project):
    """Run all cases; return the exit code, and the results by suite."""
    done = precreg(project, "run")
    record = json.loads((project / "reports" / "record.json").read_text())
    return done, {result["suite"]: result for result in record["results"]}


def test_the_suites_of_the_page_run_and_find_a_planted_loss(project):
    _, found = run(project)
    assert {name: result["verdict"]["reason"] for name, result in found.items()} == dict.fromkeys(
        ("by_arguments", "by_file_names", "by_folder", "by_script"), "new"
    )
    assert (project / BUILDS_FOLDER).is_dir()
    assert precreg(project, "baseline", "accept", "--all", "--reason", "first version").returncode == 0
    done, found = run(project)
    assert {result["verdict"]["reason"] for result in found.values()} == {"identical"}, done.stdout
    # In float: the sum and the quotient.
    change(project / "suites/unit/rms_norm.c", "double sum = 0;", "float sum = 0;")
    change(project / "suites/unit/rms_norm.c", "(x[i] / sqrt(sum", "(x[i] / sqrtf(sum")
    done, found = run(project)
    assert done.returncode == 1
    reasons = {result["suite"]: result["verdict"]["reason"] for result in found.values()}
    assert {reasons[name] for name in ("by_arguments", "by_file_names", "by_folder")} == {"regressed"}


def test_the_options():
    rows = table(PAGE, "option", "default", "meaning")
    assert [row["option"] for row in rows] == ["command", *_OPTIONS]
    meanings = {row["option"]: names(row["meaning"]) for row in rows}
    assert set(_INPUT_OPTIONS) <= set(meanings["inputs"])
    assert set(_OUTPUT_OPTIONS) <= set(meanings["outputs"])
    build = PAGE.partition("## The build")[2].partition("\n\nprecreg builds")[0]
    assert set(_BUILD_OPTIONS) <= set(names(build))
    assert f"seconds for each command, {DEFAULT_BUILD_TIMEOUT_S} by default" in build
    assert f"the last {DETAIL_LENGTH:,} characters" in PAGE


def test_the_placeholders(project):
    """The message of an unknown one lists those of a command, and that of a build those of builds."""
    rows = {row["placeholder"] for row in table(PAGE, "placeholder", "value")}
    suite = project / "suites/unit/by_arguments.yaml"
    change(suite, "{params.eps}", "{nothing}")
    shown = precreg(project, "list").stderr
    change(suite, "{nothing}", "{params.eps}")
    change(suite, '-o, "{build}/rms_norm"', '"{nothing}"')
    shown += precreg(project, "list").stderr
    assert set(re.findall(r"\{[\w.]+\}", shown)) - {"{nothing}"} == rows
