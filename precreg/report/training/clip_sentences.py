"""Which sentences and tables report the effects of clipping?"""

from __future__ import annotations

from precreg.report.training.scale_sentences import count_steps, format_share
from precreg.types import ClipEffect, ClipKind, ClippedBeforeUnscale, ClippingSweep, format_number

CLIP_COLUMNS = ("clipping", "limit", "from", "steps clipped", "step cosine", "least", "sum cosine", "sum length")

_KIND_WORDS: dict[ClipKind, str] = {
    "global_norm": "norm of all",
    "parameter_norm": "norm of each",
    "value": "values",
}


def describe_clip_order(fact: ClippedBeforeUnscale | None) -> list[str]:
    """Write that gradients were clipped before they were unscaled, with the limit that acted, and the remedy."""
    if fact is None:
        return []
    least, greatest = format_number(fact.effective_least, 3), format_number(fact.effective_greatest, 3)
    acted = least if fact.effective_least == fact.effective_greatest else f"{least} to {greatest}"
    return [
        f"clipped before unscaling: {fact.scaled:,} of {fact.clippings:,} clippings, first at step {fact.first_step}; "
        f"the limit {format_number(fact.limit, 3)} acted as {acted} on the gradients",
        f"it clipped {fact.clipped:,} of {count_steps(fact.scaled)}; after unscaling it would clip "
        f"{fact.clipped_after:,}",
        "unscale first: scaler.unscale_(optimizer); torch.nn.utils.clip_grad_norm_(model.parameters(), limit)",
    ]


def describe_clipping(sweep: ClippingSweep) -> list[str]:
    """Write the observed norms, the limit with the largest turn, and the omissions."""
    if not sweep.norms:
        reason = f"{count_steps(sweep.steps)}, {sweep.nonfinite_steps:,} of them without a finite norm"
        return [f"clipping: no norm was measured ({reason})"]
    ordered = sorted(sweep.norms)
    middle = ordered[len(ordered) // 2]
    lines = [
        f"gradient norms of {count_steps(len(ordered))}: {format_number(ordered[0], 3)} to "
        f"{format_number(ordered[-1], 3)}, median {format_number(middle, 3)}"
    ]
    known = [effect for effect in sweep.effects if effect.kind == "global_norm" and effect.sum_cosine is not None]
    if known:
        turned = min(known, key=lambda effect: effect.sum_cosine or 0.0)
        clipped = f"{turned.clipped_steps:,} of {count_steps(len(ordered))} clipped"
        lines.append(
            f"the norm {format_number(turned.limit, 3)} turns the sum over the steps most: cosine "
            f"{format_cosine(turned.sum_cosine)}, {clipped}"
        )
    if sweep.nonfinite_steps:
        lines.append(f"{count_steps(sweep.nonfinite_steps)} without a finite norm are left out")
    if sweep.measured < sweep.elements:
        share = f"{sweep.measured:,} of {sweep.elements:,} elements"
        lines.append(f"cosines of sums and of clipped values come from a sample: {share} of each step")
    if sweep.not_measured:
        lines.append(f"not measured, because they hold no floating-point numbers: {', '.join(sweep.not_measured)}")
    return lines


def clip_rows(sweep: ClippingSweep) -> list[tuple[str, ...]]:
    """Return the cells of CLIP_COLUMNS for each limit."""
    return [_clip_row(effect, len(sweep.norms)) for effect in sweep.effects]


def _clip_row(effect: ClipEffect, steps: int) -> tuple[str, ...]:
    return (
        _KIND_WORDS[effect.kind],
        format_number(effect.limit, 3),
        "given" if effect.quantile is None else f"quantile {effect.quantile:g}",
        format_share(effect.clipped_steps, steps),
        *(format_cosine(each) for each in (effect.step_cosine, effect.least_cosine, effect.sum_cosine)),
        "not known" if effect.sum_length is None else format_number(effect.sum_length),
    )


def format_cosine(cosine: float | None) -> str:
    """Write a cosine; one below 1 never reads 1."""
    if cosine is None:
        return "not known"
    text = format_number(cosine)
    return f"1 - {format_number(1 - cosine, 2)}" if text == "1" and cosine < 1 else text
