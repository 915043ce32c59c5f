"""The benchmarks of comparing arrays in small: they run, agree, and say what they should. Speed is no matter here."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from time import process_time, sleep

import numpy as np
import pytest

from precreg.measure.metrics import COUNT_DESCRIPTIONS
from tests.e2e.command import PATIENCE_S, ROOT, environ

MEBIBYTE = 1 << 20
NUMBER = r"~?[\d.,]+%?"
OURS = (
    "every metric, and digest",
    "every metric",
    "bit-identical, and digest",
    "bit-identical",
    "subnormal",
    "a tenth NaN or infinite",
    "two dimensions",
    "four dimensions",
    "numpy form, every metric",
)
PEERS = {
    "np.allclose": "numpy",
    "np.testing.assert_allclose": "numpy",
    "torch.testing.assert_close": "torch",
    "msprobe, six metrics": "mindstudio-probe",
    "Polygraphy, CompareFunc.simple": "polygraphy",
    "pytest-regressions, ndarrays": "pytest-regressions",
    "naive numpy script": "numpy",
}


def run(script, *arguments):
    """Run a script of benchmarks/ and return what it prints; it must succeed."""
    command = [sys.executable, ROOT / "benchmarks" / script, *map(str, arguments)]
    done = subprocess.run(
        command, env=environ(PYTHONPATH=ROOT), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def parts(monkeypatch):
    """Let the modules of benchmarks/ be imported."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


@pytest.fixture(scope="module")
def shown():
    """What measure.py prints: a dozen processes of their own, which is why this takes seconds."""
    return run("measure.py", "--elements", 3001, "--rounds", 1, "--patience", 0, "--window", 0.001)


def rows(shown, title, label):
    """Return what follows a label at the start of a line in the tables with a title."""
    tables = [table for table in re.split(r"\n\n(?=[A-D]\. )", shown) if table.startswith(title)]
    assert tables, shown
    return [line[len(label) :] for table in tables for line in table.splitlines() if line.startswith(f"{label} ")]


@pytest.mark.parametrize("label", ["read limit", *OURS])
def test_speed_of_ours_in_both_dtypes_and_with_one_thread_and_two(shown, label):
    cell = rf" +{NUMBER} +{NUMBER} +{NUMBER}"
    found = [row for row in rows(shown, "A.", label) if "|" in row]
    assert len(found) == 2
    assert all(re.fullmatch(rf" +\|{cell} +\|{cell}", row) for row in found), found


@pytest.mark.parametrize("label", PEERS)
def test_a_peer_is_measured_or_told_to_be_missing(shown, label):
    for title, count in (("A.", 2), ("C.", 1)):
        found = rows(shown, title, label)
        assert len(found) == count
        for row in found:
            assert re.search(rf" {NUMBER}", row) or f"not installed: {PEERS[label]}" in row
    assert PEERS[label] != "numpy" or "not" not in "".join(found)


def test_an_earlier_checkout_is_timed_in_processor_time(tmp_path):
    again = ("--elements", 3001, "--rounds", 1, "--patience", 0, "--window", 0.001, "--tables", "a")
    shown = run("measure.py", *again, "--processor-time", "--before", ROOT)
    for label in ("every metric, and digest", "bit-identical"):
        found = rows(shown, "A.", f"before: {label}")
        assert len(found) == 2
        assert all(re.fullmatch(rf" +\|( +{NUMBER}){{3}}", row) for row in found), found
    assert "processor time" in shown
    assert len(re.findall("not measured +of what one thread can read, 2 thread", shown)) == 2
    other = [sys.executable, ROOT / "benchmarks/measure.py", *map(str, again), "--before", tmp_path]
    done = subprocess.run(other, env=environ(PYTHONPATH=ROOT), capture_output=True, text=True, check=False)
    assert f"expected the package of {tmp_path} but got {ROOT / 'precreg'}" in done.stderr
    assert "Traceback" not in done.stderr.splitlines()[-1]


def test_small_arrays_and_memory(shown):
    for n in ("100", "1,000"):
        assert re.search(rf"^ +{n} +{NUMBER} +{NUMBER} +{NUMBER} +{NUMBER} +{NUMBER} +{NUMBER}$", shown, re.MULTILINE)
    for dtype in ("float32", "float64"):
        for label in (*(f"every metric, and digest, {dtype}, {n} thr." for n in (1, 2)), f"numpy form, {dtype}"):
            (row,) = rows(shown, "C.", label)
            assert re.fullmatch(rf" +{NUMBER} +{NUMBER}  goal 16 MB: (NOT REACHED|reached)", row)


def test_the_public_call_is_timed_beside_numpy_here_and_in_an_earlier_checkout():
    shown = run("small_arrays.py", "--rounds", 1, "--sizes", 100, 1000, "--window", 0.001, "--before", ROOT)
    for table in shown.strip().split("\n\n"):
        for n in ("100", "1,000"):
            assert re.search(rf"^ +{n}( +{NUMBER}){{8}}$", table, re.MULTILINE), shown
    assert re.findall(r"^(\w+): microseconds", shown, re.MULTILINE) == ["before", "now"]


