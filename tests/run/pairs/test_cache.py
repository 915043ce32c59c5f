"""The figures of fresh seeds that a project keeps: the key has all that they depend on."""

import os

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.environment import detect_environment
from precreg.measure import compare_arrays
from precreg.run.pairs.cache import MAX_ENTRIES, PAIRS_FOLDER, DrawnSeeds, PairCache, pair_key
from precreg.run.pairs.seeds import PairOfFigures
from precreg.types import Execution, Outcome, SeedFigures

FIGURES = PairOfFigures(SeedFigures({"mean_abs_error": 0.1}, 4), SeedFigures({"mean_abs_error": 0.2}, 4, 1, 2), False)
DRAWN = DrawnSeeds(0.002, ("a", "b"), ({"out": FIGURES}, {"out": FIGURES}))
KEY = "0" * 32
COMPARISON = compare_arrays(np.ones(4), np.full(4, 1.1), rtol=0, atol=0)


def test_figures_are_kept_as_they_are(tmp_path):
    cache = PairCache(tmp_path)
    assert cache.load(KEY) is None
    cache.store(KEY, DRAWN)
    assert cache.load(KEY) == DRAWN
    (tmp_path / PAIRS_FOLDER / KEY).write_bytes(b"\x00damaged")
    assert cache.load(KEY) is None


def test_a_cache_that_is_not_used_keeps_and_gives_nothing(tmp_path):
    PairCache(tmp_path, is_used=False).store(KEY, DRAWN)
    assert not (tmp_path / PAIRS_FOLDER).exists()
    PairCache(tmp_path).store(KEY, DRAWN)
    assert PairCache(tmp_path, is_used=False).load(KEY) is None


def test_the_oldest_entries_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr("precreg.run.pairs.cache.MAX_ENTRIES", 3)
    cache = PairCache(tmp_path)
    for number in range(5):
        cache.store(f"{number:032}", DRAWN)
        os.utime(tmp_path / PAIRS_FOLDER / f"{number:032}", ns=(number, number))
    assert sorted(path.name for path in (tmp_path / PAIRS_FOLDER).glob("[!.]*")) == [f"{n:032}" for n in (2, 3, 4)]
    assert MAX_ENTRIES > 3


def test_the_oldest_bytes_make_room(tmp_path, monkeypatch):
    cache = PairCache(tmp_path)
    cache.store(f"{0:032}", DRAWN)
    size = (tmp_path / PAIRS_FOLDER / f"{0:032}").stat().st_size
    monkeypatch.setattr("precreg.run.pairs.cache.MAX_BYTES", 3 * size)
    for number in range(6):
        cache.store(f"{number:032}", DRAWN)
        os.utime(tmp_path / PAIRS_FOLDER / f"{number:032}", ns=(number, number))
    assert sorted(path.name for path in (tmp_path / PAIRS_FOLDER).glob("[!.]*")) == [f"{n:032}" for n in (2, 3, 4, 5)]


def test_a_project_that_cannot_be_written_keeps_nothing(tmp_path):
    (tmp_path / ".precreg").write_text("a file in the place of the folder\n")
    PairCache(tmp_path).store(KEY, DRAWN)
    assert PairCache(tmp_path).load(KEY) is None


@pytest.fixture
def parts(project, case):
    outcome = Outcome("unit/s/case", "1:case", Execution(("i",), {"out": ("d",)}), (COMPARISON,))
    return case(), (outcome, outcome), (project, project), detect_environment("cpu")


def test_everything_that_figures_depend_on_changes_the_key(parts, tmp_path):
    case, (accepted, present), trees, environment = parts
    first = pair_key(case, (accepted, present), trees, environment)
    assert first == pair_key(case, (accepted, present), trees, environment)
    other = replace(present, execution=replace(present.execution, outputs={"out": ("e",)}))
    by_another_reference = replace(COMPARISON, metrics={**COMPARISON.metrics, "mean_abs_error": 0.2})
    measured = replace(present, comparisons=(by_another_reference,))
    keys = {
        first,
        pair_key(replace(case, definition="1:other"), (accepted, present), trees, environment),
        pair_key(replace(case, id="unit/s/other"), (accepted, present), trees, environment),
        pair_key(case, (accepted, other), trees, environment),
        pair_key(case, (other, accepted), trees, environment),
        pair_key(case, (accepted, measured), trees, environment),
        pair_key(case, (accepted, present), trees, replace(environment, fingerprint="other")),
    }
    kernels = trees[1] / "suites" / "unit" / "kernels.py"
    kernels.write_text(kernels.read_text() + "# changed\n")
    keys.add(pair_key(case, (accepted, present), trees, environment))
    assert len(keys) == 8
