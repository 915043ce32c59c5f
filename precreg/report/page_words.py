"""Which words does the page of a run have of its own, in each language?

Sentences of records, such as messages of verdicts, are not here: they are written from facts, see findings_zh.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from precreg.report.page_words_zh import CHINESE, REASONS_ZH, STANDINGS_ZH, STATUSES_ZH

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
    "on_run": "On the run:",
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
    "two_runs": "two runs",
    "current_run": "current run",
    "baseline_run": "baseline run",
    "warning_label": "warning",
    "size_note": "Sizes are those of the current run: multiples of its tolerance, or of its accepted baseline.",
    "worse_run_note": "Sizes are multiples of the errors in the baseline run.",
    "more_in_json": "And {number} more; precreg report --compare ... --format json has all of them.",
    "part_newly_failing": "Failed now and passed before: {number}",
    "part_worse": "Significantly worse: {number}",
    "part_not_comparable": "Could not be compared: {number}",
    "part_missing": "In the baseline run alone: {number}",
    "part_fixed": "Passed now and failed before: {number}",
    "part_improved": "Significantly better: {number}",
    "part_other_verdict": "Another verdict: {number}",
    "part_bounds": "Changed tolerances: {number}",
    "part_environment": "Differences of the environment: {number}",
    "part_times": "Other times of subjects, by 1.5x or more: {number}",
    "part_unjudged": "Other bits without a statistic: {number}",
    "part_added": "In the current run alone: {number}",
    "part_unselected": "Outside the selection of the current run: {number}",
    # Statuses, reasons and standings are their own words, as suites and options write them.
    **{f"status_{name}": name for name in STATUSES_ZH},
    **{f"reason_{name}": name for name in REASONS_ZH},
    **{f"standing_{name}": name for name in STANDINGS_ZH},
}

CATALOGUES: Mapping[Language, Mapping[str, str]] = {"en": _ENGLISH, "zh": CHINESE}
# The names of the languages in themselves, for the switch.
LANGUAGES: Mapping[Language, str] = {"en": "English", "zh": "中文"}


def say(key: str, values: Mapping[str, object] | None = None, language: Language = DEFAULT_LANGUAGE) -> str:
    """Return the words of a key in a language, with its names in braces filled in.

    Raises:
        KeyError: for a key that no catalogue has, or a name without a value.
    """
    return CATALOGUES[language][key].format_map(values or {})
