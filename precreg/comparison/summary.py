"""What every report says of a comparison of stored arrays, said once: the order of its pairs and the last sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from precreg.report import report_describe as describe
from precreg.types.records import ComparedPair, ComparisonRecord
from precreg.types.types import Status


def worst_first(pairs: Sequence[ComparedPair]) -> list[ComparedPair]:
    """Sort by status, by how far the worst number is beyond what is allowed, by how few elements match, by name.

    What could not be measured comes before what was.
    """
    return sorted(pairs, key=lambda pair: (*describe.rank(pair.verdict), _matching(pair), pair.name))


def _matching(pair: ComparedPair) -> float:
    return -1.0 if pair.comparison is None else pair.comparison.metrics.get("match_ratio", -1.0)


def exit_sentence(record: ComparisonRecord) -> str:
    """Say in one sentence what came of the comparison."""
    tally = Counter(pair.verdict.status for pair in record.pairs)
    bad = {status: number for status, number in tally.items() if status in (Status.FAILED, Status.ERROR) and number}
    number = len(record.pairs)
    if not number:
        return next((finding.message for finding in record.findings), "nothing was compared")
    if not bad:
        return "the pair is within tolerance" if number == 1 else f"all {number:,} pairs are within tolerance"
    if number == 1:
        verb = "could not be judged" if record.pairs[0].verdict.status is Status.ERROR else "fails"
        return f"the pair {verb}: {record.pairs[0].verdict.reason}"
    reasons = Counter(str(pair.verdict.reason) for pair in record.pairs if pair.verdict.status in bad)
    named = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    return f"{sum(bad.values()):,} of {number:,} pairs {'fails' if sum(bad.values()) == 1 else 'fail'}: {named}"
