"""What every report says of a study, said once: a title, a table, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from precreg.report import growth, trade_off
from precreg.report.growth import Series
from precreg.report.trade_off import Row
from precreg.types.numbers import SHARE_DIGITS, duration, figure
from precreg.types.records import RunRecord
from precreg.types.study import Growth, Study, TradeOff

SAID = ("use", "risk")
"""Columns of what a suite says, and nothing measured."""


class Told(NamedTuple):
    """One study of one suite in words. `series` are what there is to draw; none of a trade-off.

    A column without any text is left out of `columns` and `rows`.
    """

    suite: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remark: str
    series: tuple[Series, ...] = ()
    over: str = ""
    metric: str = ""

    def measured(self) -> tuple[list[str], list[list[str]]]:
        """Return columns and rows without what the suite says: a terminal has no room for sentences."""
        kept = [at for at, name in enumerate(self.columns) if name not in SAID]
        return [self.columns[at] for at in kept], [[row[at] for at in kept] for row in self.rows]


def told(record: RunRecord) -> list[Told]:
    """Describe every study of a run that anything was measured for."""
    return [one for study in record.studies for one in _of_study(study, record)]


def _of_study(study: Study, record: RunRecord) -> Iterator[Told]:
    if study.growth is not None and (found := growth.series(study.growth, study.suite, record.results)):
        yield _growth(study.suite, study.growth, found)
    if study.trade_off is not None and (rows := trade_off.rows(study.trade_off, study.suite, record.results)):
        yield _trade_off(study.suite, study.trade_off, rows)


def _growth(suite: str, study: Growth, found: Sequence[Series]) -> Told:
    over, metric = study.over, study.metric
    columns = ("series", "e of one", "direction", over, "measured", "exp(n e)", "sqrt(n)", "nearer", "grows like")
    remark = (
        f"measured is {metric}, the size of d_n / d_0 - 1; the laws d_n = d_0*exp(n*e) and c*sqrt(n) are fitted to "
        f"{over} <= {study.fit_to}, and stand beside the last point; direction: -1 all too small, 1 all too large"
    )
    rows = [_law_row(one) for one in found]
    return Told(suite, f"error growth over {over}", *_without_empty(columns, rows), remark, tuple(found), over, metric)


def _law_row(one: Series) -> tuple[str, ...]:
    last, verdict, slope = one.points[-1], growth.judged(one), growth.slope(one)
    e = "" if one.e is None else figure(one.e, 3)
    laws = [figure(one.grown(last.n), 3), figure(one.walked(last.n), 3)] if verdict else ["", ""]
    law = "" if verdict is None else verdict.law
    power = "" if slope is None else f"n^{slope:.2f}"
    return (one.name, e, f"{last.direction:.2f}", str(last.n), figure(last.error, 3), *laws, law, power)


def _trade_off(suite: str, study: TradeOff, found: Sequence[Row]) -> Told:
    columns = ("of", study.over, "time", "speed-up", "error", "error ratio", "mean ULP", "matches", *SAID)
    remark = (
        "times are the subject's own of this run on this machine, the shortest of seeds and repeats; speed-up and "
        f"error ratio are against {study.over}={study.plain}, error is {trade_off.ERROR}"
    )
    rows = [_row(row) for row in found]
    return Told(suite, f"precision against speed, by {study.over}", *_without_empty(columns, rows), remark)


def _row(row: Row) -> tuple[str, ...]:
    if row.failure:
        return (row.of, row.value, f"not measured: {row.failure}", *[""] * 5, row.note.use, row.note.risk)
    return (
        row.of,
        row.value,
        "" if row.duration_s is None else duration(row.duration_s),
        "" if row.time_ratio is None else _speed_up(row.time_ratio, plain=row.plain),
        "" if row.error is None else figure(row.error, 3),
        _error_ratio(row),
        "" if row.mean_ulp is None else figure(row.mean_ulp, 3),
        _matches(row),
        row.note.use,
        row.note.risk,
    )


def _speed_up(time_ratio: float, *, plain: bool) -> str:
    """Write how many times faster than the plain form; a form that is not says so."""
    return "1" if plain else f"{figure(1 / time_ratio, 3)}{'' if time_ratio < 1 else ' (not faster)'}"


def _error_ratio(row: Row) -> str:
    if row.plain:
        return "1"
    if row.same_bits:
        return "1 (same bits)"
    return "" if row.error_ratio is None else figure(row.error_ratio, 3)


def _matches(row: Row) -> str:
    if row.match_ratio is None:
        return ""
    limit = "" if row.rtol is None else f" at rtol {row.rtol:g}"
    return f"{figure(row.match_ratio, SHARE_DIGITS)}{limit}"


def _without_empty(
    columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    kept = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    return tuple(columns[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in rows)
