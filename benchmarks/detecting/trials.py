"""Trials: what each rule says of each change at seeds of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from detecting.measured import ORIGINAL, Sample
from detecting.operator import Operator
from detecting.pairs import Paired, paired
from detecting.rules import CASE, OURS, RULES, baseline_of, other_bits, verdict
from precreg.report import add_verdict_messages
from precreg.types import Status, Verdict

PAIR = "precreg --pair"
"""The rule that draws further seeds where three do not make it clear."""

PAIRED = 5
"""So many trials are paired: where little is clear they need up to eight times the samples of the others."""


class Told(NamedTuple):
    """What the rules that were asked said of one change in one trial, and `evidence`, what precreg's own said.

    `pair` is what the paired run of that trial gave, if there was one.
    """

    operator: str
    change: str
    trial: int
    flags: dict[str, bool]
    same_bits: bool
    evidence: dict[str, str]
    pair: Paired | None


def told(operator: Operator, found: Mapping[str, Sequence[Sample]]) -> Iterator[Told]:
    """Ask every rule about every change of an operator, trial by trial, and pairs in the first ones."""
    for trial, start in enumerate(range(0, len(found[ORIGINAL]), CASE.seeds)):
        own = {name: given[start : start + CASE.seeds] for name, given in found.items()}
        pairs = paired(operator, own, trial) if trial < PAIRED else {}
        baseline = baseline_of(own[ORIGINAL])
        for change in operator.changes():
            verdicts = {OURS: verdict(own[change], baseline)}
            if change in pairs:
                verdicts[PAIR] = pairs[change].verdict
            flags = {name: given.status is Status.FAILED for name, given in verdicts.items()}
            flags |= {name: rule(own[change], own[ORIGINAL]) for name, rule in RULES.items()}
            same = not other_bits(own[change], own[ORIGINAL])
            evidence = {name: said(given) for name, given in verdicts.items()}
            yield Told(operator.name, change, trial, flags, same, evidence, pairs.get(change))


def said(given: Verdict) -> str:
    """Give the words of a verdict."""
    return f"{given.reason}: {add_verdict_messages(given).message}"
