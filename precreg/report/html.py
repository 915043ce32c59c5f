"""Lay out a run as report.html, one file that opens without a network.

Nothing in a record can become markup or code. The template escapes, data is JSON without <, > and &, and the script
sets text only. The page's own policy runs only the script whose digest it names.
"""

from __future__ import annotations

import urllib.parse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from precreg.report.case_context import CaseContext, context_of, look_command, reproduce_command
from precreg.report.case_values import position_rows
from precreg.report.causes import brief_diagnosis, describe_run_diagnoses, diagnoses_of
from precreg.report.chinese import (
    chinese_accelerators,
    chinese_brief_diagnosis,
    chinese_chosen_commit,
    chinese_exit_sentence,
    chinese_finding_counts,
    chinese_group_cause,
    chinese_loss_size,
    chinese_notes,
    chinese_orphan,
    chinese_process_count,
    chinese_provenance,
    chinese_reuse,
    chinese_run_diagnoses,
    chinese_run_finding,
    chinese_selection,
    chinese_short_message,
    chinese_state_change,
    chinese_status_counts,
    chinese_story,
    chinese_unseen,
    chinese_verdict,
    chinese_warning,
)
from precreg.report.describe import (
    STATUS_LABELS,
    describe_chosen_commit,
    describe_commit,
    describe_provenance,
    describe_run_selection,
    describe_status_counts,
    describe_unseen,
    failure_tail,
    finding_notes,
    finding_rows,
    finding_table,
    known_bad_cases,
    run_exit_sentence,
    sort_results,
)
from precreg.report.groups import ResultGroup, group_results, measure_loss
from precreg.report.html_data import PageTexts, json_for_script, pack_chinese, pack_details, page_data
from precreg.report.layout import format_columns
from precreg.report.page_words import CATALOGUES, DEFAULT_LANGUAGE, LANGUAGES, Language, say
from precreg.report.processes import count_process_changes, describe_process_changes
from precreg.report.sections import (
    Standing,
    describe_accelerators,
    describe_finding_counts,
    describe_orphan,
    describe_reuse,
    describe_warning,
    finding_standing,
    format_finding_factor,
    sort_run_findings,
)
from precreg.report.story import (
    describe_environments,
    describe_group_cause,
    describe_loss_size,
    describe_run_story,
    group_unjudged,
    short_message,
)
from precreg.report.studies import studies_for_html
from precreg.report.template import page_script, page_style, render_template
from precreg.report.workers import worker_rows
from precreg.types import (
    TIERS,
    CaseResult,
    Diagnosis,
    Reason,
    RunFinding,
    RunRecord,
    Status,
    format_duration,
    is_test_defined,
)

if TYPE_CHECKING:
    from markupsafe import Markup

# The worst findings on the run; record.json has all of them.
MAX_HTML_FINDINGS = 500
# Groups of one part of the page, and cases of one group. The table has all cases.
MAX_GROUPS = 100
MAX_GROUP_CASES = 10
MAX_LISTED_CASES = 200
# A printed page has no panels, so the worst failures are printed in full: some 40 sheets of paper.
MAX_PRINTED_CASES = 100
MAX_PRINTED_POSITIONS = 3


def render_run_html(record: RunRecord, language: Language = DEFAULT_LANGUAGE) -> str:
    """Lay out the whole report as one HTML document; its switch has the other languages, too."""
    return render_template("report.html.j2", _page(record, language))


def _page(record: RunRecord, language: Language) -> dict[str, Any]:
    results = sort_results(record.results)
    groups = _page_groups(results)
    every = [group for part in groups.values() for group in part]
    found = studies_for_html(record)
    texts = PageTexts()
    words = PageWords(language, texts)
    page = {
        "record": record,
        **words.names(),
        **_head(record, groups["worse"], words),
        **_group_parts(groups, words),
        **_notes(record, results, words),
        **_changes(record, results, words),
        "found": found,
        "matrix": _matrix(results),
        "statuses": [status for status in STATUS_LABELS if any(r.verdict.status is status for r in results)],
        "tiers": [tier for tier in TIERS if any(r.tier == tier for r in results)],
        **_printed(record, results, words),
        "style": page_style("report.css", "run.css", "case.css", *(["studies.css"] if found else [])),
        **page_script("page.js", "table.js", "case.js", "report.js"),
        "data": json_for_script(page_data(results, every, texts)),
        "details": (details := pack_details(results, diagnoses_of(record), context_of(record))),
    }
    return page | {"chinese": pack_chinese(texts, details.phrases)}


