"""Which Chinese words describe a run as a whole: its story, its counts, its warnings, and unseen losses?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import isinf
from shlex import quote

from precreg.report.chinese.causes import chinese_cause_place
from precreg.report.chinese.findings import SIDES_ZH, chinese_verdict
from precreg.report.chinese.page_words import REASONS_ZH, STANDINGS_ZH, STATUSES_ZH
from precreg.report.describe import STATUS_LABELS, known_bad_cases
from precreg.report.groups import LossSize, LossUnit, ResultGroup
from precreg.report.sections import SelectionDict, Standing, finding_standing, sort_run_findings, without_shard
from precreg.report.story import MAX_SHORT_MESSAGE, Story
from precreg.types import (
    ACCELERATOR_FACT,
    SHARE_DIGITS,
    CaseResult,
    ChosenRevision,
    NoAcceptedVersion,
    NotRegressed,
    Reason,
    RunDiagnoses,
    RunFinding,
    RunRecord,
    StateChange,
    Status,
    UnclearOnFreshInputs,
    format_distinct,
    format_duration,
    has_unclaimed_files,
    is_test_defined,
)
from precreg.verdict import UnseenKind, unseen_cases

_UNITS: dict[LossUnit, str] = {
    "": "",
    "tolerance": "容差",
    "baseline": "基线",
    "baseline time": "基线耗时",
}
_SIZE_DIGITS = 3


def chinese_loss_size(loss: LossSize) -> str:
    """Write a size in Chinese, such as "容差的 2.5 倍"; empty without a number."""
    finding = loss.finding
    if isinf(loss.times):
        if finding is None or loss.unit == "baseline time":
            return ""
        exact = finding.baseline == 0 if loss.unit == "baseline" else finding.limit == 0
        return f"{_UNITS[loss.unit]}{'完全精确' if loss.unit == 'baseline' else '为 0'}" if exact else ""
    if not loss.unit or not loss.times:
        return ""
    return f"{_UNITS[loss.unit]}的 {format_distinct([loss.times, 1.0], _SIZE_DIGITS)[0]} 倍"


def chinese_short_message(result: CaseResult) -> str:
    """Return the first line of a verdict's message in Chinese, cut to the length of a row."""
    line = next(iter(chinese_verdict(result.verdict).splitlines()), "")
    return line if len(line) <= MAX_SHORT_MESSAGE else f"{line[: MAX_SHORT_MESSAGE - 3]}..."


def chinese_story(record: RunRecord, failures: Sequence[ResultGroup]) -> Story:
    """Write in Chinese what got worse, by how much, since which commit and why, as `describe_run_story` does."""
    if not failures:
        return Story(chinese_exit_sentence(record))
    worst, loss = failures[0].worst, failures[0].loss
    number = sum(len(group.results) for group in failures)
    where = "：" if number == 1 else "；最严重的是 "
    cause = f"；根因：{chinese_cause_place(failures[0].cause)}" if failures[0].cause else ""
    found = _failing_findings(record.findings)
    rest = f"{_loss(worst, loss)}{_since(worst, loss)}{cause}{f'；{found}' if found else ''}"
    return Story(f"{_failed_groups(failures, len(record.results))}{where}", worst.id, f"，{rest}")


def _failed_groups(failures: Sequence[ResultGroup], total: int) -> str:
    reasons = Counter[Reason]()
    for group in failures:
        reasons[group.key.reason] += len(group.results)
    number = reasons.total()
    cases = f"{total:,} 个用例中有 {number:,} 个" if total > 1 else f"{number} 个用例"
    if len(reasons) == 1:
        return f"{cases}{REASONS_ZH[next(iter(reasons))]}"
    return f"{cases}失败（{'，'.join(f'{count:,} 个{REASONS_ZH[reason]}' for reason, count in reasons.most_common())}）"


def _loss(result: CaseResult, loss: LossSize) -> str:
    finding, size = loss.finding, chinese_loss_size(loss)
    if finding is None or not size or not finding.metric or isinf(loss.times):
        return chinese_short_message(result)
    digits = SHARE_DIGITS if "ratio" in finding.metric else 4
    now, then, limit = format_distinct([finding.current, finding.baseline, finding.limit], digits)
    if loss.unit == "tolerance":
        of = "最差的元素" if finding.metric == "match_ratio" else finding.metric
        figures = f"（{now}，界限 {limit}）" if now and limit else ""
    else:
        of, figures = finding.metric, f"（{then} -> {now}）" if now and then else ""
    return f"{of} 为{size}{figures}"


