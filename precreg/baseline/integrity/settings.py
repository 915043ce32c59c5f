"""Whether a case asks for less than it did: seeds, repeats, exactness, requirements, budgets, all that is no bound."""

from __future__ import annotations

from collections.abc import Iterator

from precreg.baseline.integrity.side import Change, is_redefined
from precreg.types.records import Kind
from precreg.types.types import Case


def weakened(before: Case, now: Case) -> Iterator[Change]:
    """Yield every setting of a case that asks for less than the same case of the base; bounds are looked at apart."""
    yield from _looked_at_less(before, now)
    yield from _held_to_less(before, now)
    yield from _left_out(before, now)
    if before.baseline_id != now.baseline_id and before.baseline_id != before.id:
        message = f"judged by the baseline of {now.baseline_id}, and was by that of {before.baseline_id}"
        yield _change(Kind.SETTING_LOOSENED, now, message)
    elif now.baseline_id != now.id and before.baseline_id == before.id:
        yield _change(Kind.SETTING_LOOSENED, now, f"judged by the baseline of {now.baseline_id}, and was by its own")


def _looked_at_less(before: Case, now: Case) -> Iterator[Change]:
    if now.seeds < before.seeds:
        message = f"seeds: {now.seeds}, and had {before.seeds}"
        yield _change(Kind.SEEDS_LOWERED, now, message, before.seeds / now.seeds)
    if now.repeats < before.repeats:
        message = f"repeats: {now.repeats}, and had {before.repeats}"
        yield _change(Kind.REPEATS_LOWERED, now, message, before.repeats / now.repeats)
    for analyzer in before.analyzers:
        if analyzer not in now.analyzers:
            yield _change(Kind.SETTING_LOOSENED, now, f"analyzer {analyzer} measures it no more")


def _held_to_less(before: Case, now: Case) -> Iterator[Change]:
    if now.expect_failure is not None and before.expect_failure is None:
        yield _change(Kind.EXPECT_FAILURE_ADDED, now, f"expect: fail is new: {now.expect_failure}")
    if before.exact and not now.exact:
        yield _change(Kind.EXACT_DROPPED, now, "exact: true is gone: other bits are no regression any more")
    if before.deterministic and not now.deterministic:
        yield _change(Kind.DETERMINISM_DROPPED, now, "deterministic: false is new: repeats may differ")
    old, new = before.budget.time_ratio, now.budget.time_ratio
    if old is not None and (new is None or new > old):
        told = "no time_ratio" if new is None else f"time_ratio: {new:g}"
        yield _change(Kind.BUDGET_LOOSENED, now, f"{told}, and had {old:g}", None if new is None else new / old)
    if now.timeout_s > before.timeout_s:
        message = f"timeout: {now.timeout_s:g} s, and had {before.timeout_s:g} s"
        yield _change(Kind.BUDGET_LOOSENED, now, message, now.timeout_s / before.timeout_s)


def _left_out(before: Case, now: Case) -> Iterator[Change]:
    """Yield what lets a case be skipped, or not be selected, where it was not before."""
    for requirement in now.requires:
        if requirement not in before.requires:
            yield _change(Kind.CASE_SKIPPED, now, f"requires {requirement} now, and is skipped without it")
    for tag in before.tags:
        if tag not in now.tags:
            yield _change(Kind.CASE_SKIPPED, now, f"has the tag {tag} no more: what selects by it leaves the case out")


def redefined(before: Case, now: Case) -> Iterator[Change]:
    """Yield the finding that a case computes, or is held against, something else under its old name."""
    if is_redefined(before, now):
        parts = [name for name, differs in _parts(before, now).items() if differs]
        message = f"computes something else under the same name: {', '.join(parts)} changed; HEAD's baseline judges"
        yield _change(Kind.CASE_REDEFINED, now, message)


def _parts(before: Case, now: Case) -> dict[str, bool]:
    return {
        "subject": before.subject != now.subject,
        now.role: (before.role, before.oracle) != (now.role, now.oracle),
        "inputs": before.inputs != now.inputs,
        "params": before.params != now.params,
        "device": before.device != now.device,
    }


def _change(kind: Kind, case: Case, message: str, factor: float | None = None) -> Change:
    return Change(kind, case.id, message, factor, case.source)
