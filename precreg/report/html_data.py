"""Which data does the script of a run's page read: rows of the table, groups, words, details of cases?

Most texts of rows are the same for many cases, so each is stored once, and rows have its place in the list of texts.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isinf
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from precreg.measure import COUNT_DESCRIPTIONS, METRICS
from precreg.report.case_context import CaseContext
from precreg.report.case_detail import describe_case
from precreg.report.chinese import PHRASES_ZH, case_phrases, chinese_loss_size, chinese_short_message
from precreg.report.describe import finding_rows
from precreg.report.groups import LossSize, ResultGroup, measure_loss
from precreg.report.page_words import CATALOGUES
from precreg.report.story import describe_loss_size, short_message
from precreg.types import (
    CaseResult,
    Diagnosis,
    Reason,
    Status,
    described_metric,
    format_distinct,
    format_duration,
    format_number,
)
from precreg.verdict import seed_means

if TYPE_CHECKING:
    from markupsafe import Markup

# The names of a row's cells, in their order.
ROW_CELLS = (
    "id",
    "tier",
    "status",
    "reason",
    "metric",
    "current",
    "baseline",
    "loss",
    "times",
    "seconds",
    "time",
    "message",
    "group",
)
# Limits the size of the page, which stays below 5 MB with 10,000 cases. Details are kept worst first; a case beyond the
# limit is a row only. Base64 adds a third to the packed bytes.
MAX_PACKED_BYTES = 1_300_000
# Limits the memory and the time that a browser needs for the details.
MAX_DETAIL_BYTES = 12_000_000
# Details of so many bytes stay readable text in the page.
MAX_PLAIN_BYTES = 500_000
# Details of passed cases are seldom opened, and would fill the page first.
MAX_PASSED_IN_DETAIL = 100
# The table shows this metric of a passed case without findings, because every case has it.
HEADLINE = "mean_abs_error"
# <, > and & could end the script element; the two separators end a line of JavaScript before ES2019.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
# Level 6 of zlib packs details to a fifth; level 9 takes three times as long for 2 % less.
_ZLIB_LEVEL = 6


class PageDetails(NamedTuple):
    """The details of the worst cases by their ids: JSON for a script element, or base64 of its bytes from zlib."""

    text: Markup
    is_packed: bool
    # The Chinese sentences of the panels by their English.
    phrases: dict[str, str]


class PageTexts:
    """The list of texts that rows and sentences of the page refer to by their places, in two languages."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        # The Chinese sentences by place, apart from texts that are the same in both languages.
        self.chinese: dict[int, str] = {}

    def place(self, text: str, chinese: str = "") -> int:
        """Return the place of a text; equal texts have one place."""
        at = self.places.setdefault(text, len(self.places))
        if chinese and chinese != text:
            self.chinese.setdefault(at, chinese)
        return at


class PageChinese(NamedTuple):
    """The Chinese sentences of a page as a script element holds them: JSON, or base64 of its bytes from zlib."""

    text: Markup
    is_packed: bool


def pack_chinese(texts: PageTexts, phrases: Mapping[str, str]) -> PageChinese:
    """Pack the Chinese sentences: rows and overview name theirs by place, panels by the English sentence."""
    data = {
        "texts": [texts.chinese.get(at, 0) for at in range(len(texts.places))],
        "phrases": phrases,
    }
    if len(msgspec.json.encode(data)) <= MAX_PLAIN_BYTES:
        return PageChinese(json_for_script(data), False)
    return PageChinese(packed_json(data), True)


def page_data(
    results: Sequence[CaseResult], groups: Sequence[ResultGroup], texts: PageTexts | None = None
) -> dict[str, Any]:
    """Return the rows of all cases, the names of the groups, the metrics' formulas and the page's words."""
    texts = texts or PageTexts()
    of_group = {result.id: number for number, group in enumerate(groups) for result in group.results}
    rows = [_row(result, of_group.get(result.id), texts) for result in results]
    return {
        "cells": ROW_CELLS,
        "rows": rows,
        "texts": list(texts.places),
        "groups": [[group.key.reason, group.key.suite] for group in groups],
        "glossary": _glossary(results),
        "words": CATALOGUES,
        "phrases": PHRASES_ZH,
    }


