"""`precreg trace` that watches, stops and stores, as the real command in a project of its own."""

import json
import re
import subprocess
import sys

import pytest

from tests.e2e.command import PATIENCE_S, environ, precreg, repository, with_suite

SUITE = """\
suite: s
subject: k:normalize
reference: k:exact
inputs:
  x: {shape: [2, 4], dtype: float16, normal: {mean: 10, std: 1}}
tolerance: {rtol: 0.1, atol: 0.1}
"""
KERNEL = """\
import precreg


def normalize(x):
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    square = precreg.probe("square", centred * centred)
    total = 0 * square[..., :1]
    for lane in range(4):
        total = total + square[..., lane : lane + 1]
    return centred / total


def exact(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / (centred * centred).sum(-1, keepdims=True)
"""
CASE = "unit/s"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return repository(with_suite(tmp_path_factory.mktemp("project"), SUITE, KERNEL))


def traced(project, *arguments):
    done = precreg(project, "trace", CASE, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def test_watched_values_are_printed_each_time_beside_exact_ones(project):
    printed = traced(project, "--watch", "total[0]", "--watch", "out[..., :2]").stdout
    blocks = printed.split("\n\n")
    totals = [block for block in blocks if block.startswith("total[0]")]
    # The loop assigns it four times, and the line before it once.
    assert len(totals) == 5
    place = "suites/unit/k.py:10  `total = total + square[..., lane : lane + 1]`"
    assert place in totals[1]
    assert re.search(
        r"\n  float16 2x1  sha256 [0-9a-f]{16}  total error \S+\n  index +actual +exact +error in ULP\n", totals[1]
    )
    (output,) = [block for block in blocks if block.startswith("out[..., :2]")]
    assert [line.split("]")[0] for line in output.splitlines()[3:]] == ["  [0, 0", "  [0, 1", "  [1, 0", "  [1, 1"]


def test_a_probe_is_watched_by_its_name(project):
    printed = traced(project, "--watch", "square").stdout
    assert "square  #" in printed
    assert 'precreg.probe("square", centred * centred)' in printed


def test_an_output_is_made_by_an_operation_and_not_by_its_probe(project, tmp_path):
    probed = KERNEL.replace("    return centred / total", '    return precreg.probe("last", centred / total)')
    other = repository(with_suite(tmp_path, SUITE, probed))
    document = json.loads(traced(other, "--json", "-").stdout)
    made = {each["number"]: each["name"] for each in document["operations"]}
    assert made[document["outputs"][0]["number"]] == "divide"


def test_lanes_and_details(project):
    printed = traced(project, "--detail", "3", "--lanes", "1:3").stdout
    block = next(block for block in printed.split("\n\n") if " subtract  " in block)
    assert [line.split("]")[0] for line in block.splitlines()[3:]] == ["  [0, 1", "  [0, 2", "  [1, 1", "  [1, 2"]
    assert " sha256 " not in traced(project, "--detail", "1").stdout


def test_a_watch_that_never_matched_is_said_at_the_end(project):
    done = traced(project, "--watch", "centered", "--break", "matmul")
    assert "nothing matched centered; this computation has centred" in done.stderr
    assert "nothing matched matmul; this computation has " in done.stderr


def test_json_on_stdout_has_nothing_of_the_watches(project):
    done = traced(project, "--watch", "total[0]", "--json", "-")
    assert json.loads(done.stdout)["case"] == f"{CASE}/default"
    assert "total[0]  #" in done.stderr


def stopped(project, commands, *arguments):
    """Trace with a debugger that reads its commands from a pipe."""
    command = [sys.executable, "-m", "precreg", "trace", CASE, *arguments]
    return subprocess.run(
        command,
        cwd=project,
        env=environ(),
        input=commands,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("place", ["subtract", "k.py:6", "suites/unit/k.py:6", "lost_bits > 0.5"])
def test_a_breakpoint_stops_in_the_users_line_with_the_values(project, place):
    commands = "p operation.name, actual.shape, str(exact.dtype), str(actual.dtype)\np mean.shape\nn\nc\nc\nc\nc\nc\n"
    done = stopped(project, commands, "--break", place)
    assert done.returncode == 0, done.stderr
    assert f"break at {place}: #2 subtract, " in done.stderr
    assert "-> centred = x - mean" in done.stderr
    assert "('subtract', (2, 4), 'float64', 'float16')" in done.stderr
    assert "(2, 1)" in done.stderr
    assert '-> square = precreg.probe("square", centred * centred)' in done.stderr
    assert "coverage:" in done.stdout


@pytest.mark.parametrize("commands", ["q\n", ""])
def test_leaving_the_debugger_ends_the_trace_without_a_traceback(project, commands):
    done = stopped(project, commands, "--break", "subtract")
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert done.stderr.rstrip().endswith("interrupted")


@pytest.mark.parametrize(
    ("option", "text", "expected"),
    [
        ("--watch", "x[1.5]", "'1.5' in watch='x[1.5]'\n  what to do: write [0, 0:64:2]"),
        ("--break", "eror > 4 ulp", 'did you mean "error"?'),
        ("--break", "error > 4 bits", "the unit ulp or none"),
        ("--lanes", "0:8", "--detail 3 --lanes 0:8"),
    ],
)
def test_a_bad_expression_is_refused_with_an_example(project, option, text, expected):
    done = precreg(project, "trace", CASE, option, text)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error[bad-watch]" in done.stderr
    assert expected in done.stderr


def test_a_stored_trace_shows_the_same_without_the_project(project, tmp_path):
    file = tmp_path / "trace.json"
    first = traced(project, "--watch", "total[0]", "--watch", "nothing", "--save", file)
    again = precreg(tmp_path, "trace", "show", "trace.json")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert "nothing matched nothing" in again.stderr
    page = precreg(tmp_path, "trace", "show", "trace.json", "--report", "page.html", "--json", "-")
    assert json.loads(page.stdout)["case"] == f"{CASE}/default"
    assert "<html" in (tmp_path / "page.html").read_text()


def test_other_files_are_no_stored_traces(project, tmp_path):
    (tmp_path / "x.json").write_text('{"schema": "precreg-record/1"}')
    for file, slug in (("x.json", "unreadable-record"), ("missing.json", "missing-file")):
        done = precreg(tmp_path, "trace", "show", file)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{file}: error[{slug}]" in done.stderr


def test_a_trace_that_cannot_be_stored_is_reported(project, tmp_path):
    done = precreg(project, "trace", CASE, "--save", tmp_path / "no" / "t.json")
    assert done.returncode == 2
    assert "error[not-writable]" in done.stderr


def test_texts_of_a_stored_trace_cannot_steer_a_terminal(project, tmp_path):
    file = tmp_path / "trace.json"
    traced(project, "--watch", "total[0]", "--save", file)
    file.write_text(
        file.read_text().replace('"total[0]"', '"\\u001b[31mred\\u202e"').replace("float16", "f\\u001b]0;x\\u0007")
    )
    done = precreg(tmp_path, "trace", "show", "trace.json")
    assert done.returncode == 0, done.stderr
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout + done.stderr)


def test_a_suite_called_show_is_named_by_its_id(tmp_path):
    project = repository(with_suite(tmp_path, SUITE.replace("suite: s", "suite: show"), KERNEL, name="show"))
    done = precreg(project, "trace", "unit/show")
    assert (done.returncode, "unit/show" in done.stdout) == (0, True), done.stderr
