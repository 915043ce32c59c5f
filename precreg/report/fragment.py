"""Proposals as tolerances of suites, to be pasted: by dtype where its cases have one tolerance, else by case.

What is proposed for several cases is the widest of what is proposed for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from precreg.measure.metrics import described
from precreg.quality.calibrated import Calibrated
from precreg.quality.quality import Judged

Limits = dict[str, float]

Key = tuple[str, str]
"""A case's name and an output's."""


def of_cases(found: Sequence[Calibrated]) -> str:
    """Return, for each suite, what its `tolerance:` and `cases:` would say; a comment names the suite and the file."""
    lines: list[str] = []
    for suite in dict.fromkeys((case.tier, case.suite) for case in found):
        cases = [case for case in found if (case.tier, case.suite) == suite]
        lines += [f"# {'/'.join(suite)} ({cases[0].source})", *_of_suite(cases), ""]
    return "\n".join(lines)


def _of_suite(cases: Sequence[Calibrated]) -> Iterator[str]:
    by_dtype: dict[str, dict[Key, list[Judged]]] = {}
    for case in cases:
        for bound in case.bounds:
            by_dtype.setdefault(bound.dtype, {}).setdefault((case.name, bound.output), []).append(bound)
    together = {dtype: alike for dtype, outputs in by_dtype.items() if (alike := _together(outputs))}
    if together:
        yield "tolerance:"
        yield from (f"  {dtype}: {_mapping(limits)}{was}" for dtype, (limits, was) in together.items())
    apart = [(dtype, outputs) for dtype, outputs in by_dtype.items() if dtype not in together]
    entries = [entry for case in cases for entry in _entries(case, [dtype for dtype, _ in apart])]
    if entries:
        yield "cases:"
        yield from entries
    if not together and not entries:
        yield "# nothing to propose"


def _together(outputs: Mapping[Key, Sequence[Judged]]) -> tuple[Limits, str] | None:
    """Return the widest proposals and what stands now, where all outputs of all cases have the same limits."""
    limits = [_limits(bounds) for bounds in outputs.values()]
    if any(each != limits[0] for each in limits):
        return None
    proposals = [_proposals(bounds) for bounds in outputs.values()]
    widest = {name: _widest(name, [each[name] for each in proposals]) for name in limits[0] if _in_all(name, proposals)}
    return (widest, _was(limits[0])) if widest else None


def _in_all(name: str, proposals: Sequence[Limits]) -> bool:
    return all(name in each for each in proposals)


def _entries(case: Calibrated, dtypes: Sequence[str]) -> Iterator[str]:
    """Yield the entry of one case, with its outputs apart where they differ."""
    outputs: dict[str, list[Judged]] = {}
    for bound in case.bounds:
        if bound.dtype in dtypes:
            outputs.setdefault(bound.output, []).append(bound)
    proposals = {output: limits for output, bounds in outputs.items() if (limits := _proposals(bounds))}
    if not proposals:
        return
    if len(outputs) == 1:
        ((output, limits),) = proposals.items()
        yield f"  - {{match: {_pattern(case.name)}, tolerance: {_mapping(limits)}}}{_was(_limits(outputs[output]))}"
        return
    yield f"  - match: {_pattern(case.name)}"
    yield "    tolerance:"
    yield "      outputs:"
    for output, limits in proposals.items():
        yield f"        {_scalar(output)}: {_mapping(limits)}{_was(_limits(outputs[output]))}"


def _limits(bounds: Sequence[Judged]) -> Limits:
    return {name: limit for bound in bounds for name, limit in bound.limits.items()}


def _proposals(bounds: Sequence[Judged]) -> Limits:
    return {name: limit for bound in bounds for name, limit in bound.proposal.items()}


def _widest(name: str, limits: Sequence[float]) -> float:
    return min(limits) if described(name).better == "higher" else max(limits)


def _mapping(limits: Limits) -> str:
    return "{" + ", ".join(f"{name}: {_number(limit)}" for name, limit in limits.items()) + "}"


def _was(limits: Limits) -> str:
    return f"  # was {', '.join(f'{name}: {_number(limit)}' for name, limit in limits.items())}"


def _number(limit: float) -> str:
    """Write the shortest number that is read back as the same."""
    short = f"{limit:g}"
    return short if float(short) == limit else repr(limit)


def _pattern(name: str) -> str:
    """Write a pattern that matches that name of a case alone: wildcards in it stand for themselves."""
    return _scalar("".join(f"[{character}]" if character in "*?[" else character for character in name))


def _scalar(text: str) -> str:
    """Quote a text, so that YAML takes it for one whatever it looks like."""
    return "'" + text.replace("'", "''") + "'"