def _since(result: CaseResult, loss: LossSize) -> str:
    if loss.unit not in ("baseline", "baseline time") or result.baseline is None:
        return ""
    entry = result.baseline.entry
    if not entry.commit:
        return f"，基线于 {entry.date} 接受" if entry.date else ""
    accepted = f"（{entry.date} 接受）" if result.baseline is result.stored and entry.date else ""
    return f"，对照提交 {entry.commit[:8]}{accepted}"


def chinese_exit_sentence(record: RunRecord) -> str:
    """Write one Chinese sentence that explains the exit code, as `run_exit_sentence` does."""
    failed, unjudged, found = _failed(record), _unjudged(record), _failing_findings(record.findings)
    of_cases = failed or unjudged or ("" if found else _harmless(record))
    parts = (of_cases, found) if failed else (found, of_cases)
    counted = () if failed or not record.strict else (UnseenKind.NOT_CLEAR,)
    unseen = ((kind, len(cases)) for kind, cases in unseen_cases(record.results).items() if kind not in counted)
    rest = "，".join(f"{number} 个用例{_UNSEEN_COUNTS[kind]}" for kind, number in unseen)
    return "；".join(filter(None, (*parts, rest)))


def _with_status(record: RunRecord, *statuses: Status) -> list[CaseResult]:
    return [result for result in record.results if result.verdict.status in statuses]


def _failed(record: RunRecord) -> str:
    failed = _with_status(record, Status.FAILED)
    errors = len(_with_status(record, Status.ERROR))
    if not failed:
        return ""
    if not errors and {result.verdict.reason for result in failed} == {Reason.REGRESSED}:
        return f"{len(failed)} 个用例相对{f' {record.pair[:8]} ' if record.pair else '基线'}精度回归"
    return "，".join(filter(None, (_reasons(failed), f"{errors} 个错误" if errors else "")))


def _unjudged(record: RunRecord) -> str:
    unjudged = _with_status(record, Status.ERROR, Status.PROPOSED)
    if record.strict:
        unjudged += [result for result in record.results if result.verdict.reason is Reason.NOT_CLEAR]
    cases = f"{len(unjudged)} 个用例无法判定：{_reasons(unjudged)}" if unjudged else ""
    files = "有改动的文件不属于任何用例" if record.strict and has_unclaimed_files(record.warnings) else ""
    return "；".join(filter(None, (cases, files)))


def _harmless(record: RunRecord) -> str:
    skipped = len(_with_status(record, Status.SKIPPED))
    if skipped == len(record.results):
        return f"没有判定任何用例：跳过 {skipped} 个" if skipped else "没有可判定的用例"
    also = f"；跳过 {skipped} 个用例" if skipped else ""
    if bad := len(known_bad_cases(record)):
        also += f"；{bad} 个用例已知有错"
    praise = "没有发现损失" if unseen_cases(record.results) else "没有精度回归"
    return f"相对{f' {record.pair[:8]}' if record.pair else '基线'}{praise}{also}"


def _reasons(results: Iterable[CaseResult]) -> str:
    tally = Counter(result.verdict.reason for result in results)
    return "，".join(f"{number} 个{REASONS_ZH[reason]}" for reason, number in tally.most_common())


def _failing_findings(findings: Iterable[RunFinding]) -> str:
    kinds = Counter(finding.kind for finding in sort_run_findings(findings) if finding.binding)
    named = "，".join(f"{count} 条 {kind}" for kind, count in kinds.most_common())
    return f"整次运行有 {kinds.total()} 条发现：{named}" if kinds else ""


def chinese_finding_counts(findings: Iterable[RunFinding]) -> str:
    """Count the findings of each standing in Chinese; empty without any."""
    tally = Counter(map(finding_standing, findings))
    return "，".join(f"{tally[one]} 条{STANDINGS_ZH[one]}" for one in Standing if tally[one])


def chinese_status_counts(record: RunRecord) -> str:
    """Count the cases of each status in Chinese, worst first."""
    tally = Counter(result.verdict.status for result in record.results)
    return "，".join(f"{tally[one]} 个{STATUSES_ZH[one]}" for one in STATUS_LABELS if tally[one]) or "没有用例"


