"""The golden record and what every report makes of it."""

import re
from pathlib import Path

from precreg.report.record import read_run_record
from tests.e2e.command import REPORT_FILES

EXPECTED = Path(__file__).parents[1] / "golden" / "road" / "expected"
RECORD = read_run_record(EXPECTED / "record.json")
WRITTEN = [Path("reports", name) for name in REPORT_FILES]


def expected(name):
    return (EXPECTED / name).read_text(encoding="utf-8")


def settled(text):
    """Leave out what the golden files have fixed as text: times, and the commit that a baseline was accepted at."""
    return re.sub(r' time="[^"]*"|(?<= at )[0-9a-f]{8}(?=:)', "", text)