def test_two_threads_are_timed_beside_one_in_wall_time():
    shown = run("threads.py", "--rounds", 1, "--sizes", 1_100_000)
    assert re.search(rf"^ +1,100,000( +{NUMBER}){{6}}$", shown, re.MULTILINE), shown


def test_goals_are_printed_beside_the_figures(shown):
    goals = re.findall(
        r"^   goal: (reached|NOT REACHED|not measured) +([\de.+-]+ )?(.*) \(at (?:least|most) ", shown, re.MULTILINE
    )
    told = {what for _, _, what in goals}
    for peer in ("np.allclose", "torch.testing.assert_close", "msprobe, six metrics", "naive numpy script"):
        assert f"times as fast as {peer}, one thread" in told
    assert {state for state, value, what in goals if "np.allclose" in what} <= {"reached", "NOT REACHED"}
    assert "figures of peers agree with ours" in shown


def test_all_metrics_are_checked_against_a_script_that_one_would_write_first(parts):
    from measuring.agreement import disagreements
    from measuring.data import draw
    from measuring.naive import naive
    from measuring.peers import ours

    pair = draw("failing", 5000, "float64")
    found, theirs = ours(pair)(), naive(pair)
    assert set(found) - set(COUNT_DESCRIPTIONS) - set(theirs) == set()
    assert disagreements("naive", theirs, found) == []
    wrong = disagreements("naive", {**theirs, "mean_abs_error": theirs["mean_abs_error"] * 1.01}, found)
    assert len(wrong) == 1
    assert "mean_abs_error" in wrong[0]


def test_what_a_check_prints_is_understood(parts):
    from measuring.data import Pair
    from measuring.peers import assert_allclose

    pair = Pair(np.array([1, 2.5, 3], np.float32), np.array([1, 2, 3], np.float32))
    assert assert_allclose(pair)() == {"within": False, "beyond": 1, "max_abs_error": 0.5, "max_rel_error": 0.25}


def test_a_noisy_sample_is_taken_again_and_does_not_count(parts, monkeypatch):
    from measuring import clock

    taken = iter([clock.Sample(4.0, 1.5), clock.Sample(1.0, 0.0), clock.Sample(3.0, 1.0)])
    monkeypatch.setattr(clock, "PAUSE", 0.01)
    monkeypatch.setattr(clock, "sample", lambda call, window, *, by_processor: next(taken))
    once = clock.Clock(rounds=1, patience=0.001, window=0.0)
    assert once.medians({"a": None}) == {"a": clock.Measured(1.0, quiet=1, samples=1)}
    assert once.medians({"a": None}) == {"a": clock.Measured(3.0, quiet=0, samples=1)}  # patience is spent


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="this system does not say who works")
def test_what_a_child_works_is_our_own(parts):
    from measuring.clock import own_cores

    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        before = own_cores() - process_time()
        # Other programs may leave the child little time on a busy machine.
        for _ in range(600):
            if (grown := own_cores() - process_time() - before) > 0.05:
                break
            sleep(0.1)
        assert grown > 0.05
    finally:
        spinning.kill()
        spinning.wait()


def take(pair):
    """Return a call that touches 40 MiB."""
    return lambda: np.ones(40 * MEBIBYTE, np.uint8).sum()


def test_peak_memory_is_that_of_the_call_alone(parts):
    from measuring.child import Task, peak_over_inputs

    ours = import_module(__name__)  # as it is known now: a case that ran in this process may have set modules aside
    peak = peak_over_inputs(Task(ours.take, "ordinary", 10_000_000, "float32"))
    assert 36 * MEBIBYTE < peak < 56 * MEBIBYTE


def test_large_files(tmp_path):
    shown = run("large_files.py", tmp_path, "--gigabytes", 0.004, "--rounds", 2)
    assert "two files of 0.00 GB; rounds: 2" in shown
    assert re.search(rf"^plain read, two threads +{NUMBER} +{NUMBER} +{NUMBER} +1\.00 ", shown, re.MULTILINE)
    for name in ("compare\\(\\) of memory maps", "precreg compare"):
        assert re.search(
            rf"^{name}(?: +{NUMBER}){{7}}  goal 256 MB: reached; goal 0\.9: (NOT REACHED|reached)$", shown, re.MULTILINE
        )
    assert list(tmp_path.iterdir()) == []


