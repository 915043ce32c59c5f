"""Builds: when they run, and what they never do."""

import json
import os
import subprocess
import sys

import pytest

from precreg.errors import UserError
from precreg.subject.command.build import BUILDS_FOLDER, _built, built_folder, forget_failed_builds
from precreg.types import Computation


@pytest.fixture
def unit(project, write):
    write("suites/unit/op.c", "one")
    write("suites/unit/log", '#!/bin/sh\necho built >> "$1"\ncp op.c "$2"\n')
    (project / "suites/unit/log").chmod(0o755)
    return project / "suites" / "unit"


def build(**changes):
    steps = [["./log", "{project}/built.log", "{build}/op"]]
    return {"steps": steps, "sources": ["op.c"], "produces": ["{build}/op"], **changes}


def times(unit, spec=None):
    """Build as a new process does, and return how often the project was built so far."""
    _built.cache_clear()
    built_folder(spec or build(), unit, unit.parents[1])
    return (unit.parents[1] / "built.log").read_text().count("built")


def test_a_build_runs_again_if_a_source_changes_and_not_for_another_file(unit):
    assert times(unit) == 1
    (unit / "other.c").write_text("two")
    assert times(unit) == 1
    (unit / "op.c").write_text("two")
    assert times(unit) == 2
    assert (built_folder(build(), unit, unit.parents[1]) / "op").read_text() == "two"
    (unit / "op.c").write_text("one")
    assert times(unit) == 2


def test_a_source_that_a_pattern_finds_later_counts(unit):
    spec = build(sources=["op.c", "more/**"])
    (unit / "more").mkdir()
    (unit / "more" / "a.h").touch()
    assert times(unit, spec) == 1
    (unit / "more" / "b.h").touch()
    assert times(unit, spec) == 2


def test_a_build_runs_again_for_another_command_variable_or_compiler(unit, monkeypatch):
    tools = unit.parents[1] / "tools"
    tools.mkdir()
    for compiler in ("cc", "other"):
        (tools / compiler).write_text("#!/bin/sh\n")
        (tools / compiler).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.delenv("CFLAGS", raising=False)
    monkeypatch.delenv("CC", raising=False)
    assert times(unit) == times(unit) == 1
    assert times(unit, build(steps=[["./log", "{project}/built.log", "{build}/op", "-O2"]])) == 2
    monkeypatch.setenv("CFLAGS", "-O2")
    assert times(unit) == 3
    (tools / "cc").write_text("#!/bin/sh\n# upgraded\n")
    assert times(unit) == 4
    monkeypatch.setenv("CC", "other")
    assert times(unit) == 5


def test_a_product_that_somebody_changed_or_removed_is_made_again(unit):
    folder = built_folder(build(), unit, unit.parents[1])
    (folder / "op").write_text("changed by hand")
    assert times(unit) == 2
    (folder / "op").unlink()
    assert times(unit) == 3


def test_a_build_that_was_killed_starts_from_an_empty_folder(unit):
    folder = built_folder(build(), unit, unit.parents[1])
    (folder / "precreg-build.json").unlink()
    (folder / "half.o").touch()
    assert times(unit) == 2
    assert not (folder / "half.o").exists()


def test_processes_that_need_one_build_at_once_build_once(unit):
    code = "import sys, json; from pathlib import Path; from precreg.subject.command.build import built_folder; "
    code += "print(built_folder(json.loads(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])))"
    command = [sys.executable, "-c", code, json.dumps(build()), str(unit), str(unit.parents[1])]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({process.communicate(timeout=300)[0] for process in started}) == 1
    assert (unit.parents[1] / "built.log").read_text() == "built\n"


def test_the_failure_of_a_build_stays_until_the_next_run(unit):
    spec = build(steps=[["./log", "{project}/built.log", "/no/such/folder/op"]])
    for _ in range(2):
        _built.cache_clear()
        with pytest.raises(UserError, match=r"expected \./log to build but it exited with code 1: cp: ") as caught:
            built_folder(spec, unit, unit.parents[1])
        assert caught.value.slug == "build-failed"
        assert caught.value.message.count("No such file") == 1
        assert "No such file" not in caught.value.detail, "the message has the only line"
    assert (unit.parents[1] / "built.log").read_text() == "built\n"
    forget_failed_builds(unit.parents[1])
    with pytest.raises(UserError):
        times(unit, spec)
    assert (unit.parents[1] / "built.log").read_text() == "built\n" * 2


def test_steps_run_one_after_the_other_up_to_the_first_that_fails(unit):
    steps = [["sh", "-c", "echo built >> {project}/built.log", "{sources}"], ["false"], ["touch", "{build}/op"]]
    with pytest.raises(UserError, match="expected false to build but it exited with code 1"):
        times(unit, build(steps=steps))
    assert (unit.parents[1] / "built.log").read_text() == "built\n"


def test_sources_are_words_of_their_own(unit):
    (unit / "b c.h").touch()
    spec = build(steps=[["sh", "-c", 'echo "$#" > "$0"', "{build}/op", "{sources}"]], sources=["op.c", "*.h"])
    assert (built_folder(spec, unit, unit.parents[1]) / "op").read_text() == "2\n"


def test_a_product_cannot_be_a_link_out_of_the_project(unit):
    with pytest.raises(UserError) as caught:
        times(unit, build(steps=[["ln", "-s", "/bin/sh", "{build}/op"]]))
    assert caught.value.slug == "outside-project"


def test_a_build_leaves_git_clean(unit):
    project = unit.parents[1]
    built_folder(build(steps=[["cp", "op.c", "{build}/op"]]), unit, project)
    for arguments in (("init", "-q"), ("add", "-A")):
        subprocess.run(["git", *arguments], cwd=project, check=True)
    listed = subprocess.run(["git", "ls-files"], cwd=project, capture_output=True, text=True, check=True).stdout
    assert listed.split() == ["suites/unit/log", "suites/unit/op.c"]
    assert (project / BUILDS_FOLDER).is_dir()


def test_a_folder_that_cannot_be_written_is_a_mistake(unit):
    (unit.parents[1] / ".precreg").touch()
    with pytest.raises(UserError) as caught:
        times(unit)
    assert caught.value.slug == "not-writable"


def test_a_kind_prepares_what_has_a_build_alone(unit):
    from precreg.subject import prepare_computation

    _built.cache_clear()
    project = unit.parents[1]
    for spec in ({"command": ["true"]}, {"command": ["{build}/op"], "build": build()}):
        prepare_computation(Computation("command", spec), unit, project)
    assert (project / "built.log").read_text() == "built\n"
    prepare_computation(Computation("command", {"build": build(steps=[["false"]])}), unit, project)
