"""Which sentences answer a trace: the first loss, rounding against formula, the coverage, and the events?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import NamedTuple

from precreg.arithmetic import COMPLEX_PARTS, FORMATS
from precreg.report.trace.rows import ErrorUnit, error_text, error_words, format_site, main_output, share_text
from precreg.shadow import (
    COMPLETE_SHARES,
    Coverage,
    FirstLoss,
    coverage_of,
    find_first_loss,
    find_flip,
    is_complete,
    is_formula_dominant,
    normal_error,
    rank_by_share,
    unit_of,
)
from precreg.types import (
    DumpComparison,
    FormulaDifference,
    Operation,
    OperationPlace,
    OrderDifference,
    Site,
    Trace,
    TracedOutput,
    TraceEvent,
    VersionDifference,
    format_number,
)

# A shadow whose own error exceeds this part of the measured error does not measure it.
MAX_SHADOW_ERROR = 0.1
# Below this, a share is noise beside the shares of the largest operations.
MIN_SHARE_IN_WORDS = 0.005


def answer_trace(trace: Trace, unit: ErrorUnit = "ulp") -> list[str]:
    """Answer the question of a trace: the formula if it dominates, the other version, the dumps, the first loss."""
    formula = [sentence for output in trace.outputs if (sentence := _formula_sentence(output, trace, unit))]
    others = [
        *([] if trace.formula is None else describe_formula(trace.formula)),
        *([] if trace.order is None else describe_reordering(trace.order)),
        *([] if trace.against is None else describe_version(trace.against, trace, unit)),
        *([] if trace.dumps is None else describe_dumps(trace.dumps, trace, unit)),
    ]
    # Figures of another computation than the plain run's are no answer before the reader knows it.
    other_run = [f"read with care: {problem}" for problem in _other_bits(trace)][:1]
    return [*other_run, *formula, *others, _loss_sentence(trace, unit)]


def _formula_sentence(output: TracedOutput, trace: Trace, unit: ErrorUnit) -> str:
    if not is_formula_dominant(output, trace.oracle) or output.formula is None:
        return ""
    times = ""
    if output.rounding is not None and output.rounding.relative > 0 and isfinite(output.formula.relative):
        times = f", {format_number(output.formula.relative / output.rounding.relative, 2)} times its rounding error"
    size = error_words(output.formula.relative, trace, unit)
    oracle = trace.oracle or "reference"
    # Errors before a cut are in the shadow, too, so they look like another formula.
    cuts = coverage_of(trace).cuts
    lost = f"; or rounding before the {cuts:,} cut{'' if cuts == 1 else 's'}, which the shadow lost" if cuts else ""
    if any(event.kind == "untraced" for event in trace.events):
        lost += "; or rounding where the trace saw nothing"
    return f"formula differs: without rounding, {output.name} still differs from the {oracle} by {size}{times}{lost}"


def _loss_sentence(trace: Trace, unit: ErrorUnit) -> str:
    loss = find_first_loss(trace)
    if loss is not None:
        return f"first loss: {format_site(loss.operation.site)}{_loss_words(loss, trace, unit)}"
    if not any(each.own is not None for each in trace.operations):
        return "no first loss is known: the trace saw no operation with an own error"
    largest, reason = _largest(trace, unit), _no_loss_reason(trace)
    return f"{largest}; {reason}" if largest else f"no first loss: {reason}"


def _no_loss_reason(trace: Trace) -> str:
    normal = normal_error(trace.dtype)
    if any(each.own is not None and each.own.relative > normal for each in trace.operations):
        return "the losses inside reach no output: its errors come from a last rounding"
    return f"no known own error exceeds {normal / unit_of(trace.dtype):g} ULP of {trace.dtype}"


def _loss_words(loss: FirstLoss, trace: Trace, unit: ErrorUnit) -> str:
    """Continue the place of a first loss: its operation, the size and probable cause of the loss, and its share."""
    operation = loss.operation
    parts = [f", {operation.name}"]
    if loss.reason == "overflow":
        parts.append(": a finite exact value became infinite or NaN")
    elif loss.reason == "amplified" and operation.amplification is not None:
        total = operation.total.relative if operation.total is not None else 0.0
        times = format_number(operation.amplification, 3)
        parts.append(f": it amplifies the errors of its inputs {times} times, to {error_words(total, trace, unit)}")
    elif loss.reason == "accumulated":
        together = error_words(loss.together, trace, unit)
        parts.append(f": {loss.times:,} times on its own result, own errors together {together}")
    elif operation.own is not None:
        parts.append(f": own error {error_words(operation.own.relative, trace, unit)}")
    return "".join([*parts, _cause_words(loss), _explained(trace, operation)])


def _cause_words(loss: FirstLoss) -> str:
    """Write the probable cause with a question mark: the operation's name, dtypes and sizes suggest it."""
    operation = loss.operation
    match loss.cause:
        case "accumulator":
            return f" ({operation.dtype} accumulator?)"
        case "cast":
            return f" (cast to {operation.dtype}?)"
        case "cancellation":
            lost = f", {format_number(operation.lost_bits, 2)} bits lost" if operation.lost_bits else ""
            return f" (cancellation{lost}?)"
        case "approximation":
            return f" (approximation of {operation.name}?)"
        case "underflow":
            return f" (underflow of {operation.dtype}?)"
        case "overflow" | "rounding":
            return ""