def _head(record: RunRecord, failures: Sequence[ResultGroup], words: PageWords) -> dict[str, Any]:
    """Return the story of the run, and the facts below it."""
    english, chinese = describe_run_story(record, failures), chinese_story(record, failures)
    done, reused = record.diagnosed, record.reused
    return {
        "story": {"case": english.case, "parts": [*map(words.sentence, english[::2], chinese[::2])]},
        "title_counts": describe_status_counts(record),
        "counts": words.sentence(describe_status_counts(record), chinese_status_counts(record)),
        "sentence": words.sentence(run_exit_sentence(record), chinese_exit_sentence(record)),
        "duration": format_duration(record.duration_s),
        "chain": words.sentence(*(separator.join(record.environment.chain) for separator in (", then ", "，其次 "))),
        "commit": describe_commit(record.git),
        "against": words.sentence(*(name(record.against, record.against_revision) for name in _COMMITS)),
        "paired_with": words.sentence(*(name(record.pair, record.pair_revision) for name in _COMMITS)),
        "selected": words.sentence(describe_run_selection(record), chinese_selection(record.selection)),
        "reused": reused and words.sentence(describe_reuse(reused), chinese_reuse(reused)),
        "diagnosed": done and words.sentence(describe_run_diagnoses(done), chinese_run_diagnoses(done)),
        "accelerators": [*map(words.sentence, describe_accelerators(record), chinese_accelerators(record))],
    }


# The names of a commit with its revision, in English and in Chinese.
_COMMITS = (describe_chosen_commit, chinese_chosen_commit)


def _notes(record: RunRecord, results: Sequence[CaseResult], words: PageWords) -> dict[str, Any]:
    """Return the notes of the run: unseen losses, known-bad cases, warnings, orphans, environments and processes."""
    unseen = [
        {"text": words.sentence(f"{note.text}. {note.advice[:1].upper()}{note.advice[1:]}", chinese), "ids": note.ids}
        for note, chinese in zip(describe_unseen(record), chinese_unseen(record), strict=True)
    ]
    return {
        "unseen": unseen,
        "known_bad": known_bad_cases(record),
        "warnings": [words.sentence(describe_warning(one), chinese_warning(one)) for one in record.warnings[:200]],
        "orphans": [words.sentence(describe_orphan(one), chinese_orphan(one)) for one in record.orphans[:200]],
        "workers": [
            row._asdict()
            | {"refusal": row.refusal and words.sentence(describe_warning(row.refusal), chinese_warning(row.refusal))}
            for row in worker_rows(record)
        ],
        "environments": [
            {"text": words.sentence(note.text, note.chinese), "ids": note.ids}
            for note in describe_environments(results)
        ],
        "processes": [
            {"text": words.sentence(note.text, chinese_state_change(note.change)), "ids": note.ids}
            for note in describe_process_changes(results)
        ],
        "process_count": words.sentence(count_process_changes(results), chinese_process_count(results)),
    }


def _page_groups(results: Iterable[CaseResult]) -> dict[str, list[ResultGroup]]:
    """Return the groups of each part of the page; passed cases are in a group only if they improved."""
    shown = (each for each in results if each.verdict.status is not Status.PASSED or _is_improved(each))
    groups = group_results(shown)
    return {
        "worse": [group for group in groups if group.key.status is Status.FAILED],
        "improved": [group for group in reversed(groups) if group.key.reason is Reason.IMPROVED],
        "unjudged": group_unjudged(groups),
    }


