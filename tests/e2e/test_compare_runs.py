"""Two runs of a real project, compared by both commands."""

import os
import subprocess
import sys
import time
import tomllib

import pytest
from msgspec import json

from tests.e2e.command import ROOT, change, copy_of, environ, precreg
from tests.e2e.test_road import KERNEL, NARROW, ROAD, WIDE


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with the records of a run with a wide accumulator, before/, and of one with a narrow one, now/."""
    project = copy_of(ROAD, tmp_path_factory.mktemp("compared"))
    narrow = (project / KERNEL).read_text()
    change(project / KERNEL, NARROW, WIDE)
    change(project / KERNEL, "    return total\n\n\ndef exact", "    return total.astype(x.dtype)\n\n\ndef exact")
    precreg(project, "run", "--output", "before")
    (project / KERNEL).write_text(narrow)
    # Records have seconds, and a comparison knows by them which run was first.
    time.sleep(1.1)
    precreg(project, "run", "--output", "now")
    return project


def test_a_loss_since_the_earlier_run_fails(project):
    done = precreg(project, "report", "--compare", "now", "before")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == "exit 1: 1 case failed now and passed before, 1 case significantly worse"
    assert "FAILED   unit/row_sum/float16-8x256   regressed" in done.stdout
    # No baseline judges this case, so its own run could not see the loss.
    assert "WORSE    unit/row_sum/float16-16x64   regressed" in done.stdout
    assert "now       proposed (new)" in done.stdout
    assert not (project / "reports").exists()


def test_both_commands_print_the_same(project):
    one = precreg(project, "report", "--compare", "now", "before")
    other = precreg(project, "compare_with_baseline", "--current", "now", "--baseline", "before")
    assert (one.returncode, one.stdout) == (other.returncode, other.stdout)


def test_the_program_of_its_own_is_the_same_command(project):
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, function = scripts["compare_with_baseline"].split(":")
    code = f"from {module} import {function}; {function}()"
    command = [sys.executable, "-c", code, "--current", "now", "--baseline", "before"]
    done = subprocess.run(command, cwd=project, env=environ(), capture_output=True, text=True, check=False)
    assert done.stdout == precreg(project, "report", "--compare", "now", "before").stdout
    assert done.returncode == 1


def test_the_other_way_round_finds_no_loss(project):
    done = precreg(project, "report", "--compare", "before/record.json", "now/record.json")
    assert done.returncode == 0, done.stdout
    assert "BETTER   unit/row_sum/float16-16x64   improved   0.19" in done.stdout
    assert "precreg report --compare now/record.json before/record.json" in done.stdout


@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_a_file_has_what_stdout_would_have(project, form):
    arguments = ["report", "--compare", "now", "before", "--format", form]
    shown = precreg(project, *arguments)
    done = precreg(project, *arguments, "--output", f"out.{form}")
    assert (done.returncode, done.stdout) == (1, "")
    assert (project / f"out.{form}").read_text() == shown.stdout
    if form == "json":
        assert json.decode(shown.stdout)["counts"] == {"newly_failing": 1, "worse": 1, "same": 1}


MISTAKES = {
    "--compare now now": ("not-comparable", "one twice"),
    "--compare now now/record.json": ("not-comparable", "one twice"),
    "--compare now nowhere": ("missing-file", "nowhere"),
    "--compare now README": ("unreadable-record", "README"),
    "--compare now": ("bad-option", "expected two runs to compare but got 1: now"),
    "--compare now before before": ("bad-option", "got 3: now, before, before"),
    "--compare now before --format github": ("bad-option", "--format markdown"),
    "now --format html": ("bad-option", "--compare"),
    "": ("bad-option", "precreg report reports"),
    "--compare now future": ("future-schema", "upgrade precreg"),
    "--compare now shard": ("mixed-records", "without 2/2"),
    "--compare now before --output missing/out.txt": ("not-writable", "missing/out.txt"),
}


@pytest.mark.parametrize("arguments", MISTAKES)
def test_mistakes_say_what_to_write(project, arguments):
    record = json.decode((project / "before/record.json").read_bytes())
    for name, changes in {"future": {"schema": "precreg-record/9"}, "shard": {"selection": {"shard": "1/2"}}}.items():
        os.makedirs(project / name, exist_ok=True)
        (project / name / "record.json").write_bytes(json.encode(record | changes))
    (project / "README").write_text("[1]")
    slug, words = MISTAKES[arguments]
    done = precreg(project, "report", *arguments.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error[{slug}]" in done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_compressed_record_is_read(project):
    import gzip

    (project / "packed").mkdir()
    data = (project / "before/record.json").read_bytes()
    (project / "packed/record.json.gz").write_bytes(gzip.compress(data))
    assert precreg(project, "report", "--compare", "now", "packed").returncode == 1