def _explained(trace: Trace, operation: Operation) -> str:
    if not operation.shares:
        return ""
    line = [line for name in operation.shares for line in _lines_of(trace, name) if line.site == operation.site]
    found = max(line, key=lambda each: abs(each.share))
    share = operation.shares[found.output]
    if _is_joint(share, found) and abs(found.share) >= MIN_SHARE_IN_WORDS:
        return f"; its line explains {share_text(found.share)} of the error of {found.output}"
    return f"; {share_text(share)} of the error of {found.output}" if abs(share) >= MIN_SHARE_IN_WORDS else ""


class _Line(NamedTuple):
    """Hold the operations of one line or module, and the sum of their shares of an output's error."""

    site: Site
    output: str
    operations: Sequence[Operation]
    times: int
    share: float


def _lines_of(trace: Trace, output: str) -> list[_Line]:
    """Return the lines that have a share of an output's error, the largest first, and so are their operations.

    Operations that a stored trace leaves out count.
    """
    members: dict[object, list[Operation]] = {}
    for each in rank_by_share(trace, output):
        # Operations of unknown places have nothing in common.
        members.setdefault(each.site if each.site != Site() else each.number, []).append(each)
    left = {each.site: each for each in trace.left_out_sites if each.site != Site()}
    lines = []
    for key, operations in members.items():
        beyond = left.get(key) if isinstance(key, Site) else None
        share = sum(each.shares[output] for each in operations)
        share += 0.0 if beyond is None else beyond.shares.get(output, 0.0)
        count = len(operations) + (0 if beyond is None else beyond.operations)
        lines.append(_Line(operations[0].site, output, operations, count, share))
    return sorted(lines, key=lambda each: -abs(each.share))


def _largest(trace: Trace, unit: ErrorUnit) -> str:
    output = main_output(trace)
    lines = _lines_of(trace, output.name) if output is not None else []
    if not lines:
        return ""
    line, first = lines[0], lines[0].operations[0]
    if not _is_joint(first.shares[line.output], line):
        own = "" if first.own is None else f": own error {error_words(first.own.relative, trace, unit)}"
        share = share_text(first.shares[line.output])
        return f"largest share: {format_site(first.site)}, {first.name}{own}; {share} of the error of {line.output}"
    names = {each.name for each in line.operations}
    counted = f"{names.pop()} {line.times:,} times" if len(names) == 1 else f"{line.times:,} operations"
    errors = [each.own.relative for each in line.operations if each.own is not None]
    own = f": own errors up to {error_words(max(errors), trace, unit)}" if errors else ""
    share = share_text(line.share)
    return f"largest share: {format_site(line.site)}, {counted}{own}; {share} of the error of {line.output}"