_SELECTIONS = {
    "patterns": "模式",
    "tiers": "层级",
    "suites": "套件",
    "tags": "标签",
    "changed_since": "自此以来有改动",
    "last_failed": "上次运行失败的",
    "shard": "分片",
}


def chinese_selection(selection: SelectionDict) -> str:
    """Write a selection in Chinese; empty for the whole project."""
    several = selection.get("any")
    parts = [*map(without_shard, several)] if isinstance(several, list) else [without_shard(selection)]
    whole = " 或 ".join("；".join(_selected(*item) for item in part.items()) for part in parts)
    shard = f"分片 {selection['shard']}" if selection.get("shard") is not None else ""
    return "；".join(filter(None, (whole, shard)))


def _selected(name: str, value: object) -> str:
    word = _SELECTIONS.get(name, name)
    values = value if isinstance(value, list | tuple) else [value]
    return word if value is True else f"{word} {', '.join(map(str, values))}"


def chinese_chosen_commit(commit: str, chosen: ChosenRevision | None) -> str:
    """Write a commit's short id, and the revision that named it."""
    short = commit[:8]
    if chosen is None or (commit.startswith(chosen.text) and not chosen.merge_base):
        return short
    return f"{short}（{chosen.text} 与 HEAD 的合并基点）" if chosen.merge_base else f"{short}（{chosen.text}）"


def chinese_run_diagnoses(found: RunDiagnoses) -> str:
    """Count in Chinese the cases that a run diagnosed and those that it did not reach."""
    text = f"用 {format_duration(found.used)} 诊断了 {found.diagnosed} 个失败用例"
    if found.without_accepted:
        text += f"，其中 {found.without_accepted} 个没有已接受的版本（工作进程的仓库中缺少它）"
    if found.problem:
        return f"{text}，{found.not_reached} 个未诊断：{found.problem}"
    if found.not_reached:
        more = f"用 --diagnose SECONDS 可超过 {found.seconds:g} s"
        return f"{text}，{found.not_reached} 个未诊断：{more}"
    return text


def chinese_accelerators(record: RunRecord) -> list[str]:
    """Write in Chinese how many cases computed on each accelerator, and which baselines apply to them."""
    here = record.environment
    counts = Counter(
        (model, here.of_case(result.outcome.execution).chain)
        for result in record.results
        if (model := result.outcome.execution.facts.get(ACCELERATOR_FACT))
    )
    found = sorted(counts.items())
    return [f"{model} 上 {number} 个用例（基线依次取自 {'、'.join(chain)}）" for (model, chain), number in found]


_UNSEEN_COUNTS = {
    UnseenKind.NO_POWER: "没有检测能力",
    UnseenKind.SMALL_OUTPUTS: "只按比值判定",
    UnseenKind.FIGURES_ALONE: "只按数值判定",
    UnseenKind.WIDER_LIMITS: "按其他环境的较宽界限判定",
    UnseenKind.NOT_CLEAR: "无法确定",
}
_UNSEEN_REASONS = {
    UnseenKind.NO_POWER: "比特有变化的输出没有统计量来判定",
    UnseenKind.SMALL_OUTPUTS: "比特有变化的输出太小，无法做统计",
    UnseenKind.FIGURES_ALONE: "表格没有数组，其数值的噪声未知",
    UnseenKind.WIDER_LIMITS: "比特有变化，且代码的其他版本没有在此运行",
    UnseenKind.NOT_CLEAR: "新输入既没有证明也没有排除损失",
}


def chinese_unseen(record: RunRecord) -> list[str]:
    """Describe in Chinese the cases in which a run could not see every loss, kind by kind, with what helps."""
    return [
        f"{len(cases)} 个用例{_UNSEEN_COUNTS[kind]}：{_UNSEEN_REASONS[kind]}。{_unseen_advice(record, kind, cases)}"
        for kind, cases in unseen_cases(record.results).items()
    ]


