"""The release watch: its page is made of its data, and its data is what the installed numpy computes."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from packaging.version import Version

ROOT = Path(__file__).parents[2]
WATCH = ROOT / "examples" / "release_watch"
MODULES = ("functions", "compute", "exact", "collect", "measure", "changes", "threads", "page", "replay")
# A CPU without AVX-512 has other loops with other errors. Only this CPU was measured, so the factors are guesses.
MEAN_SLACK, MAX_SLACK = 2.0, 4.0


@pytest.fixture(scope="module")
def watch():
    """Import the programs; take them out of sys.modules afterwards, because their names are common."""
    sys.path.insert(0, str(WATCH))
    kept = {name: sys.modules.pop(name) for name in MODULES if name in sys.modules}
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path.remove(str(WATCH))
        for name in MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(kept)


@pytest.fixture(scope="module")
def collected(watch, tmp_path_factory):
    """Compute all functions of the installed numpy as collect.py does; return the release and its folder."""
    folder = tmp_path_factory.mktemp("release")
    facts = watch.collect.compute_in(Path(sys.executable), "numpy", folder / np.__version__ / "all", [])
    return facts, folder


def elementwise(watch):
    """Return the functions and dtypes of numpy whose result depends on no order of additions."""
    return [
        (function, dtype)
        for function in watch.functions.watched_functions("numpy")
        if len(function.inputs[0].shape) == 1
        for dtype in function.dtypes
    ]


def test_the_tables_of_the_page_are_made_of_the_stored_figures(watch):
    text = watch.page.PAGE.read_text()
    shown = text.partition(watch.page.BEGIN)[2].partition(watch.page.END)[0]
    assert shown == "\n" + watch.page.page_tables() + "\n"
    assert shown.count("\n### ") >= 8


def test_inputs_have_the_bits_that_all_releases_had(watch, collected):
    facts, _ = collected
    packages = watch.changes.described_releases()["packages"]
    assert facts["inputs"] == packages["numpy"]["inputs"]
    assert facts["missing"] == {}


def test_the_installed_numpy_has_the_errors_of_its_release(watch, collected):
    _, folder = collected
    rows = watch.changes.rows_at("numpy", np.__version__)
    plain = watch.changes.rows_at("numpy", np.__version__, "baseline")
    same_machine = watch.measure.cpu_name() == watch.changes.described_releases()["cpu"]
    known = np.__version__ in watch.changes.releases_of("numpy")
    checked = 0
    for function, dtype in elementwise(watch):
        [row] = watch.measure.rows_of(function, dtype, folder, [np.__version__], "all")
        stored = rows[function.name, dtype], plain[function.name, dtype]
        if same_machine and known:
            assert {name: row[name] for name in watch.measure.METRICS} == {
                name: stored[0][name] for name in watch.measure.METRICS
            }, function.name
        means, largest = ([float(each[name]) for each in stored] for name in ("mean_ulp", "max_ulp"))
        assert float(row["mean_ulp"]) <= MEAN_SLACK * max(means), function.name
        assert float(row["mean_ulp"]) >= min(means) / MEAN_SLACK, function.name
        assert float(row["max_ulp"]) <= MAX_SLACK * max(largest), function.name
        checked += 1
    assert checked > 90


def test_every_release_of_numpy_but_the_first_can_be_looked_up(watch):
    releases = watch.changes.releases_of("numpy")
    assert releases == sorted(releases, key=Version)
    first, last = (watch.changes.rows_at("numpy", release) for release in (releases[0], releases[-1]))
    assert first.keys() == last.keys()
    assert first["numpy.sin", "float64"] != last["numpy.sin", "float64"]
    assert first["numpy.exp", "float16"] == last["numpy.exp", "float16"]


def test_a_change_must_exceed_its_ratio_and_its_standard_errors(watch):
    row = {"n": "2000", "mean_ulp": "0.25", "rms_ulp": "0.29", "rms_error": "1"}
    assert not watch.changes.is_change(row, row | {"mean_ulp": "0.272"}, "mean_ulp")
    assert watch.changes.is_change(row, row | {"mean_ulp": "0.28"}, "mean_ulp")
    assert watch.changes.is_change(row | {"mean_ulp": "0.28"}, row, "mean_ulp")
    few = row | {"n": "8"}
    assert not watch.changes.is_change(few, few | {"rms_error": "2"}, "rms_error")
    assert watch.changes.is_change(few, few | {"rms_error": "20"}, "rms_error")
    assert watch.changes.is_change(row | {"rms_error": "0"}, row, "rms_error")


def test_changed_elements_are_counted_by_their_bits(watch):
    before = np.array([0.0, 1.0, np.nan, 2.0])
    assert watch.measure.changed_elements(before.copy(), before) == 0
    assert watch.measure.changed_elements(np.array([-0.0, 1.0, np.nan, 3.0]), before) == 2
    assert watch.measure.changed_elements(before.astype(np.float32), before) == 4
    assert watch.measure.changed_elements(before[:3], before) == 3


def test_every_thread_is_about_a_change_of_the_data(watch):
    cited = {link for package in watch.changes.PACKAGES for change in watch.changes.changes_of(package)
             for link in watch.threads.threads_of(change)}  # fmt: skip
    stored = {url for *_, urls in watch.threads._THREADS for url in urls}
    assert {link.partition("](")[2].rstrip(")") for link in cited} == stored


def test_a_replay_finds_the_release_that_lost_precision(watch, tmp_path):
    releases = ["1.11.4", "1.12.0", "1.13.0", "1.13.1", "1.14.0", "1.14.1", "1.15.0", "1.15.1"]
    found = watch.replay.replay("scipy", tmp_path / "project", releases)
    points = watch.replay.change_points("scipy", found, releases)
    losses = {(point["release"], point["function"], point["dtype"]) for point in points if point["worse"] == "true"}
    gains = {(point["release"], point["function"], point["dtype"]) for point in points if point["worse"] == "false"}
    assert ("1.14.0", "scipy.special.betainc", "float32") in losses
    assert ("1.15.0", "scipy.special.logit", "float32") in gains


def test_a_release_that_lacks_a_function_has_a_row_without_figures(watch, tmp_path):
    [function] = [each for each in watch.functions.watched_functions("numpy") if each.name == "numpy.sqrt"][:1]
    for release, names in (("1.0", []), ("1.1", ["numpy.sqrt|float64"]), ("1.2", []), ("1.3", [])):
        (tmp_path / release / "all").mkdir(parents=True)
        arrays = function.arrays("float64")
        np.savez(tmp_path / release / "all" / "outputs.npz", **{name: np.sqrt(*arrays) for name in names})
    rows = list(watch.measure.rows_of(function, "float64", tmp_path, ["1.0", "1.1", "1.2", "1.3"], "all"))
    assert [(row["release"], row["output"]) for row in rows] == [
        ("1.0", "missing"), ("1.1", "float64"), ("1.2", "missing"),
    ]  # fmt: skip
    assert float(rows[1]["max_ulp"]) <= 0.5


def test_the_figures_are_small():
    assert sum(file.stat().st_size for file in (WATCH / "figures").iterdir()) < 300_000


def test_the_exact_functions_are_those_of_the_standard_library(watch):
    """Compare with Python's correctly rounded or nearly correct functions: a wrong counterpart would be far off."""
    import math

    for name, expected in (("numpy.exp", math.exp), ("numpy.arctan", math.atan), ("numpy.log1p", math.log1p)):
        function = next(each for each in watch.functions.watched_functions("numpy") if each.name == name)
        [x] = function.arrays("float64")
        found = watch.exact.exact_result(function, "float64")
        assert np.allclose(found.astype(float), [expected(value) for value in x], rtol=1e-15, atol=0)


def test_page_py_writes_the_same_page(watch, tmp_path):
    head, begin, rest = watch.page.PAGE.read_text().partition(watch.page.BEGIN)
    _, end, tail = rest.partition(watch.page.END)
    page = tmp_path / "page.md"
    page.write_text(head + begin + end + tail)
    done = subprocess.run([sys.executable, str(WATCH / "page.py"), str(page)], env={**os.environ}, check=False)
    assert done.returncode == 0
    assert page.read_text() == watch.page.PAGE.read_text()
