"""Which Chinese sentences does the panel of one case have?

The panel is described in English. This module pairs each of its sentences with the Chinese one, written from facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from precreg.measure import metric_named
from precreg.report.case_context import CaseContext, first_bad_run
from precreg.report.causes import diagnosis_rows
from precreg.report.chinese.causes import chinese_cause_line, chinese_diagnosis_rows, chinese_explanations
from precreg.report.chinese.findings import SIDES_ZH, chinese_environment_change, chinese_finding, chinese_verdict
from precreg.report.chinese.pairs import chinese_judge
from precreg.report.chinese.run import chinese_labels
from precreg.report.describe import RATIO_DIGITS, finding_notes, format_interval
from precreg.report.pairs import describe_judge
from precreg.report.significant_digits import chinese_digits, describe_digits
from precreg.types import (
    ACCELERATOR_FACT,
    CaseResult,
    Diagnosis,
    Finding,
    MetricDescription,
    MetricHistory,
    Status,
    Tolerance,
    Verdict,
    format_distinct,
    format_number,
    is_test_defined,
)
from precreg.verdict import allowed_ratio


def case_phrases(
    result: CaseResult, detail: Mapping[str, object], known: Mapping[str, Diagnosis], context: CaseContext
) -> Iterator[tuple[str, str]]:
    """Yield each English sentence and label of a panel with the Chinese one; `detail` is the described case."""
    verdict = result.verdict
    yield verdict.message, chinese_verdict(verdict)
    yield from zip(finding_notes(verdict), chinese_notes(verdict), strict=True)
    yield from chinese_labels(result)
    if result.diagnosis is not None:
        english = diagnosis_rows(result.diagnosis, known)
        chinese = chinese_diagnosis_rows(result.diagnosis, known)
        yield from (pair for rows in zip(english, chinese, strict=True) for pair in zip(*rows, strict=True))
    for finding in verdict.findings:
        yield format_interval(finding), _interval(finding)
    for difference in result.outcome.execution.differences:
        yield f"1 and {difference.repeat}", f"1 与 {difference.repeat}"
        counts = difference.differing, difference.size
        yield f"{counts[0]} of {counts[1]}", f"{counts[0]} / {counts[1]}"
    yield from _outputs(result)
    yield from _baseline(result)
    yield from zip(_lines(describe_digits(result)), _lines(chinese_digits(result)), strict=True)
    history = result.history
    if isinstance(history, MetricHistory) and history.values and isinstance(shown := detail["history"], dict):
        yield shown["title"], f"{history.output} 的 {history.metric}"
        yield shown["sentence"], _first_bad(history, result)
    if context.history_problem:
        yield context.history_problem, context.history_problem


def _lines(lines: Sequence[str]) -> list[str]:
    return [line.removeprefix("digits").strip() for line in lines]


def chinese_notes(verdict: Verdict) -> list[str]:
    """List in Chinese the findings without a metric that the verdict's message leaves out, as `finding_notes` does."""
    others = [one for one in verdict.findings if not one.metric and one.message not in verdict.message]
    # Findings of equal sentences are one note in both languages.
    return list({_note(one, one.message): _note(one, chinese_finding(one), "种子") for one in others}.values())


def _note(finding: Finding, text: str, seed: str = "seed") -> str:
    places = (finding.output, "" if finding.seed is None else f"{seed} {finding.seed}")
    place = ", ".join(filter(None, places))
    return f"{place}: {text}" if place else text


def _interval(finding: Finding) -> str:
    lower, _ = format_distinct([finding.lower, finding.limit], RATIO_DIGITS)
    upper, _ = format_distinct([finding.upper, finding.limit], RATIO_DIGITS)
    if lower and upper:
        return f"{lower} 至 {upper}"
    return (lower and f"至少 {lower}") or (upper and f"至多 {upper}")


