"""Three cases from YAML to every report, against golden files; `python -m tests.e2e.test_road` writes them again."""

import json
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from precreg.baseline.store import read_all_entries, store_entries
from tests.e2e.command import ROOT, change, copy_of, precreg

ROAD = ROOT / "tests" / "golden" / "road"
EXPECTED = ROAD / "expected"
BASELINE = Path("baselines/generic/unit/row_sum.json")
KERNEL = Path("suites/unit/kernels/row_sum.py")
NARROW = "total = np.zeros(x.shape[:-1], x.dtype)\n"
WIDE = "total = np.zeros(x.shape[:-1], np.float32)\n"

FIXED = {
    "started": "2026-11-21T09:00:00+00:00",
    "duration_s": 0.25,
    "commit": "1a2b3c4d5e6f70819a2b3c4d5e6f70819a2b3c4d",
    "fingerprint": "6f2a90c1",
    "former": [],
    "facts": {"numpy": "2"},
    "processor": "a processor",
    "date": "2026-11-02",
    "precreg": "0.1.0",
}


def fixed(value):
    """Replace what differs between runs and machines; round figures to 12 digits, because log2 is the platform's."""
    if isinstance(value, dict):
        # Facts of a Python case are empty on every machine: only those of an environment are replaced.
        settings = FIXED if "fingerprint" in value else {key: FIXED[key] for key in FIXED if key != "facts"}
        return {key: settings.get(key, fixed(item)) for key, item in value.items()}
    if isinstance(value, list):
        return [fixed(item) for item in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


def settled(text):
    """Replace times, commits, versions and the place of the reports in a text."""
    text = re.sub(r"(\bin|,) [0-9.]+ (ms|s)\b", r"\1 0.25 s", text)
    text = re.sub(r'time="[0-9.e-]+"', 'time="0.25"', text)
    text = re.sub(r"commit (`?)[0-9a-f]{8}\b", r"commit \g<1>1a2b3c4d", text)
    text = re.sub(r"precreg [0-9.]+[0-9]:", "precreg 0.1.0:", text)
    return re.sub(r"(at )[0-9a-f]{8}:", r"\g<1>0c1d2e3f:", text)


def produced(folder):
    """Run the three cases in a copy of the project, and return what a user gets, settled."""
    project = copy_of(ROAD, folder)
    done = precreg(project, "run", "--environment", "cpu-x86_64")
    assert done.returncode == 1, done.stdout + done.stderr
    strict = precreg(project, "report", "reports", "--output", "strict", "--junit-dialect", "strict")
    assert strict.returncode == 1
    reports = project / "reports"
    record = {**json.loads((reports / "record.json").read_text()), "project": "road"}
    return {
        "terminal.txt": settled(done.stdout),
        "junit.xml": settled((reports / "junit.xml").read_text()),
        "junit-strict.xml": settled((project / "strict" / "junit.xml").read_text()),
        "codequality.json": (reports / "codequality.json").read_text(),
        "summary.md": settled((reports / "summary.md").read_text()),
        "record.json": json.dumps(fixed(record), indent=1, ensure_ascii=False) + "\n",
    }


def accepted_when_wide(folder):
    """Return the baselines of the two older cases, accepted with the wider accumulator, with fixed dates and places."""
    project = copy_of(ROAD, folder, "suites")
    change(project / KERNEL, NARROW, WIDE)
    change(project / KERNEL, "    return total\n\n\ndef exact", "    return total.astype(x.dtype)\n\n\ndef exact")
    assert precreg(project, "run", "8x256").returncode == 2
    why = ("--reason", "first version, float32 accumulator")
    done = precreg(project, "baseline", "accept", "*8x256", *why)
    assert done.returncode == 0, done.stderr
    names = ("duration_s", "date", "fingerprint", "processor")
    settled_fields = {name: FIXED[name] for name in names if name in FIXED} | {"commit": "0c1d2e3f"}
    return {place: replace(entry, **settled_fields) for place, entry in read_all_entries(project).items()}


@pytest.fixture(scope="module")
def current(tmp_path_factory):
    return produced(tmp_path_factory.mktemp("road"))


@pytest.mark.parametrize(
    "name", ["terminal.txt", "junit.xml", "junit-strict.xml", "codequality.json", "summary.md", "record.json"]
)
def test_every_report_is_the_golden_one(current, name):
    assert current[name] == (EXPECTED / name).read_text()


def test_the_baseline_is_the_golden_one(tmp_path):
    now, golden = accepted_when_wide(tmp_path), read_all_entries(ROAD)
    assert now.keys() == golden.keys()
    assert [fixed(to_builtins(entry)) for entry in now.values()] == [
        fixed(to_builtins(entry)) for entry in golden.values()
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        store_entries(ROAD, accepted_when_wide(Path(name)))
    with tempfile.TemporaryDirectory() as name:
        shutil.rmtree(EXPECTED, ignore_errors=True)
        EXPECTED.mkdir()
        for file, text in produced(Path(name)).items():
            (EXPECTED / file).write_text(text)
