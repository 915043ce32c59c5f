"""Which layers need more bits, if the weights have a budget?

The cost of a layer in a format is the model's measured relative error with this layer alone in it. Errors of several
layers add as squares if they do not depend on each other, so a proposal is verified by a run, and repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, sqrt
from typing import NamedTuple

from precreg.errors import UserError
from precreg.quantization.codes import change_format, codes_named
from precreg.quantization.model import Array, LayerFacts, QuantizableModel, compare_outputs
from precreg.types import BitWidthProposal, LayerBits, OutputError, Quantizer, UniformBits

FLOAT = "float32"
FLOAT_BITS = 32.0
DEFAULT_FORMATS = ("int4", "int8", FLOAT)
# Steps to wider formats after a run that exceeds a bound on the error. Each costs one more run.
MAX_REPAIRS = 16

# Returns a model whose layers have formats of their own, by name. A layer without a format stays float.
ModelBuilder = Callable[[Callable[[str], str | None]], QuantizableModel]


class Width(NamedTuple):
    """Hold one choice for a layer: a format, the bits of all its weights, and its cost."""

    format: str
    size: float
    cost: float

    @property
    def loss(self) -> float:
        """Return the cost squared, which adds over layers."""
        return self.cost * self.cost


class BitBudget(NamedTuple):
    """Hold the bound of a proposal: a mean of bits for each weight, or a relative error of the results."""

    max_bits: float | None = None
    max_error: float | None = None
    formats: tuple[str, ...] = DEFAULT_FORMATS


def make_budget(
    max_bits: float | None, max_error: float | None, weights: Quantizer, formats: Sequence[str] = ()
) -> BitBudget:
    """Return a budget of checked values, with formats that the other options of the weights fit.

    Raises UserError: unknown-format; bad-value for two bounds or none, and for zero points of a floating format.
    """
    if (max_bits is None) == (max_error is None):
        raise UserError(
            "bad-value",
            f"expected a bound on the bits or on the error but got {max_bits=}, {max_error=}",
            hint="write one of them: --max-bits 6, or --max-error 0.01",
        )
    names = tuple(dict.fromkeys(each if each == FLOAT else codes_named(each).name for each in formats))
    chosen = names or DEFAULT_FORMATS
    if set(chosen) == {FLOAT}:
        raise UserError(
            "bad-value",
            f"expected a narrow format among the widths but got {FLOAT} alone",
            hint="write --width int4 --width int8 --width float32",
        )
    for name in chosen:
        # Before the measurements, which take minutes.
        if name != FLOAT:
            change_format(weights, name)
    return BitBudget(max_bits, max_error, chosen)


def propose_widths(build: ModelBuilder, budget: BitBudget) -> BitWidthProposal:
    """Return the formats of all layers with weights, chosen by measured costs and verified by a run.

    Raises UserError: bad-value for a budget below the narrowest formats, or one that no format keeps.
    """
    exact = build(lambda name: None).run(frozenset(), frozenset()).outputs
    elements, choices = _measure_choices(build, exact, budget.formats)
    total = sum(elements.values())
    if budget.max_bits is not None:
        _require_room(choices, budget.max_bits, total)
        chosen = choose_widths(choices, max_size=budget.max_bits * total)
    else:
        chosen = choose_widths(choices, max_loss=(budget.max_error or 0.0) ** 2)
    measured, repairs = _measure(build, exact, chosen), 0
    while budget.max_error is not None and measured.relative > budget.max_error and repairs < MAX_REPAIRS:
        wider = _widen(choices, chosen)
        if wider is None:
            break
        chosen, repairs = wider, repairs + 1
        measured = _measure(build, exact, chosen)
    layers = [
        LayerBits(name, each.format, elements[name], each.size / elements[name], each.cost)
        for name, each in chosen.items()
    ]
    return BitWidthProposal(
        max_bits=budget.max_bits,
        max_error=budget.max_error,
        bits=sum(each.size for each in chosen.values()) / total,
        layers=tuple(layers),
        predicted=sqrt(sum(each.loss for each in chosen.values())),
        measured=measured,
        repairs=repairs,
        uniform=_uniform(build, exact, choices, total),
    )


def _measure_choices(
    build: ModelBuilder, exact: Sequence[Array], formats: Sequence[str]
) -> tuple[dict[str, int], dict[str, list[Width]]]:
    elements: dict[str, int] = {}
    choices: dict[str, list[Width]] = {}
    for format in formats:
        if format == FLOAT:
            continue
        model = build(_everywhere(format))
        for layer in model.layers:
            if layer.weight is None:
                continue
            elements[layer.name] = layer.weight.figures.elements
            found = compare_outputs(exact, _run(model, [layer]), None).relative
            size = layer.weight.quantizer.bits * elements[layer.name]
            choices.setdefault(layer.name, []).append(Width(format, size, found))
    if not choices:
        raise UserError(
            "bad-value",
            "expected layers with weights to choose bits for but got none",
            hint="name formats of weights: --weights int8",
        )
    if FLOAT in formats:
        for name, found_choices in choices.items():
            found_choices.append(Width(FLOAT, FLOAT_BITS * elements[name], 0.0))
    return elements, choices


def _everywhere(format: str) -> Callable[[str], str | None]:
    return lambda name: format


def _run(model: QuantizableModel, layers: Sequence[LayerFacts]) -> tuple[Array, ...]:
    names = frozenset(each.name for each in layers)
    return model.run(names, names).outputs


def _measure(build: ModelBuilder, exact: Sequence[Array], chosen: Mapping[str, Width]) -> OutputError:
    formats = {name: each.format for name, each in chosen.items() if each.format != FLOAT}
    model = build(formats.get)
    return compare_outputs(exact, _run(model, model.layers), None)


def _uniform(
    build: ModelBuilder, exact: Sequence[Array], choices: Mapping[str, Sequence[Width]], total: int
) -> tuple[UniformBits, ...]:
    found = []
    for format in dict.fromkeys(each.format for widths in choices.values() for each in widths):
        same = {name: each for name, widths in choices.items() for each in widths if each.format == format}
        if format != FLOAT:
            bits = sum(each.size for each in same.values()) / total
            found.append(UniformBits(format, bits, _measure(build, exact, same)))
    return tuple(found)


def _require_room(choices: Mapping[str, Sequence[Width]], max_bits: float, total: int) -> None:
    least = sum(min(each.size for each in widths) for widths in choices.values()) / total
    if max_bits < least:
        raise UserError(
            "bad-value",
            f"expected a budget of at least {least:.4f} bits for each weight, which the narrowest formats need with"
            f" their scales, but got {max_bits:g}",
            hint="raise the budget, or allow a narrower format: --width int2 --width int4 --width int8",
        )


def choose_widths(
    choices: Mapping[str, Sequence[Width]], max_size: float = inf, max_loss: float = 0.0
) -> dict[str, Width]:
    """Return a width for each layer: small ones, exchanged for wider ones by the loss that a bit saves.

    It ends when the loss is at most `max_loss`, or when no exchange fits into `max_size`. The loss is at most that of
    the best choice and the largest single exchange more (tests/quantization/test_proposal.py).
    """
    hulls = {name: convex_hull(widths) for name, widths in choices.items()}
    chosen = {name: hull[0] for name, hull in hulls.items()}
    size = sum(each.size for each in chosen.values())
    while sum(each.loss for each in chosen.values()) > max_loss:
        best = _best_exchange(hulls, chosen, max_size - size)
        if best is None:
            break
        name, width = best
        size += width.size - chosen[name].size
        chosen[name] = width
    return chosen


def _best_exchange(
    hulls: Mapping[str, Sequence[Width]], chosen: Mapping[str, Width], room: float
) -> tuple[str, Width] | None:
    best, best_gain = None, 0.0
    for name, hull in hulls.items():
        now = chosen[name]
        for width in hull:
            more = width.size - now.size
            if 0.0 < more <= room:
                gain = (now.loss - width.loss) / more
                if gain > best_gain:
                    best, best_gain = (name, width), gain
    return best


def _widen(choices: Mapping[str, Sequence[Width]], chosen: Mapping[str, Width]) -> dict[str, Width] | None:
    """Return the choice with one layer wider, the one whose cost falls most; None if none can be."""
    hulls = {name: convex_hull(widths) for name, widths in choices.items()}
    best = _best_exchange(hulls, chosen, inf)
    return None if best is None else {**chosen, best[0]: best[1]}


def convex_hull(widths: Sequence[Width]) -> list[Width]:
    """Return the widths by size, without those that are larger and no better, or above a line between two others.

    Infinite costs stay at the start alone.
    """
    hull: list[Width] = []
    for width in sorted(widths, key=lambda each: (each.size, each.loss)):
        if hull and width.loss >= hull[-1].loss:
            continue
        while len(hull) >= 2 and _is_above(hull[-2], hull[-1], width):
            hull.pop()
        hull.append(width)
    return hull


def _is_above(left: Width, middle: Width, right: Width) -> bool:
    first = (left.loss - middle.loss) * (right.size - left.size)
    second = (left.loss - right.loss) * (middle.size - left.size)
    return first <= second