def _outputs(result: CaseResult) -> Iterator[tuple[str, str]]:
    """Yield the line about each output and the limits of its tolerance."""
    seeds = {name: 0 for name in (each.output for each in result.outcome.comparisons)}
    for each in result.outcome.comparisons:
        seeds[each.output] += 1
    for each in result.outcome.comparisons:
        number, shape = seeds[each.output], "×".join(map(str, each.shape))
        about = f"{each.dtype} against {each.reference_dtype}, shape {shape or 'scalar'}"
        chinese = f"{each.dtype} 对照 {each.reference_dtype}，shape {shape or '标量'}，{number} 个种子"
        yield f"{about}, {number} seed{'s' if number > 1 else ''}", chinese
    for tolerance in result.tolerances.values():
        yield from _limits(tolerance, result.outcome.described)


def _limits(tolerance: Tolerance, described: Sequence[MetricDescription]) -> Iterator[tuple[str, str]]:
    for number, alternative in enumerate(tolerance.alternatives, 1):
        yield from ((f"either {number}: {one.metric}", f"备选 {number}：{one.metric}") for one in alternative)
    for name, growth in tolerance.regression.items():
        metric = metric_named(name, described)
        allowed = f"{'≥' if metric.better == 'higher' else '≤'} {format_number(allowed_ratio(metric, growth))}"
        yield f"{allowed} × baseline", f"{allowed} × 基线"
    for growth in tolerance.directions.values():
        times = format_number(1 + growth)
        yield f"{times} times", f"{times} 倍"


def _baseline(result: CaseResult) -> Iterator[tuple[str, str]]:
    baseline, judge = result.baseline, describe_judge(result)
    yield judge, chinese_judge(result)
    yield f"{judge}: the same environment", f"{chinese_judge(result)}：环境相同"
    if baseline is not None:
        entry = baseline.entry
        yield baseline.change, chinese_environment_change(baseline)
        accepted = f"{entry.date} by {entry.author} at {entry.commit[:8]}"
        yield accepted, f"{entry.date}，{entry.author}，提交 {entry.commit[:8]}"


def _first_bad(history: MetricHistory, result: CaseResult) -> str:
    """Say in Chinese since which run the metric is beyond its limit."""
    if history.limit is None or result.verdict.status is not Status.FAILED:
        return ""
    first = first_bad_run(history, result)
    if first is None:
        return f"本次运行首次超出界限：之前 {len(history.values)} 次运行中的最后一次仍在界限内。"
    run = history.values[first]
    place = f"提交 {run.commit[:12]}" if run.commit else "没有提交的运行"
    when = run.started[:16].replace("T", " ")
    if first == 0:
        return f"在所示的首次运行中就已超出界限：{place}，{when}。"
    return f"首次变差：{place}，{when}；此后 {len(history.values) - first} 次运行，以及本次。"


def chinese_brief_diagnosis(result: CaseResult, known: Mapping[str, Diagnosis]) -> list[str]:
    """Return in Chinese the line of the cause, and one for each unit case that explains the failure."""
    if result.diagnosis is None:
        return []
    return [chinese_cause_line(result.diagnosis), *chinese_explanations(result.diagnosis, known)]


def chinese_provenance(result: CaseResult) -> list[str]:
    """Write in Chinese where the baseline and the case come from, as `describe_provenance` does."""
    execution = result.outcome.execution
    hardware = f"，在 {execution.facts[ACCELERATOR_FACT]} 上" if ACCELERATOR_FACT in execution.facts else ""
    sides = (("信息", execution.facts), (SIDES_ZH.get(result.role, result.role), execution.oracle_facts))
    given = (f"{side}：{', '.join(map(' '.join, facts.items()))}" for side, facts in sides if facts)
    places = [f"{'测试' if is_test_defined(result.definition) else '套件'}：{result.source}{hardware}", *given]
    if result.baseline is None:
        return places
    if result.baseline is not result.stored:
        return [f"基线：{chinese_judge(result)}", *places]
    entry = result.baseline.entry
    accepted = "，提交 ".join(filter(None, (entry.date, entry.commit[:8])))
    line = f"基线：{result.baseline.file}，接受于 {accepted}：{entry.reason}"
    return [line, *([f"判定依据：{chinese_judge(result)}"] if result.paired else []), *places]
