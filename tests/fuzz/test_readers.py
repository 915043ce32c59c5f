"""A small part of `python -m tests.fuzz`, the same on every machine: no reader fails on a damaged file."""

import shutil

import pytest

from tests.fuzz.drive import fuzz, read_one
from tests.fuzz.readers import make_readers

# Reports and histories are made for each input, which takes some 40 ms.
FEW = {"record": 60, "export": 60, "rows": 60, "database": 120}
INPUTS = 150

NAMES = (
    *(
        "suite",
        "tolerances",
        "device",
        "allow.yaml",
        "mapping",
        "thresholds",
        "baseline",
        "sums",
        "power",
        "proposals",
        "seen",
    ),
    *("environments", "record", "journal", "export", "database", "rows", "npy", "bfloat16", "npz", "compare"),
    *("safetensors", "raw", "kinds", "table", "torch file", "torch pickle", "tensor proto", "msprobe", "external data"),
    *("program output", "pair cache", "index", "pushes", "arguments", "hook"),
)


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    return make_readers(tmp_path_factory.mktemp("made"))


def test_every_reader_is_fuzzed(readers):
    assert tuple(readers) == NAMES


@pytest.mark.parametrize("name", [name for name in NAMES if name != "rows"])
def test_a_valid_file_is_read(readers, name, tmp_path):
    project = tmp_path / "project"
    (project / "suites").mkdir(parents=True)
    for seed, _ in readers[name].seeds:
        end, reason = read_one(readers[name], project, seed)
        assert end == "read", (end, reason)
        shutil.rmtree(project / ".precreg", ignore_errors=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_read_or_refused_with_its_name(readers, name, tmp_path):
    ends, failures = fuzz(name, readers[name], tmp_path, range(FEW.get(name, INPUTS)))
    assert failures == []
    assert ends.total() == FEW.get(name, INPUTS)
    # A reader that refuses everything, or nothing, meets no input that gets past its first check.
    assert len(ends) > 1 or name in (
        "pair cache",
        "index",
        "hook",
        "arguments",
        "bfloat16",
        "external data",
        "torch pickle",
    )
