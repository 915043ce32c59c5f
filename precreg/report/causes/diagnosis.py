"""Which sentences state a diagnosis: the cause, its place and evidence, the runner-up, and the next step?

The words of rewrites are in rewrite_words.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from pathlib import PurePosixPath
from shlex import join, quote

from msgspec import UNSET, UnsetType

from precreg.report.causes.fingerprints import describe_fingerprint
from precreg.report.causes.rewrite_words import cause_family, cause_phrase, format_figure, format_figures
from precreg.types import (
    CaseResult,
    Cause,
    Diagnosis,
    DiagnosisBase,
    Fingerprint,
    FingerprintKind,
    Location,
    OpaqueForm,
    OpaqueSubject,
    RewrittenPlace,
    RunDiagnoses,
    RunRecord,
    Site,
    TriedBase,
    UnitExplanation,
    format_distinct,
    format_duration,
)

# A cause with a short expression fits into so many characters.
MAX_CAUSE_LINE = 110
# Below this, the source of an operation says too little to be worth its place in a line.
_MIN_EXPRESSION = 12
_MAX_RUNNERS_UP = 3
_MAX_SHARED = 3
_COMMIT_DIGITS = 8
# Bits are the evidence if they explain at least this part of the changed elements, and sizes of errors are otherwise.
_MIN_SHARE_OF_BITS = 0.5


# A cause of these names is the operation at which a second run begins to differ. Nothing was rewritten.
_OF_REPEATS = frozenset({"left_by_earlier_call", "differs_between_runs"})

# The problem of a base whose result differs from the one to explain by the rounding of the output alone.
_ORDINARY = "ordinary rounding"

# Targets that have a name in place of a line.
_NAMED = frozenset({"input", "param", "output"})

_BASES: dict[DiagnosisBase, str] = {
    "accepted": "the accepted version",
    "golden": "the golden",
    "reference": "the reference",
    "subject": "the subject",
}

_SHAPES: dict[FingerprintKind, str] = {
    "constant_factor": "a constant factor",
    "constant_offset": "a constant offset",
    "one_channel": "in one channel, row or block",
    "last_block": "in the last block",
    "checkerboard": "a checkerboard",
    "grid": "on a grid of powers of two",
    "one_sign": "of one sign",
    "growth": "growing along an axis",
    "at_zeros": "at zeros",
    "at_large_values": "at large values",
    "at_ties": "at ties of rounding",
    "saturated": "at the largest number of a format",
    "wrapped": "of integers that wrapped around",
    "flushed": "at flushed small values",
    "never_written": "at elements that were never written",
    "moved_elements": "moved elements",
    "non_finite": "NaN or infinity",
}


def change_command(case: str, opaque: OpaqueSubject | UnsetType, program: str = "precreg") -> str:
    """Return the command that finds the change of a program, or measures the parts of a procedure; or an empty text.

    `case` is quoted for the shell. The bad end is the working tree, which a run judges.
    """
    if opaque is not UNSET and opaque.arguments:
        return f"{program} {join(opaque.arguments)}"
    if opaque is UNSET or not opaque.accepted:
        return ""
    return f"{program} bisect {case} --good {opaque.accepted[:_COMMIT_DIGITS]} --bad ."


def diagnoses_of(record: RunRecord) -> dict[str, Diagnosis]:
    """Return the diagnoses of a run by case."""
    return {result.id: result.diagnosis for result in record.results if result.diagnosis is not None}


def cause_line(diagnosis: Diagnosis) -> str:
    """Write the cause with its place and evidence in one line, or the reason why no cause is known."""
    label, text = _answer(diagnosis, MAX_CAUSE_LINE)
    return f"{label}: {text}"


def brief_diagnosis(result: CaseResult, known: Mapping[str, Diagnosis]) -> list[str]:
    """Return the line of the cause, and one for each unit case that explains the failure; none without a diagnosis.

    `known` are the diagnoses of the run.
    """
    if result.diagnosis is None:
        return []
    return [cause_line(result.diagnosis), *explanation_lines(result.diagnosis, known)]


def causes_of(results: Iterable[CaseResult], known: Mapping[str, Diagnosis]) -> list[tuple[str, str]]:
    """Return the id of each diagnosed case with its lines, as `brief_diagnosis` writes them but without the id.

    No search can look into a program: the list has the first such case of each suite alone.
    """
    found: list[tuple[str, Diagnosis]] = []
    unseen: set[tuple[str, str]] = set()
    for result in results:
        each, suite = result.diagnosis, (result.tier, result.suite)
        if each is None:
            continue
        # The search of one program's change serves all cases of its suite.
        if each.opaque is not UNSET and is_undecided(each):
            if suite in unseen:
                continue
            unseen.add(suite)
        found.append((result.id, each))
    return [(id, line) for id, each in found for line in (cause_line(each), *_explanations(each, known))]


def explanation_lines(diagnosis: Diagnosis, known: Mapping[str, Diagnosis]) -> list[str]:
    """Name each unit case that explains the failure of a larger case, with the family of its cause and its share."""
    return [f"{diagnosis.case}: {line}" for line in _explanations(diagnosis, known)]


def _explanations(diagnosis: Diagnosis, known: Mapping[str, Diagnosis]) -> list[str]:
    return [f"explained by {_explanation(each, known)}" for each in diagnosis.explained_by]


def describe_diagnosis(diagnosis: Diagnosis, known: Mapping[str, Diagnosis] | None = None) -> list[str]:
    """Write all of a diagnosis, a sentence a line; `known` are the diagnoses of the run, by case."""
    return [f"{label}: {text}" for label, text in diagnosis_rows(diagnosis, known)]


def diagnosis_rows(diagnosis: Diagnosis, known: Mapping[str, Diagnosis] | None = None) -> list[tuple[str, str]]:
    """Write all of a diagnosis as pairs of a label and a text."""
    return list(_rows(diagnosis, known or {}))


def _rows(diagnosis: Diagnosis, known: Mapping[str, Diagnosis]) -> Iterator[tuple[str, str]]:
    yield _answer(diagnosis, None)
    yield from ((f"and cause {number}", _sentence(cause, None)) for number, cause in _further_causes(diagnosis))
    if remark := _REMARKS.get(diagnosis.status, ""):
        yield "note", remark
    yield from (("runner-up", _sentence(cause, None)) for cause in diagnosis.runners_up[:_MAX_RUNNERS_UP])
    yield from (("explained by", _explanation(each, known)) for each in diagnosis.explained_by)
    yield from (("to do", text) for text in _next_steps(diagnosis))
    if diagnosis.error_kind != "unknown" and diagnosis.status != "passed":
        yield "errors", _ERROR_KINDS[diagnosis.error_kind]
    yield from (("shape", _shape(found)) for found in diagnosis.fingerprints)
    yield from (("cleared", f"{_place(each)} does not affect the errors") for each in diagnosis.cleared)
    yield from (("tried", _tried(base)) for base in diagnosis.bases)


def _further_causes(diagnosis: Diagnosis) -> Iterator[tuple[int, Cause]]:
    return ((number, cause) for number, cause in enumerate(diagnosis.causes, 1) if number > 1)


_ERROR_KINDS = {
    "rounding": "most of the error is rounding of the right formula",
    "formula": "most of the error is another formula, and no rounding",
}

_REMARKS = {
    "several": "no single cause explains the errors; each figure covers a cause and all before it",
    "partial": "the best cause explains a part of the errors only",
    "nondeterministic": "repeats differ, so no rewrite can reproduce the errors",
}


_OPAQUE: dict[OpaqueForm, str] = {
    "program": "precreg cannot look into a program",
    "recorded": "precreg cannot look into recorded files",
    "figures": "not searched, because no rewrite of one operation explains figures of a whole run",
}
_PURPOSES: dict[OpaqueForm, str] = {
    "program": "find the line of the change",
    "recorded": "find the line of the change",
    "figures": "measure the parts of the run",
}


def _unseen(diagnosis: Diagnosis, opaque: OpaqueSubject) -> str:
    """Write that precreg cannot see the operations of a subject, with the command that can find its change."""
    command = change_command(quote(diagnosis.case), opaque)
    # The end of a line is the end of a command that is pasted.
    rest = f": {command}" if command else _shape_clause(diagnosis)
    return f"{_OPAQUE[opaque.form]}{rest}"


def _answer(diagnosis: Diagnosis, most: int | None) -> tuple[str, str]:
    """Return the label and the text of the first line; `most` limits the characters of both."""
    if diagnosis.opaque is not UNSET and is_undecided(diagnosis):
        return "cause", _unseen(diagnosis, diagnosis.opaque)
    match diagnosis.status:
        case "passed":
            return "cause", "none: the case has no error to explain"
        case "failed":
            late = "the time was up before the search gave an answer"
            return (
                "cause",
                f"not found: {diagnosis.problem or (late if diagnosis.out_of_time else 'no reason is known')}",
            )
        case "several":
            label = f"first of {len(diagnosis.causes)} causes"
        case "partial":
            label = "cause of a part"
        case _:
            label = "cause"
    if not diagnosis.causes:
        return "cause", _unknown(diagnosis)
    return label, _sentence(diagnosis.causes[0], None if most is None else most - len(label) - 2)


def is_undecided(diagnosis: Diagnosis) -> bool:
    """Return whether a search ended without a cause: no rewrite explains the errors, or the time was up."""
    late = diagnosis.status == "failed" and diagnosis.out_of_time and not diagnosis.problem
    return diagnosis.status == "unknown" or late


def _unknown(diagnosis: Diagnosis) -> str:
    """Write that no cause is known, after how many rewrites, and the shape of the errors if one is clear."""
    tried, every = sum(base.tried for base in diagnosis.bases), sum(base.hypotheses for base in diagnosis.bases)
    if diagnosis.status == "nondeterministic":
        found = "unknown: repeats differ"
    elif not every:
        found = _without_rewrites(next((base.problem for base in diagnosis.bases if base.problem), ""))
    else:
        found = f"unknown: none of {_counted(tried, every)} explains the errors"
    return f"{found}{_shape_clause(diagnosis)}"


def _shape_clause(diagnosis: Diagnosis) -> str:
    best = max(diagnosis.fingerprints, key=lambda each: each.certainty, default=None)
    return "" if best is None else f"; errors {_SHAPES[best.kind]}{format_figures(best.values)}"


def _sentence(cause: Cause, most: int | None) -> str:
    """Write a cause with its place and evidence; a shorter place if the text has more than `most` characters."""
    places = _cause_places(cause)
    if most is None:
        return _joined(cause, places[0] + _origin(cause))
    sentences = [_joined(cause, place) for place in places]
    return next((each for each in sentences if len(each) <= most), sentences[-1])


def _joined(cause: Cause, place: str) -> str:
    if cause.rewrite in _OF_REPEATS:
        return f"second run differs at {place}: {_difference(cause)}"
    evidence = _evidence(cause)
    if cause.place.target == "statement":
        return f"{cause_phrase(cause)} at {place}: undone, it {evidence}"
    if cause.reverses:
        return f"{place}: {cause_phrase(cause)} there {evidence}"
    # The accepted version has the same files. A line of a reference is not a line of the subject.
    of = f" of {_BASES[cause.base]}" if cause.base in ("reference", "golden") else ""
    return f"{cause_phrase(cause)} {'in' if cause.place.target in _NAMED else 'at'} {place}{of}: {evidence}"


def _difference(cause: Cause) -> str:
    if "operand" not in cause.options:
        return "equal operands give another result"
    way = "is left from an earlier call" if cause.rewrite == "left_by_earlier_call" else "differs"
    return f"operand {format_figure(cause.options['operand'])} {way}"


def _origin(cause: Cause) -> str:
    """Return the former source of the place, or that it is gone."""
    if cause.place.target == "statement":
        before = str(cause.options.get("before", ""))
        return f", before `{before}`" if before else ", which is new"
    if cause.base != "accepted" or cause.place.target in _NAMED:
        return ""
    if cause.present is None:
        return " of the accepted version"
    return f", before `{_source(cause.place)}`" if _is_rewritten(cause) else ""


def _is_rewritten(cause: Cause) -> bool:
    """Return whether the line of the cause has another source now."""
    present = cause.present
    return cause.is_changed and present is not None and bool(present.code) and present.code != cause.place.site.code


def _place(place: RewrittenPlace) -> str:
    return _places(place, place.site, _source(place))[0]


def _cause_places(cause: Cause) -> list[str]:
    place, present = cause.place, cause.present
    if present is None:
        return _places(place, place.site, _source(place))
    # The value is the operation; the name that it gets takes the room of it.
    now = re.sub(r"^(return |[\w.]+ \W?= )", "", present.code)
    return _places(place, present, now if _is_rewritten(cause) else _source(place))


def _source(place: RewrittenPlace) -> str:
    return " ".join((place.expression or place.site.code).split())


def _places(place: RewrittenPlace, site: Site, source: str) -> list[str]:
    """Write a place in full, and then in shorter ways: without the folder, or without the source of the operation."""
    where = f"{site.file}:{site.line}" if site.file else site.module
    if place.target in _NAMED:
        named = f"{place.target} {place.name}"
        return [f"{named}, {where}", named] if where else [named]
    name = f"every {place.name}" if place.target == "operations" else place.name
    if not where:
        return [name]
    if not source:
        return [f"{where}, {name}"]
    near = f"{PurePosixPath(site.file).name}:{site.line}" if site.file else where
    cut = [f"{source[:length]}..." for length in range(len(source) - 4, _MIN_EXPRESSION - 1, -2)]
    texts = [f"{where} `{source}`", *(f"{near} `{text}`" for text in (source, *cut))]
    return [*texts, f"{where}, {name}"]


def _evidence(cause: Cause) -> str:
    """Write the elements that a rewrite explains by their bits, or the part of the errors that it explains."""
    evidence, reverses = cause.evidence, cause.reverses
    if evidence.differing and evidence.explained >= _MIN_SHARE_OF_BITS * evidence.differing:
        verb = "restores" if reverses else "reproduces"
        # The result of a statement is compared with the accepted version's, too.
        is_accepted = cause.base == "accepted" or cause.place.target == "statement"
        kind = "changed" if is_accepted else "differing"
        elements = "element" if evidence.differing == 1 else "elements"
        text = f"{verb} {evidence.explained:,} of {evidence.differing:,} {kind} {elements}"
        others = evidence.elements - evidence.differing - (evidence.reproduced - evidence.explained)
        return f"{text}, and changes {others:,} others" if others > 0 else text
    correlation = f"correlation {_distinct(evidence.correlation, 2)}"
    if isfinite(evidence.remaining) and evidence.remaining < 1:
        verb = "removes" if reverses else "explains"
        return f"{verb} {_percent(1 - evidence.remaining)} of the errors, {correlation}"
    return f"{correlation} with the errors"


def _percent(share: float) -> str:
    # 99.996 % of the elements are not all of them.
    return f"{_distinct(100 * share, 2, 100.0)} %"


def _distinct(value: float, digits: int, limit: float = 1.0) -> str:
    return format_distinct([value, limit, 0.0], digits)[0]


def _shape(found: Fingerprint) -> str:
    return f"{found.output}: {describe_fingerprint(found)}"


def _explanation(found: UnitExplanation, known: Mapping[str, Diagnosis]) -> str:
    of_unit = known.get(found.case)
    family = f" ({cause_family(of_unit.causes[0]).name})" if of_unit is not None and of_unit.causes else ""
    share = "" if found.share is None else f", {_percent(found.share)} of the loss"
    return f"{found.case}{family}{share}"


def _next_steps(diagnosis: Diagnosis) -> Iterator[str]:
    case = quote(diagnosis.case)
    if diagnosis.causes and diagnosis.status != "passed":
        families = dict.fromkeys(map(cause_family, diagnosis.causes))
        yield from (family.to_do for family in families)
        if all(family.may_be_accepted for family in families):
            yield f"or accept the new bits, if they are as accurate: precreg baseline accept {case} --reason WHY"
    elif diagnosis.opaque is not UNSET and (command := change_command(case, diagnosis.opaque)):
        yield f"{_PURPOSES[diagnosis.opaque.form]}: {command}"
    elif diagnosis.status == "unknown" and diagnosis.opaque is UNSET:
        yield f"see where the errors begin: precreg trace {case}"
    if diagnosis.out_of_time and diagnosis.opaque is UNSET:
        yield f"the time was up; allow more: precreg diagnose {case} --seconds 300"
    shared = [name for each in diagnosis.explained_by for name in each.shared]
    if shared:
        names = ", ".join(dict.fromkeys(shared[:_MAX_SHARED]))
        yield f"begin with the unit case: it is smaller, and runs the same code ({names})"


def _without_rewrites(problem: str) -> str:
    if problem == _ORDINARY:
        return "unknown: the errors are no larger than ordinary rounding"
    return f"unknown: {problem or 'no operation could be rewritten'}"


def _counted(tried: int, every: int) -> str:
    """Count rewrites and runs: rewrites also run together, so there may be more runs than rewrites."""
    if not every:
        return "no rewrite"
    if tried < every:
        return f"{tried:,} of {every:,} rewrites"
    return f"{every:,} rewrites" if tried == every else f"{every:,} rewrites, in {tried:,} runs,"


def _tried(base: TriedBase) -> str:
    commit = f" {base.commit[:8]}" if base.commit else ""
    name = f"{_BASES[base.base]}{commit}"
    if base.problem == _ORDINARY:
        return f"{name}: rounding of the output explains all errors, so no rewrite ran"
    if base.problem:
        return f"{name}: could not be rewritten: {base.problem}"
    counted = _counted(base.tried, base.hypotheses)
    return f"{name}: {counted} at {base.places:,} {'place' if base.places == 1 else 'places'}"


def cause_location(diagnosis: Diagnosis | None) -> Location | None:
    """Return the line of the cause in the present code of the project; None if it is not known."""
    if diagnosis is None:
        return None
    causes = (*diagnosis.causes, *diagnosis.runners_up[:1])
    # A place in a reference, or a removed line, is not the place of the cause.
    sites = (cause.place.site if cause.reverses else cause.present for cause in causes)
    inside = (site for site in sites if site is not None and site.line and not site.file.startswith(("/", "..")))
    return next((Location(site.file, site.line) for site in inside if site.file), None)


def describe_run_diagnoses(found: RunDiagnoses) -> str:
    """Count the cases that a run diagnosed and those that it did not reach, and name the option that reaches them."""
    cases = "1 failed case" if found.diagnosed == 1 else f"{found.diagnosed} failed cases"
    text = f"{cases} diagnosed in {format_duration(found.used)}"
    if found.without_accepted:
        text += f", {found.without_accepted} without the accepted version, which the worker's repository lacks"
    if found.problem:
        return f"{text}, {found.not_reached} not reached: {found.problem}"
    if found.not_reached:
        return f"{text}, {found.not_reached} not reached: allow more than {found.seconds:g} s with --diagnose SECONDS"
    return text