def _is_improved(result: CaseResult) -> bool:
    return result.verdict.reason is Reason.IMPROVED


def _group_parts(groups: dict[str, list[ResultGroup]], words: PageWords) -> dict[str, Any]:
    """Describe the first groups of each part, numbered over all parts."""
    parts: dict[str, Any] = {}
    number = 0
    for part, found in groups.items():
        parts[part] = [_group(at, group, words) for at, group in enumerate(found[:MAX_GROUPS], number)]
        parts[f"{part}_left_out"] = max(0, len(found) - MAX_GROUPS)
        number += len(found)
    return parts


def _group(number: int, group: ResultGroup, words: PageWords) -> dict[str, Any]:
    key, worst = group.key, group.worst
    # The results are sorted by the largest ratio, and the best improvement has the smallest.
    results = group.results[::-1] if _is_improved(worst) else group.results
    searched = key.status is Status.FAILED and not group.diagnosed and not is_test_defined(worst.definition)
    return {
        "number": number,
        "status": key.status,
        "reason": key.reason,
        "suite": key.suite,
        "operator": key.operator,
        "count": len(results),
        "cause": words.sentence(describe_group_cause(group), chinese_group_cause(group)),
        "undiagnosed": look_command(worst) if searched else "",
        "cases": (cases := [_group_case(result, words) for result in results[:MAX_GROUP_CASES]]),
        "size": cases[0]["size"],
        "message": cases[0]["message"],
    }


def _group_case(result: CaseResult, words: PageWords) -> dict[str, str]:
    loss = measure_loss(result)
    return {
        "id": result.id,
        "size": words.sentence(describe_loss_size(loss), chinese_loss_size(loss)),
        "message": words.sentence(short_message(result), chinese_short_message(result)),
    }


def _changes(record: RunRecord, results: Iterable[CaseResult], words: PageWords) -> dict[str, Any]:
    """Return the findings on the run."""
    on_run = sort_run_findings(record.findings)
    return {
        "on_run": _run_findings(on_run[:MAX_HTML_FINDINGS], results, words),
        "standings": [one for one in Standing if any(finding_standing(each) is one for each in on_run)],
        "on_run_counts": words.sentence(describe_finding_counts(on_run), chinese_finding_counts(on_run)),
        "on_run_left_out": max(0, len(on_run) - MAX_HTML_FINDINGS),
    }


def _printed(record: RunRecord, results: Iterable[CaseResult], words: PageWords) -> dict[str, Any]:
    """Return the worst failed cases and errors in full, for paper; a screen does not show them."""
    failed = [result for result in results if result.verdict.status in (Status.FAILED, Status.ERROR)]
    known, context = diagnoses_of(record), context_of(record)
    printed = [_printed_case(result, known, context, words) for result in failed[:MAX_PRINTED_CASES]]
    return {"failed": len(failed), "printed": printed}


def _printed_case(
    result: CaseResult, known: dict[str, Diagnosis], context: CaseContext, words: PageWords
) -> dict[str, Any]:
    verdict = result.verdict
    english = [*brief_diagnosis(result, known), *finding_notes(verdict)]
    chinese = [*chinese_brief_diagnosis(result, known), *chinese_notes(verdict)]
    return {
        **_group_case(result, words),
        "status": verdict.status,
        "reason": verdict.reason,
        "message": words.sentence(verdict.message, chinese_verdict(verdict)),
        "causes": [*map(words.sentence, english, chinese)],
        "table": finding_table(finding_rows(verdict, result.outcome.described)),
        "positions": _printed_positions(result),
        "tail": failure_tail(result),
        "provenance": [*map(words.sentence, describe_provenance(result), chinese_provenance(result))],
        "command": reproduce_command(result, context),
    }


def _printed_positions(result: CaseResult) -> list[str]:
    """Return the worst positions of the first seed of each output."""
    rows = [
        [comparison.output, *row]
        for comparison in result.outcome.comparisons
        if comparison.seed == 0
        for row in islice(position_rows(comparison, comparison.worst), MAX_PRINTED_POSITIONS)
    ]
    names = ("output", "seed", "index", "actual", "reference", "distance")
    return format_columns(names, rows, len(rows)) if rows else []


