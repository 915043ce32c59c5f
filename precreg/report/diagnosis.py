"""Which sentences state a diagnosis: the cause, its place and evidence, the runner-up, and the next step?

A rewrite has a name, and its words are in the tables below. A rewrite without an entry is named by its slug.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import PurePosixPath
from shlex import quote
from typing import NamedTuple

from precreg.types import (
    CaseResult,
    Cause,
    Diagnosis,
    DiagnosisBase,
    Fingerprint,
    FingerprintKind,
    Location,
    RewrittenPlace,
    RunDiagnoses,
    RunRecord,
    Site,
    TriedBase,
    UnitExplanation,
    format_distinct,
    format_duration,
    format_number,
)

# A cause with a short expression fits into so many characters.
MAX_CAUSE_LINE = 110
# Below this, the source of an operation says too little to be worth its place in a line.
_MIN_EXPRESSION = 12
_MAX_RUNNERS_UP = 3
_MAX_SHARED = 3
# Bits are the evidence if they explain at least this part of the changed elements, and sizes of errors are otherwise.
_MIN_SHARE_OF_BITS = 0.5


class _Family(NamedTuple):
    """Hold the name of a group of causes, and what to do about one at a place."""

    name: str
    to_do: str
    # The result may be as accurate as before, so its bits may be accepted.
    may_be_accepted: bool = False


_CONVERSION = _Family("conversion", "remove the conversion, or compute this step in the wider dtype")
_ACCUMULATOR = _Family("accumulator", "accumulate in a wider dtype, such as float32 for float16 inputs")
_SUM = _Family("order of a sum", "sum in the former order", may_be_accepted=True)
_ORDER = _Family("order of operations", "restore the former order of the operations", may_be_accepted=True)
_BUFFER = _Family("stale buffer", "initialize the buffer before its first use")
_INDEX = _Family("index", "check the offset, the stride and the length of the last block")
_TRUNCATION = _Family("truncation", "round to nearest in place of cutting bits off")
_FLUSH = _Family("flush", "keep subnormal numbers, or scale the values before this step")
_EPSILON = _Family("epsilon", "put the epsilon back where the reference has it")
_APPROXIMATION = _Family("approximation", "take as many terms or steps as the dtype needs")
_ROUNDING = _Family("double rounding", "round once, from the wide result to the output's dtype")
_SPECIAL = _Family("special values", "propagate NaN and infinity as the reference does")
_FUSION = _Family("fused multiply-add", "compile with the former contraction of products", may_be_accepted=True)
_LIBRARY = _Family("library", "compare the versions of the library in both environments", may_be_accepted=True)
_SCALE = _Family("scale", "check the scale and the zero point of this step")
_FORMULA = _Family("formula", "compare the expression with the formula of the reference")
_CONSTANT = _Family("constant", "put the former number back")
_TIES = _Family("ties", "round ties as the reference does")
_REPEATS = _Family("nondeterminism", "fix the order of this operation, or the seed, or what it reads from outside")
_OTHER = _Family("other", "compare this place with the accepted version")


class _Words(NamedTuple):
    """Hold the noun phrase of a rewrite, without and with its options, and its family."""

    plain: str
    family: _Family
    with_options: str = ""


# By the name of a rewrite. Phrases name the altered form, so one phrase serves a cause and its reversal.
_REWRITES = {
    "hop_float16": _Words("cast to float16", _CONVERSION),
    "hop_bfloat16": _Words("cast to bfloat16", _CONVERSION),
    "hop_functions": _Words("cast of the result", _CONVERSION, "cast of the result to {format}"),
    "hop_sums": _Words("cast of the sum", _CONVERSION, "cast of the sum to {format}"),
    "naive_sum": _Words("accumulation term after term", _ACCUMULATOR),
    "stale_buffer": _Words("sum that begins with a part of the previous sum", _BUFFER),
    "misaligned_tail": _Words("tail that is read one element too early", _INDEX),
    "narrow_bfloat16": _Words("bfloat16 accumulator", _ACCUMULATOR),
    "narrow_float16": _Words("float16 accumulator", _ACCUMULATOR),
    "truncated_results": _Words("results without their last bits", _TRUNCATION, "results without {bits} last bits"),
    "truncated_casts": _Words("conversion that cuts bits off", _TRUNCATION),
    "flushed": _Words("subnormal results flushed to zero", _FLUSH),
    "dropped_epsilon": _Words("dropped epsilon", _EPSILON),
    "moved_epsilon": _Words("epsilon on the other side of the square root", _EPSILON),
    "swapped_order": _Words("swapped multiply and divide", _ORDER),
    "fewer_terms": _Words("series with a term less", _APPROXIMATION),
    "fewer_newton_steps": _Words("Newton iteration with a step less", _APPROXIMATION),
    "one_step_less": _Words("one step less", _APPROXIMATION),
    "double_rounding": _Words("double rounding", _ROUNDING),
    "swallowed_nan": _Words("skipped NaN", _SPECIAL),
    "saturated": _Words("largest number in place of infinity", _SPECIAL),
    "sum_reversed": _Words("sum from the last term to the first", _SUM),
    "sum_in_halves": _Words("sum in two halves", _SUM),
    "sum_pairwise": _Words("pairwise sum", _SUM),
    "sum_in_float64": _Words("float64 accumulator", _ACCUMULATOR),
    "fused": _Words("fused multiply-add", _FUSION),
    "another_library": _Words("function that is computed in float64 and rounded once", _LIBRARY),
    "hop": _Words("cast to another format", _CONVERSION, "cast to {format}"),
    "hop_result": _Words("cast of the result", _CONVERSION, "cast of the result to {format}"),
    "hop_operand": _Words("cast of an operand", _CONVERSION, "cast of operand {operand} to {format}"),
    "cast_removed": _Words("no conversion", _CONVERSION),
    "truncated": _Words("last bits cut off", _TRUNCATION, "last {bits} bits cut off"),
    "exact": _Words("exact operation, rounded once", _APPROXIMATION),
    "narrow_accumulator": _Words("narrow accumulator", _ACCUMULATOR, "{format} accumulator"),
    "summed_in_blocks": _Words("sum in blocks", _SUM, "sum in blocks of {block}"),
    "other_axis": _Words("reduction along another axis", _INDEX, "reduction along axis {axis}"),
    "fewer_summed": _Words("sum without its first or last terms", _INDEX, "sum over terms {start} to {stop}"),
    "transposed": _Words("transposition", _INDEX, "transposition of operand {operand}"),
    "exchanged": _Words("exchanged operands", _FORMULA),
    "by_reciprocal": _Words("multiplication by the rounded reciprocal", _ORDER),
    "by_division": _Words("division by the rounded reciprocal", _ORDER),
    "only_operand": _Words("operand in place of the result", _FORMULA, "operand {operand} in place of the result"),
    "operand_twice": _Words("operand that is applied twice", _FORMULA, "operand {operand} that is applied twice"),
    "ties_away": _Words("ties away from zero, or to even where they were not", _TIES),
    "other_function": _Words("another function", _FORMULA, "{function} in place of the function"),
    "other_constant": _Words("another constant", _CONSTANT, "constant {value}"),
    "other_param": _Words("another value of the param", _CONSTANT, "value {value}"),
    "scaled": _Words("constant factor", _SCALE, "factor {factor}"),
    "tail": _Words("other elements beyond the last full block", _INDEX),
    "shifted": _Words("elements moved along an axis", _INDEX, "elements moved by {by} along axis {axis}"),
    "reversed": _Words("reversed last axis", _INDEX),
    "other_option": _Words("another option", _FORMULA, "{option} {value}"),
    "left_by_earlier_call": _Words("value that an earlier call left", _BUFFER),
    "differs_between_runs": _Words("other result in another run", _REPEATS),
    "one_index": _Words("other values at an index", _INDEX, "other values at index {indices} of axis {axis}"),
    "hop_of_part": _Words("cast of a part", _CONVERSION, "cast of index {indices} of axis {axis} to {format}"),
    "moved_by_one": _Words("integers moved by one", _INDEX, "integers moved by {value}"),
    "computed_in": _Words("computation in a narrower format", _CONVERSION, "computation in {format}"),
    "fixed_point": _Words("fixed-point grid", _SCALE, "fixed-point grid of {bits} bits"),
    "reassociated": _Words("other order of the terms", _ORDER),
    "all_axes": _Words("reduction along all axes", _INDEX),
    "other_operand": _Words("another operand", _FORMULA, "{input} in place of operand {operand}"),
    "power_of_two": _Words("size rounded to a power of two", _SCALE, "size rounded to a power of two, {way}"),
    "offset": _Words("constant offset", _CONSTANT, "offset {value}"),
}
# By the option `way` of a rewrite of a tail or of an index.
_WAYS = {
    ("tail", "early"): "elements beyond the last full block of {block} read one too early",
    ("tail", "zero"): "zeros beyond the last full block of {block}",
    ("tail", "stale"): "elements of the block before, beyond the last full block of {block}",
    ("tail", "repeated"): "one element repeated beyond the last full block of {block}",
    ("one_index", "zero"): "zeros at index {indices} of axis {axis}",
    ("one_index", "before"): "values of the index before at index {indices} of axis {axis}",
    ("one_index", "after"): "values of the index after at index {indices} of axis {axis}",
}
# The family of a rewrite without an entry, by the first part of its name that is known.
_FAMILY_PARTS = {
    "cast|hop|through|dtype|convert": _CONVERSION,
    "narrow|accum|wide|naive": _ACCUMULATOR,
    "swap|order|reassoc": _ORDER,
    "sum|pairwise|halves|chunk": _SUM,
    "stale|buffer": _BUFFER,
    "eps": _EPSILON,
    "tail|block|shift|index|transpos|channel|axis|perm": _INDEX,
    "scale|factor|quant": _SCALE,
    "flush|subnormal": _FLUSH,
    "trunc": _TRUNCATION,
    "term|step|newton|approx": _APPROXIMATION,
    "satur|nan|inf": _SPECIAL,
    "round": _ROUNDING,
    "fuse|fma": _FUSION,
    "librar": _LIBRARY,
}

# The form that the rewrite of a product or of a quotient makes.
_SWAPS = {
    **dict.fromkeys(("multiply", "aten.mul.Tensor", "aten.mul.Scalar"), "multiply before divide"),
    **dict.fromkeys(("divide", "aten.div.Tensor", "aten.div.Scalar"), "divide before multiply"),
}
# A cause of these names is the operation at which a second run begins to differ. Nothing was rewritten.
_OF_REPEATS = frozenset({"left_by_earlier_call", "differs_between_runs"})

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
    "flushed": "at flushed small values",
    "never_written": "at elements that were never written",
    "moved_elements": "moved elements",
    "non_finite": "NaN or infinity",
}


def diagnoses_of(record: RunRecord) -> dict[str, Diagnosis]:
    """Return the diagnoses of a run by case."""
    return {result.id: result.diagnosis for result in record.results if result.diagnosis is not None}


def cause_line(diagnosis: Diagnosis) -> str:
    """Write the cause with its place and evidence in one line, or the reason why there is none."""
    label, text = _answer(diagnosis, MAX_CAUSE_LINE)
    return f"{label}: {text}"


def brief_diagnosis(result: CaseResult, known: Mapping[str, Diagnosis]) -> list[str]:
    """Return the line of the cause, and one for each unit case that explains the failure; none without a diagnosis.

    `known` are the diagnoses of the run.
    """
    if result.diagnosis is None:
        return []
    return [cause_line(result.diagnosis), *explanation_lines(result.diagnosis, known)]


def explanation_lines(diagnosis: Diagnosis, known: Mapping[str, Diagnosis]) -> list[str]:
    """Name each unit case that explains the failure of a larger case, with the family of its cause and its share."""
    return [f"{diagnosis.case}: explained by {_explanation(each, known)}" for each in diagnosis.explained_by]


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
    if diagnosis.error_kind != "unknown":
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
    "several": "no single cause explains the errors; each figure is that of a cause and all before it",
    "partial": "the best cause explains a part of the errors only",
    "nondeterministic": "repeats differ, so no rewrite can reproduce the errors",
}


def _answer(diagnosis: Diagnosis, most: int | None) -> tuple[str, str]:
    """Return the label and the text of the first line; `most` limits the characters of both."""
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


def _unknown(diagnosis: Diagnosis) -> str:
    """Write that no cause is known, after how many rewrites, and the shape of the errors if one is clear."""
    tried, every = sum(base.tried for base in diagnosis.bases), sum(base.hypotheses for base in diagnosis.bases)
    if diagnosis.status == "nondeterministic":
        found = "unknown: repeats differ"
    elif not every:
        problems = [base.problem for base in diagnosis.bases if base.problem]
        found = f"unknown: {problems[0]}" if problems else "unknown: no operation could be rewritten"
    else:
        rewrites = f"{every:,} rewrites" if tried >= every else f"{tried:,} of {every:,} rewrites"
        found = f"unknown: none of {rewrites} explains the errors"
    best = max(diagnosis.fingerprints, key=lambda each: each.certainty, default=None)
    return found if best is None else f"{found}; errors {_SHAPES[best.kind]}{_figures(best.values)}"


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
    if cause.reverses:
        return f"{place}: {cause_phrase(cause)} there {evidence}"
    # The accepted version has the same files. A line of a reference is no line of the subject.
    of = f" of {_BASES[cause.base]}" if cause.base in ("reference", "golden") else ""
    return f"{cause_phrase(cause)} {'in' if cause.place.target in _NAMED else 'at'} {place}{of}: {evidence}"


def _difference(cause: Cause) -> str:
    if "operand" not in cause.options:
        return "equal operands give another result"
    way = "is left from an earlier call" if cause.rewrite == "left_by_earlier_call" else "differs"
    return f"operand {_figure(cause.options['operand'])} {way}"


def _origin(cause: Cause) -> str:
    """Return the former source of the place, or that it is gone."""
    if cause.base != "accepted" or cause.place.target in _NAMED:
        return ""
    if cause.present is None:
        return " of the accepted version"
    return f", before `{_source(cause.place)}`" if _is_rewritten(cause) else ""


def _is_rewritten(cause: Cause) -> bool:
    """Return whether the line of the cause has another source now."""
    present = cause.present
    return cause.is_changed and present is not None and bool(present.code) and present.code != cause.place.site.code


def cause_phrase(cause: Cause) -> str:
    """Name a rewrite by a noun phrase with its options."""
    if cause.rewrite == "swapped_order" and cause.place.name in _SWAPS:
        return _SWAPS[cause.place.name]
    words = _REWRITES.get(cause.rewrite)
    if words is None:
        return cause.rewrite.replace("_", " ") + _figures(cause.options)
    options = {name: _figure(value) for name, value in cause.options.items()}
    template = _WAYS.get((cause.rewrite, options.get("way", "")), words.with_options)
    # A record of another version may lack an option.
    known = set(re.findall(r"{(\w+)}", template)) <= set(options)
    phrase = (template.format_map(options) if known else "") or words.plain
    return f"{phrase}, {options['rounding'].replace('_', ' ')}" if "rounding" in options else phrase


def _family(cause: Cause) -> _Family:
    if cause.rewrite in _REWRITES:
        return _REWRITES[cause.rewrite].family
    return next((family for parts, family in _FAMILY_PARTS.items() if re.search(parts, cause.rewrite)), _OTHER)


def _figures(values: Mapping[str, float | str]) -> str:
    listed = ", ".join(f"{name} {_figure(value)}" for name, value in values.items())
    return f" ({listed})" if listed else ""


def _figure(value: float | str) -> str:
    return value if isinstance(value, str) else format_number(value)


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
        kind = "changed" if cause.base == "accepted" else "differing"
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
    return f"{found.output}: {_SHAPES[found.kind]}{_figures(found.values)}, {_percent(found.certainty)} of the errors"


def _explanation(found: UnitExplanation, known: Mapping[str, Diagnosis]) -> str:
    of_unit = known.get(found.case)
    family = f" ({_family(of_unit.causes[0]).name})" if of_unit is not None and of_unit.causes else ""
    share = "" if found.share is None else f", {_percent(found.share)} of the loss"
    return f"{found.case}{family}{share}"


def _next_steps(diagnosis: Diagnosis) -> Iterator[str]:
    case = quote(diagnosis.case)
    if diagnosis.causes and diagnosis.status != "passed":
        families = dict.fromkeys(map(_family, diagnosis.causes))
        yield from (family.to_do for family in families)
        if all(family.may_be_accepted for family in families):
            yield f"or accept the new bits, if they are as accurate: precreg baseline accept {case} --reason WHY"
    elif diagnosis.status == "unknown":
        yield f"see where the errors begin: precreg trace {case}"
    if diagnosis.out_of_time:
        yield f"the time was up; allow more: precreg diagnose {case} --seconds 300"
    shared = [name for each in diagnosis.explained_by for name in each.shared]
    if shared:
        names = ", ".join(dict.fromkeys(shared[:_MAX_SHARED]))
        yield f"begin with the unit case: it is smaller, and runs the same code ({names})"


def _tried(base: TriedBase) -> str:
    commit = f" {base.commit[:8]}" if base.commit else ""
    name = f"{_BASES[base.base]}{commit}"
    if base.problem:
        return f"{name}: could not be rewritten: {base.problem}"
    counted = f"{base.tried:,} of {base.hypotheses:,} rewrites"
    return f"{name}: {counted} at {base.places:,} {'place' if base.places == 1 else 'places'}"


def cause_location(diagnosis: Diagnosis | None) -> Location | None:
    """Return the line of the cause in the present code of the project; None if it is not known."""
    causes: Sequence[Cause] = () if diagnosis is None else (*diagnosis.causes, *diagnosis.runners_up[:1])
    # The place in a reference is no place of the cause, and neither is a line that is gone.
    sites = (cause.place.site if cause.reverses else cause.present for cause in causes)
    inside = (site for site in sites if site is not None and site.line and not site.file.startswith(("/", "..")))
    return next((Location(site.file, site.line) for site in inside if site.file), None)


def describe_run_diagnoses(found: RunDiagnoses) -> str:
    """Count the cases that a run diagnosed and those that it did not reach, and name the option that reaches them."""
    cases = "1 failed case" if found.diagnosed == 1 else f"{found.diagnosed} failed cases"
    text = f"{cases} diagnosed in {format_duration(found.used)}"
    if found.problem:
        return f"{text}, {found.not_reached} not reached: {found.problem}"
    if found.not_reached:
        return f"{text}, {found.not_reached} not reached: allow more than {found.seconds:g} s with --diagnose SECONDS"
    return text
