"""What is shown of a proposal: as lines for a person, or as plain values for a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import to_builtins

from precreg.baseline.accepted import history
from precreg.baseline.change import Change, MetricChange
from precreg.baseline.creeping import budgets
from precreg.baseline.store import Place
from precreg.cli.accepting import Terms, creep_of, warning
from precreg.types.numbers import apart
from precreg.types.records import AcceptedValue, BaselineEntry
from precreg.types.types import Finding
from precreg.verdict.creep import Creep, creeps

INSEPARABLE = "code and environment cannot be told apart: precreg run --pair REVISION runs both versions here"


SHOWN_FINDINGS, SHOWN_VALUES = 4, 3
"""Findings, and accepted values, that a person is shown unless all are asked for."""


def summary(change: Change, verbose: bool) -> Iterator[str]:
    """Yield the case with its verdict, how its environment changed, and each metric that moved, or every metric."""
    yield f"{change.place.id}: {change.verdict}, to be stored in {change.place.file}"
    if change.surroundings:
        yield f"  environment: {change.surroundings}"
        if change.proposal.paired is None:
            yield f"  {INSEPARABLE}"
    for metric in change.metrics:
        if verbose or metric.kind != "same":
            yield f"  {metric.kind:7} {metric.output}  {metric.metric:16} {_before_and_after(metric)}"
            if change.surroundings and metric.paired is not None and metric.old is not None:
                yield f"  {'':7} {_separated(metric)}"


def evidence(terms: Terms, change: Change, verbose: bool) -> Iterator[str]:
    """Yield what the verdict was made of, what was accepted before, and what all losses since then come to."""
    findings = change.proposal.findings
    shown = findings if verbose else findings[:SHOWN_FINDINGS]
    yield from (f"  {'evidence':10}  {_finding(finding)}" for finding in shown)
    if findings[len(shown) :]:
        yield f"  {'':10}  and {len(findings) - len(shown)} more"
    past = () if change.old is None else history(change.old)
    recent = past if verbose else past[-SHOWN_VALUES:]
    if len(recent) < len(past):
        yield f"  {'accepted':10}  {accepted(past[0])}; {len(past) - len(recent) - 1} between"
    yield from (f"  {'accepted':10}  {accepted(value)}" for value in recent)
    found = creep_of(terms, change)
    worst = largest(terms, change.place, change.new)
    if found is not None:
        yield f"  {'creep':10}  {warning(found)}"
    elif worst is not None:
        yield f"  {'creep':10}  {worst}"


def largest(terms: Terms, place: Place, entry: BaselineEntry) -> Creep | None:
    """Return the metric that has crept most, if any has."""
    allowed = budgets(entry, terms.layers.get(place.id), terms.here.chain)
    return max(creeps(entry, allowed), key=lambda found: found.factor, default=None)


def past(terms: Terms, place: Place, entry: BaselineEntry) -> Iterator[str]:
    """Yield how far an entry has crept, and everything that was accepted of it, oldest first."""
    found = largest(terms, place, entry)
    yield f"  {'creep':10}  {'none' if found is None else found}"
    yield from (f"  {'accepted':10}  {accepted(value)}" for value in history(entry))


def values(terms: Terms, change: Change) -> dict[str, Any]:
    """Return everything about one proposal as values that JSON has."""
    found, worst = creep_of(terms, change), largest(terms, change.place, change.new)
    crept = None
    if worst is not None:
        crept = {"output": worst.output, "metric": worst.metric, "factor": worst.factor, "since": worst.since.date}
        crept |= {"beyond_budget": found is not None, "message": str(worst) if found is None else found.message}
    return {
        "case": change.place.id,
        "environment": change.place.environment,
        "file": change.place.file,
        "verdict": change.verdict,
        "message": change.proposal.message,
        "commit": change.new.commit,
        "to_confirm": change.to_confirm,
        "environment_change": change.surroundings,
        "metrics": [
            {
                "output": metric.output,
                "metric": metric.metric,
                "before": metric.old,
                "paired": metric.paired,
                "after": metric.new,
                "ratio": metric.ratio,
                "kind": metric.kind,
            }
            for metric in change.metrics
        ],
        "evidence": to_builtins(change.proposal.findings),
        "accepted": to_builtins(() if change.old is None else history(change.old)),
        "creep": crept,
    }


def _before_and_after(metric: MetricChange) -> str:
    before, after = (figure or "undefined" for figure in apart([metric.old, metric.new]))
    if metric.kind == "new":
        return after
    ratio = "" if metric.ratio is None else f" ({apart([metric.ratio, 1.0], 3)[0]} times)"
    return f"{before} -> {after}{ratio}"


def _separated(metric: MetricChange) -> str:
    """Tell the environment's part, accepted to paired, from the code's, paired to proposed."""
    of_environment = _before_and_after(metric._replace(new=metric.paired))
    of_code = _before_and_after(metric._replace(old=metric.paired))
    return f"of it the environment's {of_environment}, the code's {of_code}"


def _finding(finding: Finding) -> str:
    return f"{finding.output}: {finding.message}" if finding.output else finding.message


def accepted(value: AcceptedValue) -> str:
    """Say when, by whom and why a value was accepted, and how it was confirmed."""
    confirmed = f" ({value.confirmation})" if value.confirmation else ""
    return f"{' '.join(filter(None, (value.date, value.author)))}: {value.reason}{confirmed}"