class PageWords:
    """Words of the catalogue in one language, as elements and attributes that the script can translate."""

    def __init__(
        self, language: Language, texts: PageTexts, catalogues: Mapping[Language, Mapping[str, str]] = CATALOGUES
    ) -> None:
        self.language, self.texts, self._catalogues = language, texts, catalogues

    def say(self, key: str, **values: object) -> str:
        """Return words as text."""
        return say(key, values, self.language, self._catalogues)

    def element(self, key: str, **values: object) -> Markup:
        """Return words in an element of their own."""
        from markupsafe import Markup

        element = Markup('<span data-say="{}"{}>{}</span>')
        return element.format(key, _values(values), self.say(key, **values))

    def sentence(self, english: str, chinese: str) -> Markup:
        """Return a sentence of the record as an element that the script can translate; empty without one."""
        from markupsafe import Markup, escape

        if english == chinese or not english:
            return escape(english)
        element = Markup('<span data-text="{}">{}</span>')
        return element.format(self.texts.place(english, chinese), chinese if self.language == "zh" else english)

    def label(self, key: str, **values: object) -> Markup:
        """Return an aria-label as an attribute."""
        from markupsafe import Markup

        attributes = Markup('aria-label="{}" data-say-label="{}"{}')
        return attributes.format(self.say(key, **values), key, _values(values))

    def placeholder(self, key: str) -> Markup:
        """Return the placeholder of a field as an attribute."""
        from markupsafe import Markup

        return Markup('placeholder="{}" data-say-placeholder="{}"').format(self.say(key), key)

    def case_list(self, ids: Sequence[str]) -> Markup:
        """Return a list of links to cases, the first `MAX_LISTED_CASES`."""
        from markupsafe import Markup

        link = Markup('<li><a href="#{}">{}</a></li>')
        items = Markup("").join(link.format(urllib.parse.quote(id), id) for id in ids[:MAX_LISTED_CASES])
        left_out = len(ids) - MAX_LISTED_CASES
        more = Markup("<li>{}</li>").format(self.element("and_more", number=left_out)) if left_out > 0 else ""
        return Markup("<ul>{}{}</ul>").format(items, more)

    def names(self) -> dict[str, Any]:
        """Return the names that templates use."""
        return {
            "say": self.say,
            "w": self.element,
            "label": self.label,
            "placeholder": self.placeholder,
            "case_list": self.case_list,
            "language": self.language,
            "languages": LANGUAGES,
        }


def _values(values: dict[str, object]) -> Markup:
    from markupsafe import Markup

    texts = {name: str(value) for name, value in values.items()}
    return Markup(' data-values="{}"').format(msgspec.json.encode(texts).decode()) if texts else Markup("")


def _run_findings(found: Iterable[RunFinding], results: Iterable[CaseResult], words: PageWords) -> list[dict[str, Any]]:
    """Describe findings on the run; the subject of a finding is a link if it is a case of the page."""
    ids = {result.id for result in results}
    return [_finding(finding, words, is_case=finding.about in ids) for finding in found]


def _finding(finding: RunFinding, words: PageWords, *, is_case: bool) -> dict[str, Any]:
    return {
        "standing": finding_standing(finding),
        "kind": finding.kind,
        "about": finding.about,
        "is_case": is_case,
        "message": words.sentence(finding.message, chinese_run_finding(finding)),
        "allowed": finding.allowed,
        "times": format_finding_factor(finding).removesuffix(" times"),
        "source": str(finding.source or ""),
    }


def _matrix(results: Sequence[CaseResult]) -> dict[str, dict[str, int]]:
    # All statuses of all tiers, also zeros: the template then needs no test for missing keys.
    tally = Counter((str(result.tier), str(result.verdict.status)) for result in results)
    return {tier: {str(status): tally[tier, status] for status in Status} for tier in TIERS}