def _is_joint(share: float, line: _Line) -> bool:
    """Return whether the operations of a line explain more together than one of them: a loop runs a line many times."""
    return abs(share) < abs(line.share) / 2


_OTHERS = {"reference": "the reference", "golden": "the golden", "version": "the other version"}


def describe_formula(found: FormulaDifference) -> list[str]:
    """Name the first operation without a counterpart in the other computation, and count those that have one."""
    other = _OTHERS[found.other] + (f" at {found.commit[:8]}" if found.commit else "")
    if found.problem:
        return [f"the operations of {other} are not known: {found.problem}"]
    counts = f"{found.matched:,} of {found.operations:,} operations have the same exact value in {other}"
    if found.first is None:
        return [f"the operations do not show where the formula parts from {other}: {counts}"]
    sentences = [f"from here the formula differs: {_placed(found.first)}; {counts}"]
    if found.counterpart is not None:
        sentences.append(f"{other} has there: {_placed(found.counterpart)}")
    return sentences


def describe_reordering(found: OrderDifference) -> list[str]:
    """Name the first operation of another order, how much of the output it changes, and the other's operation there."""
    other = _OTHERS[found.other] + (f" at {found.commit[:8]}" if found.commit else "")
    bits = f"{found.output} has other bits"
    if found.elements:
        part = share_text(found.changed / found.elements) if found.changed >= found.elements / 1000 else ""
        counted = f"{found.changed:,} of {found.elements:,} elements of {found.output}"
        bits = f"{counted} differ{f' ({part})' if part else ''}"
    if found.problem:
        return [f"the order of operations is not compared with {other}'s: {found.problem}; {bits}"]
    if found.first is None:
        steps = f"{other} takes {found.other_steps:,} step{'' if found.other_steps == 1 else 's'} more"
        placed = "" if found.counterpart is None else f": {_placed(found.counterpart)}"
        return [f"the order of operations differs: {steps}{placed}; {bits}"]
    first = f"the order of operations differs from {other}'s: {_placed(found.first)}; {bits}"
    if found.counterpart is None:
        return [f"{first}, and {other} has no step in its place"]
    return [first, f"{other} has there: {_placed(found.counterpart)}"]


def _placed(place: OperationPlace | Operation) -> str:
    return f"{format_site(place.site)}, {place.name}"


def describe_version(found: VersionDifference, trace: Trace, unit: ErrorUnit) -> list[str]:
    """Name the first operation whose own error grew over another version's, and the errors of its outputs."""
    version = found.revision if found.commit.startswith(found.revision) else f"{found.revision} ({found.commit[:8]})"
    formula = [] if found.formula is None else describe_formula(found.formula)
    order = [] if found.order is None else describe_reordering(found.order)
    # A step of another order rounds, too: its sentence says more than a new operation without a loss.
    is_order = found.order is not None and found.kind == "new" and found.explained is None
    growth = [] if is_order else [_growth(found, version, trace, unit)]
    return [*growth, *formula, *order, *_former_errors(found, version, trace, unit)]


def _growth(found: VersionDifference, version: str, trace: Trace, unit: ErrorUnit) -> str:
    if found.first is None or found.kind is None:
        counts = f"{found.matched:,} of {len(trace.operations):,} operations have a counterpart"
        return f"no own error grew against {version}; {counts}"
    now = _own_words(found.first, trace, unit)
    if found.kind == "new" or found.counterpart is None:
        return (
            f"first new operation with an error since {version}: {_placed(found.first)}: own error {now}{_part(found)}"
        )
    before = _own_words(found.counterpart, trace, unit)
    place = f"{format_site(found.counterpart.site)}" if found.counterpart.site != found.first.site else "the same line"
    grew = f"first own error that grew since {version}: {_placed(found.first)}: {now}; before: {before}, at {place}"
    return f"{grew}{_part(found)}"


