"""Widths, colours and verbosity of the real command, on pseudo terminals and in pipes."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from msgspec import json

from tests.e2e.command import PATIENCE_S, THREADS, change, copy_of, environ, journal_cases, precreg
from tests.e2e.fork_server import forked, run_forked
from tests.e2e.test_road import BASELINE, KERNEL, NARROW, ROAD, WIDE

SCALARS = """suite: loss
subject: scalars:loss
reference: scalars:exact
matrix: {n: [1, 2, 3, 4, 5, 6]}
inputs: {x: {shape: [64], dtype: float32, normal: {}}}
params: {n: $n}
seeds: 1
tolerance: {rtol: 1e-3}
"""
KERNELS = """import numpy as np


def loss(x, n):
    if n > 4:
        raise ValueError(f"no such size as {n}")
    return np.float32(np.abs(x).mean() * (1 + n))


def exact(x, n):
    return np.abs(x).mean()
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A project whose last run has 4 wrong scalars, 2 errors, a regression, a new case and a passed one."""
    project = copy_of(ROAD, tmp_path_factory.mktemp("ran"))
    (project / "suites/unit/scalars.py").write_text(KERNELS)
    (project / "suites/unit/loss.yaml").write_text(SCALARS)
    assert precreg(project, "run").returncode == 1
    return project


def on_terminals(folder, *arguments, columns=80, **variables):
    """Run with stdout and stderr on pseudo terminals of a width; return what each was sent."""
    pairs = [pty.openpty(), pty.openpty()]
    for _, theirs in pairs:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    known = {name: value for name, value in environ(TERM="xterm").items() if name not in ("NO_COLOR", "COLUMNS")}
    ends = [theirs for _, theirs in pairs]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_and_close, folder, arguments, {**known, **THREADS, **variables}, ends)
        # The commands of these tests send less than the buffer of a terminal to stderr, so they never wait.
        sent = [read_all(ours).replace("\r\n", "\n") for ours, _ in pairs]
        running.result()
    return sent


def run_and_close(folder, arguments, variables, ends):
    """Run a command in a fork on two terminals, and close their ends: then reading ends, too."""
    try:
        run_forked(command_of(arguments), folder, variables, PATIENCE_S, *ends)
    finally:
        for end in ends:
            os.close(end)


def command_of(arguments):
    return [sys.executable, "-m", "precreg", *map(str, arguments)]


def read_all(descriptor):
    sent = b""
    try:
        while part := os.read(descriptor, 65536):
            sent += part
    except OSError:  # Linux says so when the other side is closed
        pass
    os.close(descriptor)
    return sent.decode()


def piped(folder, *arguments, **variables):
    known = {name: value for name, value in environ(**THREADS).items() if name != "NO_COLOR"}
    return forked(command_of(arguments), folder, {**known, **variables}, PATIENCE_S)


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def too_wide(text, columns):
    """Return the lines beyond a width that could have been wrapped between two words."""
    return [line for line in text.splitlines() if len(line) > columns and len(line.split()) > 1]


@pytest.mark.parametrize("columns", [80, 120])
def test_a_summary_fits_the_terminal_and_a_pipe_has_whole_lines(ran, columns):
    wide = piped(ran, "report", "reports").stdout
    assert too_wide(wide, 120), "a line that no terminal of this test holds"
    shown = plain(on_terminals(ran, "report", "reports", columns=columns)[0])
    assert too_wide(shown, columns) == []
    words = shown.split()
    # Joined, the wrapped lines are the sentences of the pipe.
    sentence = next(line for line in wide.splitlines() if line.lstrip().startswith("out: mean_ulp grew"))
    assert " ".join(sentence.split()) in " ".join(words)


def test_a_width_in_columns_of_the_environment_counts_as_for_other_programs(ran):
    assert too_wide(plain(on_terminals(ran, "report", "reports", COLUMNS="100")[0]), 100) == []
    assert too_wide(plain(on_terminals(ran, "report", "reports", COLUMNS="100")[0]), 80)


@pytest.mark.parametrize(
    "command",
    [
        "power",
        "faults --list",
        "faults float32-8x256 --jobs 0 --fault naive_sum --verbose",
        "selftest float32-8x256 --jobs 0 --seeds 1",
        "calibrate float32-8x256 --jobs 0 --replicates 1",
        "explain row_sum",
        "list --verbose",
        "diagnose unit/loss/n=2",
        "trace row_sum/float16-8x256",
        "doctor",
        "baseline list --all",
        "baseline diff --verbose",
    ],
)
def test_every_report_fits_the_terminal(ran, command):
    shown, _ = on_terminals(ran, *command.split())
    assert len(shown.splitlines()) > 2
    assert too_wide(plain(shown), 80) == []


def test_an_error_fits_the_terminal_and_stands_on_lines_of_its_own(ran):
    _, sent = on_terminals(ran, "run", "nothing-has-this-name")
    lines = [line.rpartition("\r")[2] for line in plain(sent).split("\n")]
    assert lines[0].startswith("error[nothing-selected]: expected a case that matches but got")
    assert too_wide("\n".join(lines), 80) == []
    whole = piped(ran, "run", "nothing-has-this-name").stderr
    message, hint, page = whole.splitlines()
    assert message.startswith("error[nothing-selected]: ")
    assert hint.startswith("  what to do: ")
    assert page.startswith("  see: docs/errors/")
    assert " ".join(lines).split() == whole.split()


COLOURED = ["report reports", "compare a.npy b.npy"]


@pytest.fixture(scope="module")
def arrays(ran):
    np.save(ran / "a.npy", np.arange(4.0))
    np.save(ran / "b.npy", np.arange(4.0) + 1)
    return ran


@pytest.mark.parametrize("command", COLOURED)
@pytest.mark.parametrize(
    ("option", "variables", "expected"),
    [
        ("", {}, True),
        ("", {"NO_COLOR": "1"}, False),
        ("", {"NO_COLOR": ""}, True),
        ("", {"TERM": "dumb"}, False),
        ("", {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ("--color=never", {}, False),
        ("--colour=never", {"FORCE_COLOR": "1"}, False),
        ("--color=always", {"NO_COLOR": "1"}, True),
        ("--color=auto", {"NO_COLOR": "1"}, False),
    ],
)
def test_colours_on_a_terminal(arrays, command, option, variables, expected):
    stdout, _ = on_terminals(arrays, *command.split(), *filter(None, [option]), **variables)
    assert ("\x1b[3" in stdout) is expected
    assert "exit 1: " in plain(stdout)


@pytest.mark.parametrize("command", COLOURED)
@pytest.mark.parametrize(
    ("option", "variables", "expected"),
    [
        ("", {}, False),
        ("", {"FORCE_COLOR": "1"}, True),
        ("", {"FORCE_COLOR": "0"}, False),
        ("", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("--color=always", {}, True),
        ("--color=always", {"NO_COLOR": "1"}, True),
    ],
)
def test_colours_in_a_pipe(arrays, command, option, variables, expected):
    done = piped(arrays, *command.split(), *filter(None, [option]), **variables)
    assert ("\x1b[3" in done.stdout) is expected
    assert done.returncode == 1


def test_colour_may_be_chosen_before_the_command(arrays):
    assert "\x1b[3" in piped(arrays, "--color", "always", "report", "reports").stdout
    assert "\x1b[3" not in piped(arrays, "--color", "always", "report", "reports", "--color", "never").stdout
    wrong = piped(arrays, "report", "reports", "--color", "sometimes")
    assert (wrong.returncode, "'auto', 'always', 'never'" in wrong.stderr) == (2, True)


def test_the_exit_line_counts_errors(ran):
    assert (
        piped(ran, "report", "reports").stdout.splitlines()[-1] == "exit 1: 4 out of tolerance, 1 regressed, 2 errors"
    )


def test_failures_of_one_cause_are_one_group_with_the_values_of_the_worst_scalar(ran):
    lines = piped(ran, "report", "reports").stdout.splitlines()
    heads = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    assert [line.split("   ")[0] for line in heads[1:]] == ["FAILED", "ERROR"]
    assert "unit/loss/n=4   out_of_tolerance   the worst of 4 cases" in heads[0]
    values = next(line for line in lines if line.startswith("         values"))
    found = re.fullmatch(r" +values    out: actual (\S+), expected (\S+), relative error (\S+) \(seed 0\)", values)
    actual, expected, error = map(float, found.groups())
    assert actual == pytest.approx(5 * expected, rel=1e-5)
    assert error == pytest.approx(4, rel=1e-3)
    assert "look into precreg diagnose unit/loss/n=4" in lines


def test_quiet_shows_groups_and_the_exit_line_and_no_progress(ran):
    done = precreg(ran, "run", "-q")
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line.split("   ")[0].split()[0] for line in lines] == ["FAILED", "FAILED", "ERROR", "PROPOSED", "exit"]
    shown, sent = on_terminals(ran, "run", "--quiet", "--jobs", "0", columns=200)
    assert (plain(shown), sent) == (done.stdout, "")
    both = precreg(ran, "run", "-q", "-v")
    assert (both.returncode, "expected --verbose or --quiet but got both" in both.stderr) == (2, True)


def test_verbose_shows_every_case_on_its_own(ran):
    done = precreg(ran, "report", "reports", "-v")
    assert len(re.findall(r"^FAILED ", done.stdout, re.M)) == 5
    assert len(re.findall(r"^passed ", done.stdout, re.M)) == 1


def test_quiet_comparisons_have_a_line_for_each_failing_pair(arrays):
    done = precreg(arrays, "compare", "a.npy", "b.npy", "-q")
    assert done.stdout.splitlines()[0].startswith("FAILED   a")
    assert done.stdout.splitlines()[-1].startswith("exit 1: ")
    assert len(done.stdout.splitlines()) == 2


def test_a_dumb_terminal_gets_lines_and_no_bar(ran):
    _, sent = on_terminals(ran, "run", "--jobs", "0", TERM="dumb")
    assert "\x1b" not in sent
    assert "9 of 9 cases\n" in sent


@pytest.mark.parametrize("columns", [40, 80])
def test_the_bar_shows_rate_and_remaining_time_in_one_line(ran, columns):
    _, sent = on_terminals(ran, "run", "--jobs", "0", columns=columns)
    bars = [line for line in re.split(r"[\r\n]", plain(sent)) if "━" in line]
    assert any("9/9" in bar for bar in bars)
    assert not [bar for bar in bars if len(bar.rstrip()) > columns]
    if columns == 80:
        assert re.search(r"\d/s", plain(sent))
        assert re.search(r"\d:\d\d:\d\d", plain(sent))


@pytest.fixture
def project(tmp_path):
    return copy_of(ROAD, tmp_path)


def test_last_failed_runs_what_failed_until_nothing_fails(project):
    without = precreg(project, "run", "--last-failed")
    assert without.returncode == 2
    assert "reports" in without.stderr
    precreg(project, "run")
    done = precreg(project, "run", "--last-failed")
    assert done.returncode == 1
    assert "1 failed in" in done.stdout
    assert "\nselected  failed in the last run\n" in done.stdout
    other = precreg(project, "run", "--last-failed", "float32")
    assert other.returncode == 2
    assert "nothing-selected" in other.stderr
    change(project / KERNEL, NARROW, WIDE)
    change(project / KERNEL, "    return total\n\n\ndef exact", "    return total.astype(x.dtype)\n\n\ndef exact")
    mended = precreg(project, "run", "--lf")
    assert (mended.returncode, "1 passed in" in mended.stdout) == (0, True)
    done = precreg(project, "run", "--lf")
    assert (done.returncode, done.stdout) == (0, "no case failed in the last run: no case to run\n")
    assert (project / BASELINE).is_file()


def test_last_failed_reads_the_record_of_the_named_folder(project):
    precreg(project, "run", "--output", "elsewhere")
    assert precreg(project, "run", "--last-failed").returncode == 2
    done = precreg(project, "run", "--last-failed", "--output", "elsewhere")
    assert "1 failed in" in done.stdout


def order_of(project):
    """Return the names of the cases in the order in which the last run executed them."""
    return [case.rpartition("/")[2] for case in journal_cases(project)]


def test_failed_first_runs_every_case_in_another_order(project):
    first = precreg(project, "run", "--jobs", "0", "--failed-first")
    assert first.returncode == 1, first.stderr  # as without a record
    assert order_of(project) == ["float16-8x256", "float16-16x64", "float32-8x256"]
    path = project / "reports/record.json"
    record = json.decode(path.read_bytes())
    for result in record["results"]:
        result["verdict"]["status"] = "error" if result["name"] == "float32-8x256" else "passed"
    path.write_bytes(json.encode(record))
    again = precreg(project, "run", "--jobs", "0", "--ff")
    assert order_of(project) == ["float32-8x256", "float16-8x256", "float16-16x64"]
    assert again.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
    assert "selected" not in again.stdout


def test_failed_first_refuses_a_damaged_record(project):
    (project / "reports").mkdir()
    (project / "reports/record.json").write_text("[")
    done = precreg(project, "run", "--failed-first")
    assert (done.returncode, "unreadable-record" in done.stderr) == (2, True)


def test_the_time_covers_loading_and_reports(project):
    done = precreg(project, "run")
    shown = float(re.search(r" in ([0-9.]+) s\n", done.stdout)[1])
    assert shown > json.decode((project / "reports/record.json").read_bytes())["duration_s"]
