"""How do the tables of sensitivity and of a proposal of formats read?"""

from __future__ import annotations

from typing import NamedTuple

from precreg.report.quantization.words import NONE, describe_error
from precreg.types import BitWidthProposal, QuantizationRecord, Sensitivity, format_number


class WordedTable(NamedTuple):
    """Hold a title, lines of figures, and the names and cells of a table."""

    title: str
    summary: list[str]
    names: list[str]
    cells: list[list[str]]


def extra_tables(record: QuantizationRecord) -> list[WordedTable]:
    """Return the tables of the sensitivity and of the proposal, if they were measured."""
    found = [] if record.sensitivity is None else [sensitivity_table(record.sensitivity)]
    return found if record.proposal is None else [*found, proposal_table(record.proposal)]


def sensitivity_table(found: Sensitivity) -> WordedTable:
    """Return the table of three methods with the rank of each layer, the most sensitive layer first."""
    methods: list[list[float | None]] = [
        [each.first_order for each in found.layers],
        [each.alone for each in found.layers],
        # Without a sensitive layer, little error is left.
        [None if each.without is None else -each.without for each in found.layers],
    ]
    ranks = [_ranks(each) for each in methods]
    cells = []
    for at in sorted(range(len(found.layers)), key=lambda at: -found.layers[at].alone):
        layer = found.layers[at]
        values = (layer.first_order, layer.alone, layer.without)
        cells.append([layer.layer, *(_ranked(value, rank[at]) for value, rank in zip(values, ranks, strict=True))])
    names = ["layer", "first order", "alone", "all but this layer"]
    return WordedTable("Sensitivity: relative error of the results, and rank", _sensitivity_lines(found), names, cells)


def _sensitivity_lines(found: Sensitivity) -> list[str]:
    parts = [f"all layers: {format_number(found.total, 3)}, root sum of squares of alone {_number(found.root_sum)}"]
    if found.first_order_alone is not None:
        parts.append(f"Spearman first order to alone {found.first_order_alone:.3f} ({_method(found)})")
    if found.alone_without is not None:
        parts.append(f"alone to all but {found.alone_without:.3f}")
    return parts


def _method(found: Sensitivity) -> str:
    if found.step is None:
        return f"{found.probes} probes"
    return f"differences at +-{found.step:g} of each error"


def _ranks(values: list[float | None]) -> list[int | None]:
    order = sorted((at for at, value in enumerate(values) if value is not None), key=lambda at: -(values[at] or 0.0))
    found: list[int | None] = [None] * len(values)
    for rank, at in enumerate(order, start=1):
        found[at] = rank
    return found


def _ranked(value: float | None, rank: int | None) -> str:
    return NONE if value is None else f"{_number(value)} ({rank})"


def _number(value: float) -> str:
    return format_number(value, 3)


def proposal_table(found: BitWidthProposal) -> WordedTable:
    """Return the table of a proposal: the formats of layers with their costs, then one format for all layers."""
    rows = sorted(found.layers, key=lambda each: (-each.bits, -each.cost))
    cells = [
        [each.layer, each.format, f"{each.elements:,}", format_number(each.bits, 3), _number(each.cost)]
        for each in rows
    ]
    names = ["layer", "format", "weights", "bits of each", "alone"]
    return WordedTable("Proposal of formats", _proposal_lines(found), names, cells)


def _proposal_lines(found: BitWidthProposal) -> list[str]:
    budget = f"at most {found.max_bits:g} bits" if found.max_error is None else f"error at most {found.max_error:g}"
    weights = sum(each.elements for each in found.layers)
    size = sum(each.elements * each.bits for each in found.layers) / 8
    parts = [
        f"{budget}: {found.bits:.2f} bits for each of {weights:,} weights ({size:,.0f} bytes)",
        f"measured error {describe_error(found.measured)}, predicted {_number(found.predicted)}",
    ]
    if found.repairs:
        parts.append(f"{found.repairs} layers widened after the first run")
    if not found.is_within:
        parts.append("the proposal exceeds its bound: allow wider formats, such as --width float32")
    return [
        *parts,
        *(f"all {each.format}: {each.bits:.2f} bits, error {describe_error(each.measured)}" for each in found.uniform),
    ]