def _row(result: CaseResult, group: int | None, texts: PageTexts) -> list[Any]:
    """Describe a case in the order of `ROW_CELLS`; texts by their places, an id by its folder's and its name."""
    seconds, verdict, loss = result.outcome.execution.duration_s, result.verdict, measure_loss(result)
    folder, slash, name = result.id.rpartition("/")
    words = [result.tier, verdict.status, verdict.reason, *_headline(result)]
    size, chinese_size = _loss_cells(result, loss)
    # The number sorts the column, and the text is shown. Three digits keep the page small.
    time = [float(format_number(seconds, 3)), format_duration(seconds) if seconds else ""]
    return [
        [texts.place(folder + slash), name],
        *map(texts.place, words),
        texts.place(size, chinese_size),
        # JSON has no infinity.
        None if isinf(loss.times) else float(format_number(loss.times, 4)),
        *time,
        texts.place(short_message(result), chinese_short_message(result)),
        group,
    ]


def _loss_cells(result: CaseResult, loss: LossSize) -> tuple[str, str]:
    if result.verdict.reason is Reason.IDENTICAL:
        return "", ""
    return describe_loss_size(loss), chinese_loss_size(loss)


def _headline(result: CaseResult) -> list[str]:
    rows = finding_rows(result.verdict, result.outcome.described)
    if rows:
        return [rows[0].metric, rows[0].current, rows[0].baseline]
    unchanged = _headlines_of_outputs(result) if result.verdict.status is Status.PASSED else iter(())
    return next(unchanged, ["", "", ""])


def _headlines_of_outputs(result: CaseResult) -> Iterator[list[str]]:
    entries = result.baseline.entry.outputs if result.baseline else {}
    for comparison in result.outcome.comparisons:
        if comparison.output in entries and HEADLINE in comparison.metrics:
            seeds = [c for c in result.outcome.comparisons if c.output == comparison.output]
            accepted = entries[comparison.output]
            current, baseline = seed_means(seeds[: len(accepted.digests)], accepted, HEADLINE)
            yield [HEADLINE, *format_distinct([current, baseline])]


def _glossary(results: Iterable[CaseResult]) -> dict[str, str]:
    of_analyzers = dict.fromkeys(each for result in results for each in result.outcome.described)
    metrics = (*METRICS.values(), *map(described_metric, of_analyzers))
    return {metric.name: f"{metric.formula} (unit: {metric.unit})" for metric in metrics} | COUNT_DESCRIPTIONS


def packed_json(value: Any) -> Markup:
    """Return JSON as base64 of its bytes from zlib."""
    from markupsafe import Markup

    packed = zlib.compress(msgspec.json.encode(value), _ZLIB_LEVEL)
    return Markup(base64.b64encode(packed).decode())


def pack_details(results: Iterable[CaseResult], known: Mapping[str, Diagnosis], context: CaseContext) -> PageDetails:
    """Describe the worst cases for their panels; `results` are sorted, `known` are the diagnoses of the run."""
    kept: dict[str, msgspec.Raw] = {}
    phrases: dict[str, str] = {}
    packer = zlib.compressobj(_ZLIB_LEVEL)
    size = packed = 0
    for result in _with_details(results):
        # Encoded once here: its size decides, and the same bytes go into the page.
        detail = describe_case(result, known, context)
        encoded = msgspec.json.encode(detail)
        size += len(encoded)
        packed += len(packer.compress(encoded))
        # Chinese sentences of the panel take space, too.
        added = {en: zh for en, zh in case_phrases(result, detail, known, context) if en != zh and en not in phrases}
        packed += len(packer.compress(msgspec.json.encode(added)))
        # Browsers crash on reports of 100 MB. Results are sorted worst first, so the limits cut the least important
        # ones.
        if size > MAX_DETAIL_BYTES or packed > MAX_PACKED_BYTES:
            break
        kept[result.id] = msgspec.Raw(encoded)
        phrases.update(added)
    if size <= MAX_PLAIN_BYTES:
        return PageDetails(json_for_script(kept), False, phrases)
    return PageDetails(packed_json(kept), True, phrases)


def json_for_script(value: Any) -> Markup:
    """Encode as JSON that cannot end the surrounding script element, and contains no markup."""
    from markupsafe import Markup

    text = msgspec.json.encode(value).decode()
    # JSON allows these escapes inside strings, and outside of strings these characters do not occur.
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return Markup(text)


def _with_details(results: Iterable[CaseResult]) -> Iterator[CaseResult]:
    """Yield all cases apart from the passed ones beyond `MAX_PASSED_IN_DETAIL`."""
    passed = 0
    for result in results:
        if result.verdict.status is Status.PASSED and result.verdict.reason is not Reason.IMPROVED:
            passed += 1
            if passed > MAX_PASSED_IN_DETAIL:
                continue
        yield result
