"""Which words do the pages of a run and of a history have of their own, in each language?

Sentences of records, such as messages of verdicts, are not here: report/ writes them in English.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from precreg.report.page_words_zh import CHINESE, HISTORY_CHINESE

Language = Literal["en", "zh"]
DEFAULT_LANGUAGE: Language = "en"

# A name in braces is a number or a name that the page fills in.
_ENGLISH: dict[str, str] = {
    "language": "Language",
    "cases": "cases",
    "selected": "selected",
    "environment": "environment",
    "accelerator": "accelerator",
    "commit": "commit",
    "on_branch": "on {branch}",
    "uncommitted": "with uncommitted changes",
    "paired_with": "paired with",
    "against": "against",
    "causes": "causes",
    "started": "started",
    "took": "took",
    "exit_code": "exit code",
    "worse_title": "What got worse",
    "worse_note": "Cases with the same reason, suite and cause are one group. The largest loss is first.",
    "improved_title": "What improved",
    "unjudged_title": "What could not be judged, or only in part",
    "changes_title": "Changed baselines and tolerances, and losses of the whole run",
    "environment_title": "Environment",
    "environment_note": "These baselines were accepted in another environment. The facts that differ here:",
    "cases_title": "All cases",
    "details_title": "The worst failures in detail",
    "details_note": "The {number} worst of {all} failed cases. The page on a screen and record.json have the others.",
    "group_cases": "{number} cases",
    "group_case": "1 case",
    "in_suite": "in {suite}",
    "operator": "operator {operator}",
    "show_group": "show these {number} cases in the table",
    "more_groups": "And {number} more groups. The table below has all cases.",
    "and_more": "and {number} more",
    "no_cause": "precreg diagnose {case} searches for the cause.",
    "loss": "loss",
    "gain": "gain",
    "message": "message",
    "known_bad": "{number} known bad, and passed by the state that was accepted",
    "warnings": "{number} warnings to look at",
    "warning": "1 warning to look at",
    "orphans": "{number} baselines without a case; precreg baseline prune removes them",
    "orphan": "1 baseline without a case; precreg baseline prune removes it",
    "fingerprint": "All facts of this environment, fingerprint {fingerprint}",
    "baselines_of": "baselines of",
    "on_run": "On the run: {counts}",
    "findings_caption": "Findings on the run as a whole, worst first",
    "finding": "finding",
    "about": "about",
    "kind": "kind",
    "times": "times",
    "what": "what",
    "standing": "Standing",
    "allowed_because": "allowed: {reason}",
    "more_findings": "And {number} more in record.json.",
    "matrix_caption": "Cases by tier and status; a number shows these cases",
    "tier": "tier",
    "search": "Search",
    "search_hint": "Search case, reason, metric or message (press /)",
    "status": "status",
    "all_tiers": "all tiers",
    "clear": "clear",
    "list_caption": "Cases, worst first; a heading sorts",
    "no_script": "Only the overview works without JavaScript; summary.md and record.json have every case.",
    "pages": "Pages",
    "previous": "previous",
    "next": "next",
    "case": "case",
    "reason": "reason",
    "metric": "metric",
    "current": "current",
    "baseline": "baseline",
    "time": "time",
    "no_match": "No case matches.",
    "all_shown": "{all} cases",
    "some_shown": "{number} of {all} cases",
    "page_of": "{first} to {last} of {all}",
    "of_group": "cases of one group: {group}",
    "previous_case": "previous case (k)",
    "next_case": "next case (j)",
    "close": "close (Escape)",
    "show_cell": "show {number} {status} of tier {tier}",
    "reproduce": "To reproduce",
    "worst_positions": "Worst positions",
    "loading": "The details are loading.",
    "no_details": "This browser cannot unpack the details. Run precreg explain {case}, or open the page in a browser of"
    " 2023 or later.",
}

# The words of the page of a history, apart from those that it shares with the page of a run: _SHARED.
_HISTORY_ENGLISH: dict[str, str] = {
    "runs": "runs",
    "from_to": "{first} to {last}",
    "series": "series",
    "metric_chosen": "metric",
    "materiality": "smallest relevant ratio",
    "made": "made",
    "changed_title": "What changed, the largest loss first",
    "no_changes": "No series changed by more than the smallest relevant ratio.",
    "more_changes": "The table below has the other changes.",
    "changes_caption": "Changes, worst case first",
    "day": "day",
    "run": "run",
    "change": "change",
    "changes": "Changes",
    "commits": "commits",
    "facts_changed": "environment: {facts}",
    "suites_title": "Suites",
    "suites_note": "Growth is the geometric mean over the cases, each compared with its own first run.",
    "suites_caption": "Suites, those with failing cases first",
    "suite": "suite",
    "failing_now": "failing now",
    "regressed_cases": "with a regression",
    "growth": "growth",
    "course": "course",
    "more_suites": "And {number} more suites. The table of cases has them.",
    "environments_title": "Environments",
    "fact_changes": "{number} changes of its facts",
    "fact_change": "1 change of its facts",
    "no_fact_changes": "its facts never changed",
    "of_run": "run {run}, {day}: {facts}",
    "all_suites": "all suites",
    "all_environments": "all environments",
    "axis": "horizontal axis",
    "by_run": "by run",
    "by_time": "by time",
    "history_hint": "Search case or change (press /)",
    "failing": "failing",
    "regressed": "regressed",
    "improved": "improved",
    "steady": "steady",
    "state": "state",
    "since": "since",
    "times_larger": "{times} times",
    "from_zero": "from 0",
    "history_list": "Cases, worst first; a heading sorts",
    "history_script": "Only the overview works without JavaScript; precreg drift --hindsight lists the changes.",
    "sampled": "{whole} cases are drawn with all of their runs. To keep the page small, {sampled} have up to"
    " {runs} points each, and {undrawn} have no drawing. Choose cases or --since to see more.",
    "rows_left_out": "{number} more cases are left out. Choose cases by a pattern to see them.",
    "drawn_in_part": "Drawn from some of the runs, with the smallest and the largest values.",
    "no_drawing": "This case has no drawing on this page. To draw it: precreg history page {case}",
    "no_values": "No run measured a value.",
    "no_unpack": "This browser cannot unpack the drawings. Open the page in a browser of 2023 or later.",
    "verdicts": "Latest verdicts",
    "failed_runs": "Runs that failed",
    "verdict": "verdict",
    "measured": "measured",
    "accepted_level": "accepted baseline",
    "mark_worse": "regression",
    "mark_better": "improvement",
    "mark_failed": "failed",
    "mark_facts": "other facts of the environment",
    "more_lines": "And {number} more lines; precreg drift --hindsight lists their changes.",
    "growth_of": "growth over the first run",
    "failed_of": "{failed} of {ran} cases failed",
    "printed_title": "Courses of the worst cases",
}
_SHARED = (
    *("language", "environment", "cases", "case", "search", "clear", "pages", "previous", "next", "no_match"),
    *("all_shown", "some_shown", "page_of", "previous_case", "next_case", "close", "loading", "and_more"),
)
CATALOGUES: Mapping[Language, Mapping[str, str]] = {"en": _ENGLISH, "zh": CHINESE}
HISTORY_CATALOGUES: Mapping[Language, Mapping[str, str]] = {
    "en": {key: _ENGLISH[key] for key in _SHARED} | _HISTORY_ENGLISH,
    "zh": {key: CHINESE[key] for key in _SHARED} | HISTORY_CHINESE,
}
# The names of the languages in themselves, for the switch.
LANGUAGES: Mapping[Language, str] = {"en": "English", "zh": "中文"}


def say(
    key: str,
    values: Mapping[str, object] | None = None,
    language: Language = DEFAULT_LANGUAGE,
    catalogues: Mapping[Language, Mapping[str, str]] = CATALOGUES,
) -> str:
    """Return the words of a key in a language, with its names in braces filled in.

    Raises:
        KeyError: for a key that no catalogue has, or a name without a value.
    """
    return catalogues[language][key].format_map(values or {})
