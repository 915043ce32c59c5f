"""A program in C as the subject of a real project: its life from the first baseline to a planted loss."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys

import pytest

from tests.e2e.command import PATIENCE_S, change, environ, git, precreg
from tests.e2e.programs import (
    EQUAL,
    HEADER,
    KERNEL,
    SUITE,
    SUM,
    WORSE,
    accepted,
    alone,
    reasons,
    results,
    scratch,
    with_kernel,
)

LONG, SHORT = "unit/sums/length=1000", "unit/sums/length=3"


@pytest.fixture
def project(tmp_path):
    return with_kernel(tmp_path / "project")


def plant(project):
    (project / "suites/unit/src/kernel.h").write_text(WORSE)


def rewrite(project):
    change(project / "suites/unit/src/kernel.c", SUM, EQUAL)


def test_a_planted_loss_is_found_and_an_equal_rewrite_passes(project):
    accepted(project)
    assert precreg(project, "run").returncode == 0
    assert {*reasons(project).values()} == {"identical"}
    rewrite(project)
    assert precreg(project, "run").returncode == 0
    assert reasons(project)[LONG] == "identical"
    plant(project)
    done = precreg(project, "run")
    assert done.returncode == 1, done.stdout
    assert reasons(project)[LONG] == "regressed"
    assert reasons(project)["unit/other/default"] == "identical"


def test_a_pair_builds_each_version_from_its_own_sources(project):
    rewrite(project)
    done = precreg(project, "run", "--pair", "HEAD", "--suite", "sums")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {*reasons(project).values()} == {"identical"}
    plant(project)
    done = precreg(project, "run", "--pair", "HEAD", "--suite", "sums")
    assert done.returncode == 1, done.stdout + done.stderr
    assert reasons(project)[LONG] == "regressed"
    assert results(project)[LONG]["paired"]["judged"]
    assert git(project, "status", "--porcelain", "--untracked-files=all").split() == [
        *("M", "suites/unit/src/kernel.c"),
        *("M", "suites/unit/src/kernel.h"),
    ]


@pytest.mark.parametrize(
    ("file", "selected"),
    [("suites/unit/src/kernel.h", True), ("suites/unit/src/new.h", True), ("suites/unit/unrelated.c", False)],
)
def test_a_change_selects_the_cases_of_its_program(project, file, selected):
    (project / file).write_text("/* changed */\n" + HEADER)
    git(project, "add", "-A")
    done = precreg(project, "run", "--changed-since", "HEAD")
    if selected:
        assert {*results(project)} == {SHORT, LONG}
    else:
        assert "no case depends on what changed since HEAD" in done.stdout
        assert "1 changed file belongs to no case: suites/unit/unrelated.c" in done.stdout + done.stderr


def test_a_build_runs_once_for_all_workers_and_again_for_new_sources(project):
    log = project / "suites/unit/built.log"
    suite = project / "suites/unit/sums.yaml"
    change(suite, "command: [cc,", "command: [./log, cc,")
    (project / "suites/unit/log").write_text(f'#!/bin/sh\necho built >> {log}\nexec "$@"\n')
    (project / "suites/unit/log").chmod(0o755)
    change(suite, "length: [3, 1000]", "length: [1, 2, 3, 4, 5, 6, 7, 8]")
    for _ in range(2):
        precreg(project, "run", "--suite", "sums", "--jobs", "4")
        assert log.read_text() == "built\n"
        assert {*reasons(project).values()} == {"new"}
    plant(project)
    precreg(project, "run", "--suite", "sums", "--jobs", "4")
    assert log.read_text() == "built\n" * 2
    (project / "suites/unit/src/kernel.h").write_text(HEADER)
    precreg(project, "run", "--suite", "sums", "--jobs", "4")
    assert log.read_text() == "built\n" * 2, "the first build is still there"


def test_a_build_that_fails_runs_once_a_run_and_shows_the_compilers_lines(project):
    change(project / "suites/unit/src/kernel.c", "float y", "float yy")
    done = precreg(project, "run", "--suite", "sums", "--jobs", "2")
    assert done.returncode == 2
    assert "expected cc to build but it exited with code 1: " in done.stdout
    assert done.stdout.count("src/kernel.c:") >= 4, "the compiler's lines, at each of two cases"
    assert "standard error:" in done.stdout
    assert {*reasons(project).values()} == {"subject_error"}
    (project / "suites/unit/src/kernel.c").write_text(KERNEL)
    precreg(project, "run", "--suite", "sums", "--jobs", "2")
    assert {*reasons(project).values()} == {"new"}


def test_a_failure_that_has_other_causes_than_sources_is_tried_again(project):
    """A compiler that was not there, and is installed before the next run."""
    change(project / "suites/unit/sums.yaml", "command: [cc,", "command: [our-cc,")
    done = precreg(project, "run", "--suite", "sums")
    assert "expected a program on PATH but got command=our-cc" in done.stdout
    tools = project.parent / "tools"
    tools.mkdir()
    (tools / "our-cc").write_text('#!/bin/sh\nexec cc "$@"\n')
    (tools / "our-cc").chmod(0o755)
    precreg(project, "run", "--suite", "sums", "--jobs", "1", PATH=f"{tools}:{os.environ['PATH']}")
    assert {*reasons(project).values()} == {"new"}


def test_a_product_in_the_tree_is_built_again_if_somebody_changed_it(project):
    suite = project / "suites/unit/sums.yaml"
    suite.write_text(suite.read_text().replace("{build}/kernel", "{suite}/kernel"))
    change(suite, "produces: kernel", 'produces: "{suite}/kernel"')
    precreg(project, "run", "--suite", "sums")
    assert {*reasons(project).values()} == {"new"}
    kernel = project / "suites/unit/kernel"
    kernel.write_text("#!/bin/sh\nexit 9\n")
    precreg(project, "run", "--suite", "sums")
    assert {*reasons(project).values()} == {"new"}


def test_a_build_without_its_product_is_an_error(project):
    change(project / "suites/unit/sums.yaml", "produces: kernel", "produces: [kernel, kernel.map]")
    done = precreg(project, "run", "--suite", "sums")
    assert "expected the build to make kernel.map but it did not" in done.stdout


def test_a_build_that_hangs_ends_after_its_timeout(project):
    change(project / "suites/unit/sums.yaml", "command: [cc,", "timeout: 0.2\n    command: [[sleep, 1000]]\n    #")
    done = precreg(project, "run", "--suite", "sums")
    assert "expected sleep to build in 0.2 s but it takes longer" in done.stdout


def test_the_command_itself_builds_so_that_no_timeout_of_a_case_counts_it(project):
    log = project / "suites/unit/built.log"
    change(project / "suites/unit/sums.yaml", "command: [cc,", "command: [./log, cc,")
    (project / "suites/unit/log").write_text(f'#!/bin/sh\necho $PPID >> {log}\nexec "$@"\n')
    (project / "suites/unit/log").chmod(0o755)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "with a log")
    for options, builds in (((), 1), (("--pair", "HEAD"), 1)):
        command = [sys.executable, "-m", "precreg", "run", "--suite", "sums", "--jobs", "2", *options]
        with subprocess.Popen(command, cwd=project, env=environ(), stdout=subprocess.DEVNULL) as process:
            process.communicate(timeout=PATIENCE_S)
        assert log.read_text() == f"{process.pid}\n" * builds
        log.unlink()
    assert {*reasons(project).values()} == {"identical"}


def test_golden_and_reference_may_be_programs(project):
    """A reference gets float64 inputs, also for float64 ones, and a golden the subject's."""
    golden = SUITE.replace(
        "reference: sums:exact", "golden:" + SUITE.partition("subject:")[2].partition("reference")[0]
    )
    (project / "suites/unit/gold.yaml").write_text(golden.replace("suite: sums", "suite: gold"))
    program = (
        "import sys, numpy as np; x = np.load(sys.argv[1]); assert x.dtype == 'f8'; np.save(sys.argv[2], x.sum(-1))"
    )
    reference = f'{{command: ["{{python}}", -c, "{program}", "{{inputs.x}}", "{{outputs.y}}"]}}'
    for name, dtype in (("narrow", "float32"), ("wide", "float64")):
        text = SUITE.replace("reference: sums:exact", f"reference: {reference}").replace(
            "suite: sums", f"suite: {name}"
        )
        if dtype == "float64":
            subject = text[text.index("subject:") : text.index("reference:")]
            text = text.replace(subject, f"subject: {reference}\n").replace("dtype: float32", "dtype: float64")
        (project / f"suites/unit/{name}.yaml").write_text(text)
    precreg(project, "run", "--jobs", "2")
    found = results(project)
    assert {result["verdict"]["reason"] for result in found.values()} == {"new"}
    assert found["unit/gold/length=3"]["outcome"]["comparisons"][0]["metrics"]["match_ratio"] == 1
    assert found["unit/wide/length=3"]["outcome"]["comparisons"][0]["reference_dtype"] == "float64"


