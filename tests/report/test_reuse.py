"""Every report counts the reused outcomes, in both languages, and merged shards add them up."""

import re
from typing import get_args

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from precreg.report.chinese.warnings import chinese_reuse
from precreg.report.record import merge_run_records
from precreg.report.sections import describe_reuse
from precreg.types.outcome import ReusedOutcomes, UnkeptReason
from tests.report.made import run_of

COUNTS = ReusedOutcomes(118, "2026-11-29T09:14:02+00:00", (("changed", 5), ("network", 1)))


def test_the_sentence_has_all_numbers():
    assert describe_reuse(COUNTS) == (
        "118 cases reused the outcome of an earlier run (since 2026-11-29T09:14:02+00:00), because nothing that they"
        " depend on changed; 6 ran: 5 changed, 1 with use of the network"
    )
    assert describe_reuse(ReusedOutcomes(1, "2026")).startswith("1 case reused")


@pytest.mark.parametrize("reason", get_args(UnkeptReason))
def test_each_reason_has_words_in_both_languages(reason):
    fact = ReusedOutcomes(3, "2026", ((reason, 41),))
    numbers = [sorted(re.findall(r"\d+", text)) for text in (describe_reuse(fact), chinese_reuse(fact))]
    assert numbers[0] == numbers[1] == ["2026", "3", "41", "41"]


def test_shards_add_up():
    parts = [replace(run_of(), reused=each) for each in (COUNTS, UNSET, replace(COUNTS, oldest="2026-01-01"))]
    merged = merge_run_records(parts)
    assert merged.reused == ReusedOutcomes(236, "2026-01-01", (("changed", 10), ("network", 2)))
    assert merge_run_records([run_of()]).reused is UNSET
