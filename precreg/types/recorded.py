"""Which values does a table of recorded figures give: its place, and facts about its figures?"""

from __future__ import annotations

from msgspec import Struct, field

from precreg.types.case import Fact, Location


class RecordedFigures(Struct, frozen=True):
    """The row of a table from which a comparison was read: figures alone, because the arrays are unknown.

    `metrics` are the metrics that the table has, `empty` those whose cell is empty in this row, and `non_finite` has
    the text of those that are NaN or infinite.
    """

    file: str
    line: int
    metrics: tuple[str, ...]
    empty: tuple[str, ...] = ()
    non_finite: dict[str, str] = field(default_factory=dict)


class AbsentFigures(Fact, frozen=True, tag="absent_figures"):
    """A row of a table with empty cells in place of figures: the metrics, and the place."""

    metrics: tuple[str, ...]
    place: Location


class NonFiniteFigures(Fact, frozen=True, tag="non_finite_figures"):
    """A row of a table with figures that are NaN or infinite: their texts by metric, and the place."""

    figures: dict[str, str]
    place: Location


class FigureMoved(Fact, frozen=True, tag="figure_moved"):
    """A recorded figure beyond the allowed ratio to the baseline's; its noise is unknown.

    The ratio is of the `rest`, 1 - figure, for a share that is better where it is higher.
    """

    improved: bool = False
    rest: bool = False