def with_reference_program(project):
    """Let a second copy of the kernel be the golden, and accept its baseline."""
    unit = project / "suites" / "unit"
    shutil.copytree(unit / "src", unit / "gold")
    program = SUITE.partition("subject:")[2].partition("reference")[0].replace("src/", "gold/")
    (unit / "sums.yaml").write_text(SUITE.replace("reference: sums:exact", f"golden:{program}"))
    precreg(project, "run", "--jobs", "1")
    precreg(project, "baseline", "accept", "--all", "--reason", "first")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "accepted")


def test_the_files_of_a_golden_program_are_its_sources_on_every_machine(project):
    with_reference_program(project)
    baseline = json.loads((project / "baselines/generic/unit/sums.json").read_text())
    files = {name for entry in baseline["cases"].values() for name in entry["oracle_files"]}
    assert files == {"suites/unit/gold/kernel.c", "suites/unit/gold/kernel.h", "suites/unit/gold/"}


@pytest.mark.parametrize(
    ("before", "after", "is_found"), [("y = (float)sum", "y = (float)sum * 1.5f", True), (SUM, EQUAL, False)]
)
def test_a_change_of_a_golden_program_is_a_finding_if_its_results_change(project, before, after, is_found):
    with_reference_program(project)
    base = git(project, "rev-parse", "HEAD")
    change(project / "suites/unit/gold/kernel.c", before, after)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "the merge request")
    precreg(project, "run", "--against", base, "--pair", "off", "--jobs", "1")
    record = json.loads((project / "reports/record.json").read_text())
    found = [each["message"] for each in record["findings"] if each["kind"] == "reference_changed"]
    assert bool(found) == is_found
    assert all("suites/unit/gold/kernel.c" in message for message in found)
    assert is_found or [each["cases"] for each in record["warnings"] if each["kind"] == "same_oracles"] == [2]