def test_large_files_need_room(tmp_path):
    command = [sys.executable, ROOT / "benchmarks" / "large_files.py", tmp_path, "--gigabytes", "1e9"]
    done = subprocess.run(command, env=environ(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert "GB free in" in done.stderr


@pytest.fixture(scope="module")
def computed():
    """What numerics.py prints."""
    return run("numerics.py", "--elements", 3001, "--size", 33, "--rounds", 1, "--patience", 0, "--window", 0.001)


ROUNDINGS = {
    "native core": 5,
    "native core, into memory that is there": 5,
    "numpy form": 5,
    "numpy or ml_dtypes, astype and back": 4,
    "torch, to and back": 4,
    "gfloat, round_ndarray": 4,
    "pychop, Chop": 5,
}


@pytest.mark.parametrize("label", ROUNDINGS)
def test_a_way_to_round_is_timed_for_the_formats_it_knows_or_told_to_be_missing(computed, label):
    (row,) = rows(computed, "A.", label.ljust(39))
    times = re.findall(rf" {NUMBER} +{NUMBER}\b", row)
    package = label.partition(",")[0]
    assert len(times) == ROUNDINGS[label] or row.strip() == f"not installed: {package}" or "native core" in label
    assert package in ("torch", "gfloat", "pychop") or "not installed" not in row


def test_products_are_timed_in_every_way(computed):
    for label in ("numpy form", "numpy operations"):
        (row,) = rows(computed, "B.", label.ljust(39))
        assert len(re.findall(NUMBER, row)) in (2, 4)
    assert re.search(rf"^np\.matmul, in no stated order +{NUMBER}$", computed, re.MULTILINE)


def test_operations_are_timed_in_every_way(computed):
    for label in ("numpy's float32, not rounded further", "numpy form"):
        (row,) = rows(computed, "C.", label.ljust(39))
        assert len(re.findall(rf" {NUMBER} +{NUMBER}\b", row)) == 4


def test_goals_of_rounding_and_of_products_are_told(computed):
    told = re.findall(
        r"^   goal: (reached|NOT REACHED|not measured) .* \((at (?:most|least) \d+)\)$", computed, re.MULTILINE
    )
    of_tables = ["at most 2", "at most 2", "at most 8", "at least 10", "at least 10"]
    assert [goal for _, goal in told] == [*of_tables, "at most 2", "at most 2"], "the last two are those of blocks"


BLOCKS = {
    "native core": 7,
    "native core, into memory that is there": 5,
    "numpy form": 7,
    "numpy and ml_dtypes, astype and back": 4,
    "torch, to and back": 2,
    "numpy and gfloat, round_ndarray": 4,
}


@pytest.mark.parametrize("label", BLOCKS)
def test_a_way_to_round_to_blocks_is_timed_for_the_formats_it_knows(computed, label):
    (row,) = rows(computed, "D.", label.ljust(39))
    times = re.findall(rf" {NUMBER} +{NUMBER}\b", row)
    assert len(times) == BLOCKS[label] or "not installed" in row or "native core" in label


def test_a_way_that_rounds_otherwise_ends_the_benchmark(parts):
    import numerics

    calls = numerics.calls_of(numerics.drawn_of_all_sizes(1000), "fp16")
    assert numerics.check(calls, "fp16") == []
    with pytest.raises(SystemExit, match="results do not agree, fp16: other"):
        numerics.check({**calls, "other": lambda: calls["numpy form"]() * 2}, "fp16")


def test_each_instruction_set_gives_one_digest_of_all_figures():
    """Arrays of several chunks are left to the default size: these are of one chunk, with up to four threads."""
    pytest.importorskip("precreg.measure.native", reason="no C++ compiler was there to build the core")
    lines = [line.split() for line in run("measure_bits.py", "--elements", 3001).splitlines()]
    assert [line[1] for line in lines] == ["generic", "avx2", "avx512"][: len(lines)]
    assert len({line[0] for line in lines}) == 1
    assert int(lines[0][2].replace(",", "")) > 4000


def test_a_figure_that_differs_is_named(parts):
    from measure_bits import differences, digest

    one = {"near (7,)": digest(1.0, 2.0), "far (7,)": digest(0.0)}
    assert differences(one, dict(one)) == []
    assert differences(one, {**one, "far (7,)": digest(-0.0)}) == ["far (7,)"]
    assert differences(one, {"near (7,)": digest(1.0, float(np.nextafter(2, 3)))}) == ["near (7,)", "far (7,)"]


def test_the_time_of_the_core_has_the_rows_of_the_page():
    pytest.importorskip("precreg.measure.native", reason="no C++ compiler was there to build the core")
    page = (ROOT / "docs" / "measure-cost.md").read_text(encoding="utf-8")
    command = ("--elements", 3001, "--rounds", 1, "--python", sys.executable)
    shown = run("measure_core.py", *command).splitlines()
    assert shown[0] == "| pairs | before | now |"
    assert len(shown) == 10
    for line in shown[2:]:
        assert re.search(rf"^{re.escape(line.rsplit('|', 3)[0])}\| \d+ \| \d+ \|$", page, re.MULTILINE), line