def _part(found: VersionDifference) -> str:
    if found.explained is None:
        return ""
    return f"; its line explains {share_text(found.explained)} of the growth of the error of {found.output}"


def _own_words(operation: Operation, trace: Trace, unit: ErrorUnit) -> str:
    return "not known" if operation.own is None else error_words(operation.own.relative, trace, unit)


def _former_errors(found: VersionDifference, version: str, trace: Trace, unit: ErrorUnit) -> Iterator[str]:
    now = {output.name: output.rounding for output in trace.outputs}
    for output in found.outputs:
        size = now.get(output.name)
        if output.rounding is not None and size is not None:
            before, after = (error_words(each.relative, trace, unit) for each in (output.rounding, size))
            yield f"{output.name}: rounding {before} at {version}, {after} now"


def describe_dumps(found: DumpComparison, trace: Trace, unit: ErrorUnit) -> list[str]:
    """Name the first stored tensor with an error that this run does not explain, and count those not compared."""
    bad = [layer for layer in found.layers if layer.unexplained]
    if bad:
        dumped, here = (error_words(size.relative, trace, unit) for size in (bad[0].dumped, bad[0].here))
        counted = f"{len(bad):,} of {len(found.layers):,} tensors"
        first = f"first tensor of {found.folder} that this run does not explain: {bad[0].name}: {dumped}, here {here}"
        sentences = [f"{first}; {counted} like it"]
    else:
        sentences = [f"this run explains the errors of all {len(found.layers):,} tensors of {found.folder}"]
    others = [
        (found.only_dumped, "only in the folder"),
        (found.only_traced, "only in this run"),
        (found.other_shapes, "of another shape"),
    ]
    counts = [
        f"{len(names):,} {words} ({names[0]}{', ...' if len(names) > 1 else ''})" for names, words in others if names
    ]
    return [*sentences, *([f"not compared: {', '.join(counts)}"] if counts else [])]


def describe_output(output: TracedOutput, trace: Trace, unit: ErrorUnit = "ulp") -> str:
    """Split the error of an output into rounding and formula, as far as they are known."""
    if output.rounding is None and COMPLEX_PARTS.get(output.dtype, output.dtype) not in FORMATS:
        return "; ".join([f"{output.name}: {_integer_words(output, trace, unit)}", f"{output.dtype} has no rounding"])
    sizes = [("error", output.whole), ("rounding", output.rounding), ("formula", output.formula)]
    known = [(name, size.relative) for name, size in sizes if size is not None]
    if not known:
        return f"{output.name}: error not known: the trace lost this output"
    # The unit appears once, behind the first number.
    first = f"{known[0][0]} {error_words(known[0][1], trace, unit)}"
    # An elementwise tolerance of 0 gives no measure: such an output is judged by another metric.
    is_known = output.tolerances is not None and isfinite(output.tolerances)
    used = [f"{format_number(output.tolerances or 0.0, 3)} of the tolerance"] if is_known else []
    split = ", ".join(f"{name} {error_text(size, trace, unit)}" for name, size in known[1:])
    if output.bound is not None:
        split = ", ".join(filter(None, [split, f"bound of rounding {error_text(output.bound, trace, unit)}"]))
    return f"{output.name}: {'; '.join(filter(None, [', '.join([first, *used]), split + _dominance(output, trace)]))}"