PYTHON = ["{python}", "-c"]


def test_a_case_of_a_program_leaves_nothing_behind(tmp_path):
    _, result = alone(tmp_path / "project", ["cp", "{inputs.x}", "{outputs.y}"])
    assert (result["verdict"]["reason"], result["outcome"]["execution"].get("left", [])) == ("new", [])
    assert [*scratch(tmp_path / "project").iterdir()] == []


def test_children_that_a_program_leaves_are_reported_and_end(tmp_path):
    program = (
        "import os, shutil, subprocess, sys; shutil.copy(*sys.argv[1:3]); "
        "open(sys.argv[3], 'w').write(str(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid))"
    )
    pid = tmp_path / "pid"
    done, result = alone(tmp_path / "project", [*PYTHON, program, "{inputs.x}", "{outputs.y}", str(pid)])
    assert [(each["kind"], each["names"]) for each in result["outcome"]["execution"]["left"]] == [
        ("processes", ["sleep 1000"])
    ]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert "sleep 1000" in done.stdout


def test_a_timeout_ends_grandchildren_in_sessions_of_their_own(tmp_path):
    program = 'setsid sleep 1000 & echo $! > "$0"; sleep 1000'
    pid = tmp_path / "pid"
    for timeout in (1, 5, 25):
        _, result = alone(tmp_path / "project", ["sh", "-c", program, str(pid)], timeout=timeout)
        assert result["verdict"]["reason"] == "timed_out"
        # On a loaded machine the shell may not get so far in a second.
        if pid.exists() and pid.read_text():
            break
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    alone(tmp_path / "project", ["true"])
    assert [*scratch(tmp_path / "project").iterdir()] == [], "the next run removes the folder of the killed worker"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_ended_run_leaves_no_program(tmp_path, number):
    project, pid = tmp_path / "project", tmp_path / "pid"
    os.mkfifo(pid)
    alone(project, ["true"])
    text = (project / "suites/unit/alone.yaml").read_text()
    script = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(1000)"
    (project / "suites/unit/program.py").write_text(script)
    command = f'["{{python}}", "{{suite}}/program.py", "{pid}"]'
    (project / "suites/unit/alone.yaml").write_text(text.replace('["true"]', command))
    run = [sys.executable, "-m", "precreg", "run", "--jobs", "1"]
    variables = environ(TMPDIR=str(scratch(project)))
    with subprocess.Popen(
        run, cwd=project, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        program = int(pid.read_text())
        descriptor = os.pidfd_open(program)
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_S)
        wait_for_end(descriptor)
    alone(project, ["true"])
    assert [*scratch(project).iterdir()] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_ends_while_it_builds_leaves_no_compiler(project, number):
    pid = project.parent / "pid"
    os.mkfifo(pid)
    change(project / "suites/unit/sums.yaml", "command: [cc,", "command: [./slow, cc,")
    (project / "suites/unit/slow").write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {pid}\nwait\n")
    (project / "suites/unit/slow").chmod(0o755)
    run = [sys.executable, "-m", "precreg", "run", "--suite", "sums", "--jobs", "1"]
    with subprocess.Popen(
        run, cwd=project, env=environ(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        descriptor = os.pidfd_open(int(pid.read_text()))
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_S)
        wait_for_end(descriptor)
    assert process.returncode != 0
    change(project / "suites/unit/sums.yaml", "command: [./slow, cc,", "command: [cc,")
    precreg(project, "run", "--suite", "sums", "--jobs", "1")
    assert {*reasons(project).values()} == {"new"}


def wait_for_end(descriptor):
    from select import POLLIN, poll

    waiting = poll()
    waiting.register(descriptor, POLLIN)
    assert waiting.poll(PATIENCE_S * 1000), "the program goes on"
    os.close(descriptor)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["no-such-program"], "expected a program on PATH but got command=no-such-program"),
        (["./missing"], "expected a program but suites/unit/missing is not there"),
        ([*PYTHON, "raise SystemExit('no device 7')"], "it exited with code 1: no device 7"),
        ([*PYTHON, "import os; os.abort()"], "it was killed by SIGABRT"),
    ],
)
def test_bad_input_names_the_case_and_the_remedy(tmp_path, command, expected):
    done, result = alone(tmp_path / "project", command)
    assert done.returncode == 2
    assert "unit/alone/default   subject_error" in done.stdout
    assert expected in done.stdout
    assert "what to do:" in done.stdout
    assert done.stdout.count(expected) == 1
    assert result["verdict"]["status"] == "error"


def test_the_remedy_of_a_failed_program_keeps_its_files(tmp_path):
    project = tmp_path / "project"
    done, _ = alone(project, [*PYTHON, "raise SystemExit('no device 7')"])
    assert done.stdout.count("no device 7") == 1
    (command,) = re.findall(r"PRECREG_KEEP_FILES=(\S+) precreg (.*)", done.stdout)
    folder, arguments = command
    again = precreg(project, *shlex.split(arguments), PRECREG_KEEP_FILES=str(project / folder))
    assert again.returncode == 2
    (kept,) = (project / folder).iterdir()
    assert [*(kept / "input").iterdir()]


def test_a_missing_output_fails_by_its_name(tmp_path):
    done, result = alone(tmp_path / "project", ["true"])
    assert (done.returncode, result["verdict"]["reason"]) == (1, "missing_output")


def test_a_reference_that_fails_is_the_references_error(project):
    change(project / "suites/unit/sums.yaml", "reference: sums:exact", 'reference: {command: ["false", "{outputs.y}"]}')
    precreg(project, "run", "--suite", "sums", "--jobs", "1")
    assert {*reasons(project).values()} == {"reference_error"}