def _unseen_advice(record: RunRecord, kind: UnseenKind, cases: Sequence[CaseResult]) -> str:
    first = min(cases, key=lambda case: case.id)
    facts = [finding.fact for case in cases for finding in case.verdict.findings]
    if kind is UnseenKind.NOT_CLEAR:
        pair = f" --pair {record.pair[:8]}" if record.pair else ""
        spent = any(isinstance(fact, UnclearOnFreshInputs) and fact.ended_by == "run_seconds" for fact in facts)
        whole = " --pair-run-seconds 1800" if spent else ""
        return f"放宽预算：precreg run{pair} --max-seeds 40960 --pair-seconds 120{whole} {first.id}"
    if kind is UnseenKind.FIGURES_ALONE:
        return "保留一个变体的数组并比较：precreg compare ACTUAL REFERENCE"
    pairing = _pairing_advice(cases)
    if kind is UnseenKind.WIDER_LIMITS:
        label = record.environment.of_case(first.outcome.execution).label
        accepted = f"precreg baseline accept --seen，或 accept '*' --environment {label} --reason WHY"
        return pairing or f"先在此运行已接受的版本，然后：{accepted}"
    if is_test_defined(first.definition):
        return "在测试中抽取更多输入或返回更多元素，然后重新接受"
    causes = {each.cause for fact in facts if isinstance(fact, NotRegressed) for each in fact.unjudged}
    if causes == {"statistic_off"}:
        return "其套件关闭了统计量；阈值可以发现损失，例如 regression: {rms_error: 0.1}"
    power = f"在套件中设置更多种子并重新接受（能力：precreg power {quote(first.id)}）"
    return "；或".join(filter(None, (pairing, power)))


def _pairing_advice(cases: Sequence[CaseResult]) -> str:
    of_suites = [case for case in cases if not is_test_defined(case.definition)]
    causes = [case.paired.cause for case in of_suites if case.paired is not None]
    if any(isinstance(cause, NoAcceptedVersion) and cause.cause == "shallow" for cause in causes):
        return "取得完整历史（GIT_DEPTH: 0，或 git fetch --unshallow），以便成对运行"
    if any(isinstance(cause, NoAcceptedVersion) and cause.cause == "no_workers" for cause in causes):
        return "在此与已接受的版本比较：precreg run --pair auto --jobs 1"
    unpaired = any(case.paired is None for case in of_suites)
    return "在此与已接受的版本比较：precreg run --pair auto" if unpaired else ""


_STATES = {
    "floating_point_mode": "浮点模式",
    "signal_handlers": "信号处理函数",
    "blocked_signals": "被屏蔽的信号",
    "timers": "间隔定时器",
    "resource_limits": "资源限制",
    "umask": "文件权限掩码",
    "locale": "区域设置",
    "time_zone": "时区",
    "descriptors": "标准流",
    "faulthandler": "faulthandler",
    "interpreter": "解释器设置",
    "numpy_settings": "numpy 设置",
    "priority": "优先级和处理器",
    "search_path": "导入搜索路径",
    "modules": "模块",
    "functions": "他人的函数",
    "registries": "函数注册表",
    "decimal_context": "decimal 上下文",
    "threads": "运行中的线程",
    "processes": "运行中的进程",
}
_REMEDIES = {
    "repaired": "已恢复",
    "replaced": "已更换工作进程",
    "remains": "保留到此进程结束；用工作进程运行（--jobs 1）会更换它们",
}


def chinese_state_change(change: StateChange) -> str:
    """Write one change of a process in Chinese: its kind, the changed parts, and the remedy."""
    named = "、".join([*change.names, *([f"另有 {change.others} 个"] if change.others else [])])
    return f"{_STATES[change.kind]}{f'（{named}）' if named else ''}：{_REMEDIES[change.remedy]}"


def chinese_process_count(results: Iterable[CaseResult]) -> str:
    """Write in Chinese how many cases changed their process; empty if none did."""
    changing = [result for result in results if result.outcome.execution.left]
    if not changing:
        return ""
    remains = any(change.remedy == "remains" for result in changing for change in result.outcome.execution.left)
    return f"{len(changing)} 个用例改变了其进程，{'之后的用例可能受影响' if remains else '其他用例不受影响'}"


def chinese_labels(result: CaseResult) -> Iterator[tuple[str, str]]:
    """Yield each English label of the panel that names the oracle of a case, with its Chinese label."""
    oracle = SIDES_ZH.get(result.role, result.role)
    yield f"a {result.role}", oracle
    for name in result.outcome.execution.oracle_facts:
        yield f"{result.role}'s {name}", f"{oracle}的 {name}"