def _integer_words(output: TracedOutput, trace: Trace, unit: ErrorUnit) -> str:
    """Count the integers or truth values that the exact computation chooses otherwise, or give the relative error."""
    flip = find_flip(trace, output)
    if flip is None:
        return (
            "error not known" if output.whole is None else f"relative error {format_number(output.whole.relative, 3)}"
        )
    counted = (
        f"{flip.event.changed:,} of {flip.event.elements:,} elements differ from the exact choice of {flip.event.name}"
    )
    mover = flip.largest
    if mover is None or mover.own is None:
        return counted
    size = error_words(mover.own.relative, trace, unit)
    return f"{counted}; the largest own error before it: {_placed(mover)}: {size}"


def _dominance(output: TracedOutput, trace: Trace) -> str:
    if output.rounding is None:
        return "rounding not known: the trace lost this output"
    if output.formula is None or output.formula.relative == output.rounding.relative == 0:
        return ""
    return f": {'formula' if is_formula_dominant(output, trace.oracle) else 'rounding'} dominates"


def describe_coverage(trace: Trace) -> str:
    """Count the operations, those that the trace does not know whole, and the sums of shares."""
    found = coverage_of(trace)
    counts = [
        (found.without_own, "without own error"),
        (found.not_shadowed, "not shadowed"),
        (found.without_share, "without a share"),
        (found.cuts, "cut" if found.cuts == 1 else "cuts"),
        (found.flips, "flip" if found.flips == 1 else "flips"),
    ]
    # Rarer events follow only if they happened. Zeros of the others are printed: nothing was cut.
    rare = [(found.shares_cut, "without a derivative"), (found.weakened, "run in another way than plainly")]
    counted = ", ".join(f"{number:,} {name}" for number, name in (*counts, *(each for each in rare if each[0])))
    sums = [sentence for output in trace.outputs if (sentence := _sum_words(output, found))]
    operations = f"{found.operations:,} operation{'' if found.operations == 1 else 's'}"
    if not found.operations:
        # --detail 0 measures the outputs alone, and events are noted all the same.
        events = f"{found.cuts:,} {counts[3][1]}, {found.flips:,} {counts[4][1]}"
        return f"coverage: no operation was recorded, {events}; no shares"
    return f"coverage: {'; '.join([f'{operations}, {counted}', *(sums or ['no shares'])])}"


def _sum_words(output: TracedOutput, coverage: Coverage) -> str:
    """Write the sum of an output's shares, or the reason for its absence; empty if unknown."""
    name, gap = output.name, coverage.no_sums.get(output.name)
    special = _non_finite(output)
    if gap is None:
        found = f"shares of {name} add up to {format_number(coverage.sums[name], 3)}"
        return f"{found}, {name} has {special}" if special else found
    match gap:
        case "not finite":
            return f"no sum of shares of {name}: {f'it has {special}' if special else 'its exact value is not finite'}"
        case "no rounding":
            return f"no shares of {name}: {output.dtype} has no rounding"
        case "exact":
            return f"no shares of {name}: its rounding error is 0{f', and it has {special}' if special else ''}"
        case "unknown":
            return f"no shares of {name}" if coverage.sums else ""


def _non_finite(output: TracedOutput) -> str:
    found = output.range
    counts = [] if found is None else [(found.nan, "NaN"), (found.inf, "Inf")]
    return " and ".join(f"{count:,} {word}" for count, word in counts if count)


def trace_warnings(trace: Trace) -> list[str]:
    """Write each reason to trust the trace less."""
    return list(_warnings(trace))


def _warnings(trace: Trace) -> Iterator[str]:
    if trace.oracle_problem:
        yield f"no oracle to compare with: {trace.oracle_problem}"
    yield from _other_bits(trace)
    for output in trace.outputs:
        sum = output.sum_of_shares
        if sum is not None and not is_complete(sum):
            limits = f"{COMPLETE_SHARES[0]} to {COMPLETE_SHARES[1]}"
            yield (
                f"the shares of {output.name} add up to {format_number(sum, 3)}, outside {limits}: "
                f"the ranking is not complete{_overflow_words(trace)}"
            )
        if _is_doubtful(output):
            yield f"the shadow of {output.name} is not exact enough: two shadows differ by {_shadow_error(output)}"
    if trace.left_out:
        yield f"{trace.left_out:,} operations are not in this stored trace"
    if trace.watched_left_out:
        yield f"{trace.watched_left_out:,} watched values are not in this trace"


def _overflow_words(trace: Trace) -> str:
    # The gradient of an infinite value is 0 or NaN.
    times = sum(each.times for each in trace.events if each.kind == "overflow")
    return f", because {times:,} operation{'' if times == 1 else 's'} overflowed" if times else ""


def _other_bits(trace: Trace) -> Iterator[str]:
    if trace.repeats is False:
        yield "two plain runs differ: the computation is nondeterministic, and this trace is one of its runs"
    if trace.same_bits is False:
        yield "the traced run has other bits than a plain run: the trace shows another computation"


def _is_doubtful(output: TracedOutput) -> bool:
    if output.shadow_error is None or output.rounding is None:
        return False
    return output.shadow_error > MAX_SHADOW_ERROR * output.rounding.relative


def _shadow_error(output: TracedOutput) -> str:
    rounding = format_number(output.rounding.relative, 3) if output.rounding is not None else "unknown"
    return f"{format_number(output.shadow_error or 0.0, 3)}, and the measured error is {rounding}"


def describe_trust(trace: Trace) -> str:
    """Name the shadow, how well two shadows agree, and whether the traced run has the bits of a plain run."""
    known = [output.shadow_error for output in trace.outputs if output.shadow_error is not None]
    agree = f"two shadows agree to {format_number(max(known), 2)}" if known else "not checked by a second shadow"
    bits = {True: "bits equal a plain run's", False: "bits differ from a plain run's", None: "no plain run compared"}
    return f"shadow {trace.shadow}, {agree}; {bits[trace.same_bits]}"


_EVENTS = {
    "cut": "a value left the shadow, and comes back as exact",
    "flip": "the exact computation would have chosen other integers, indices or truth values",
    "overflow": "a finite exact value became infinite or NaN",
    "not_shadowed": "it has no form of higher precision, and its share is unknown",
    "eager": "compiled code ran operation by operation",
    "rerouted": "the trace had to choose another kernel than a plain run",
    "untraced": "the computation went on where the trace sees nothing",
    "shares_cut": "no way back leads through it, so operations before it get no share there",
    "rounded_weights": "the case rounded weights before the computation, and no error here contains that",
}


def describe_event(event: TraceEvent) -> str:
    """Write one event: kind, operation, how often, the elements that changed, the meaning, and the place."""
    times = f" {event.times:,} times" if event.times > 1 else ""
    changed = f", {event.changed:,} of {event.elements:,} elements" if event.elements else ""
    detail = f" ({event.detail})" if event.detail else ""
    kind = event.kind.replace("_", " ")
    return f"{kind}: {event.name}{times}{changed}: {_EVENTS[event.kind]}{detail}, at {format_site(event.site)}"


def describe_size_of_ulp(trace: Trace) -> str:
    """Explain the unit of the columns."""
    eps = format_number(unit_of(trace.dtype), 3)
    return f"errors in ULP of {trace.dtype}: the 2-norm of the errors over the norm of the exact values, over {eps}"


def legend_of(columns: Sequence[str]) -> list[str]:
    """Explain the columns of a table of operations."""
    meanings = {
        "own": "own: the operation against the exact one on the same inputs",
        "inherited": "inherited: the errors of its inputs after the operation",
        "total": "total: against the whole computation in higher precision",
        "amplified": "amplified: inherited error over the largest total error of the inputs",
        "max ULP": "max ULP: largest own error of an element, in ULP of the operation's dtype",
        "lost bits": "lost bits: cancellation in an addition or subtraction",
    }
    return [meaning for name, meaning in meanings.items() if name in columns]
