"""Which Chinese words describe the comparison of two versions: the test on fresh inputs, its end, and its problems?"""

from __future__ import annotations

from typing import assert_never

from precreg.types import (
    BetterOnFreshInputs,
    CaseResult,
    ClearOnFreshInputs,
    EndedBy,
    FailedOnFreshInputs,
    Finding,
    FixedInputs,
    KnownBadCase,
    NoAcceptedVersion,
    NonFiniteOnFreshInputs,
    OtherVersionFailed,
    OtherVersionInputs,
    OtherVersionOutputs,
    PairFact,
    PairProblem,
    PresentVersionFailed,
    UnclearOnFreshInputs,
    UnsteadyVersion,
    WorseOnFreshInputs,
    format_distinct,
    format_number,
)

# Biases are in units of the mean |d|, so their growth is a difference and no ratio.
_BIASES = ("bias", "outward_bias")
_END_HINTS: dict[EndedBy, str] = {
    "max_seeds": "用 --max-seeds 可以放宽",
    "case_seconds": "用 --pair-seconds 可以放宽",
    "run_seconds": "用 --pair-run-seconds 可以放宽",
}


def chinese_judge(result: CaseResult) -> str:
    """Write in Chinese the version that judged a case, and the seeds that it took; empty without another version."""
    paired = result.paired
    if paired is None:
        return ""
    problem = paired.problem if paired.cause is None else chinese_pair_problem(paired.cause)
    if paired.fell_back or result.baseline is None:
        return f"已存储的基线：{problem}"
    limit = f"；未用新种子：{problem}" if paired.cause else ""
    revision, commit = result.baseline.file.removeprefix("pair "), result.baseline.entry.commit
    version = f"提交 {commit[:8]}" if revision == commit else f"{revision}（{commit[:8]}）"
    kind = "个种子" if paired.end is None else "个新种子"
    return f"{version}，用 {paired.seeds} {kind}并排运行{limit}"


def chinese_pair_problem(cause: PairProblem) -> str:
    """Write in Chinese why two versions could not be compared, or not on fresh inputs."""
    match cause:
        case OtherVersionFailed(reason, message):
            return f"那个版本 {reason}：{message}"
        case OtherVersionInputs():
            return "那个版本从文件读取了不同的输入"
        case OtherVersionOutputs(absent):
            return f"那个版本没有 {', '.join(absent)}，或其 shape、dtype 不同"
        case KnownBadCase():
            return "声明为已知有错"
        case NoAcceptedVersion():
            return _no_version(cause)
        case FixedInputs():
            return "每个种子的输入都相同"
        case PresentVersionFailed(reason, message):
            return f"新输入上 {reason}：{message}"
        case UnsteadyVersion(output):
            return f"{output} 在相同输入上再次运行时比特不同；请声明 `deterministic: false`"
        case _:
            assert_never(cause)


def _no_version(fact: NoAcceptedVersion) -> str:
    texts = {
        "not_committed": f"没有提交包含 {fact.message} 中的当前条目；请提交基线",
        "shallow": "此克隆是浅克隆，可能没有那个提交；请设 GIT_DEPTH: 0，或运行 git fetch --unshallow",
        "no_git": f"git 没有给出提交：{fact.message}",
        "no_checkout": f"git 无法检出提交：{fact.message}",
        "no_workers": "--jobs 0 没有工作进程来运行另一个版本",
    }
    return texts[fact.cause]


def chinese_pair_fact(fact: PairFact, finding: Finding) -> str:
    """Write in Chinese what fresh inputs showed of one output, or of a case."""
    match fact:
        case WorseOnFreshInputs(commit, seeds):
            change = _change(finding, "增大", finding.ratio or 1.0)
            return f"在 {seeds} 个新种子上，相对 {commit[:8]}，{change}{_interval(finding)}"
        case BetterOnFreshInputs(commit, seeds):
            change = _change(finding, "减小", finding.ratio or 0.0)
            return f"在 {seeds} 个新种子上，相对 {commit[:8]}，{change}{_interval(finding)}"
        case NonFiniteOnFreshInputs(commit, seed, before, now):
            return f"新种子 {seed} 上有 {now} 个元素的 NaN 或无穷大不符，{commit[:8]} 有 {before} 个"
        case ClearOnFreshInputs(commit, seeds, same_bits=True):
            return f"比特与基线不同；在 {seeds} 个新种子上与 {commit[:8]} 逐位相同"
        case ClearOnFreshInputs(commit, seeds, _, output, metric, upper):
            bound = f"{output}：{metric} 最多增大到 {format_number(upper)} 倍 (95 %)"
            return f"比特有变化；在 {seeds} 个新种子上与 {commit[:8]} 并排运行，没有值得关注的损失：{bound}"
        case FailedOnFreshInputs(commit, failure):
            return f"{failure}，发生在 {commit[:8]} 能够计算的新输入上"
        case UnclearOnFreshInputs():
            return _unclear(fact)
        case _:
            assert_never(fact)


def _change(finding: Finding, verb: str, ratio: float) -> str:
    if finding.metric in _BIASES:
        return f"{finding.metric} {verb}了平均 |误差| 的 {format_number(abs(ratio - 1))}"
    return f"{finding.metric} {verb}到 {format_distinct([ratio, 1.0])[0]} 倍"


def _interval(finding: Finding) -> str:
    lower, upper = finding.lower or 0.0, finding.upper or 0.0
    if finding.metric in _BIASES:
        return f"（95 % 置信区间 {format_number(lower - 1)} 至 {format_number(upper - 1)}）"
    before, now = format_distinct([finding.baseline, finding.current])
    bounds = format_distinct([lower, upper, 1.0], 3)
    return f"（{before} -> {now}，95 % 置信区间 {bounds[0]} 至 {bounds[1]}）"


def _unclear(fact: UnclearOnFreshInputs) -> str:
    version, hint = f"与 {fact.commit[:8]} 并排运行", _END_HINTS[fact.ended_by]
    if not fact.metric:
        drawn = f"预算只够 {fact.seeds} 个新种子" if fact.seeds else "预算不够一个种子"
        return f"比特有变化，{version}，{drawn}；{hint}"
    growth = f"{fact.metric} 最多增大到 {format_number(fact.upper)} 倍"
    if fact.metric in _BIASES:
        growth = f"{fact.metric} 最多增大了平均 |误差| 的 {format_number(fact.upper - 1)}"
    others = fact.averages and fact.averages != fact.upper
    averages = f"，平均值最多 {format_number(fact.averages)} 倍" if others else ""
    seeds = f"约需 {fact.needed} 个种子才能发现 {format_number(fact.detectable)} 倍的损失；" if fact.needed else ""
    state = f"{fact.seeds} 个新种子{version}，既不能证明也不能排除值得关注的损失"
    return f"比特有变化；{state}：{growth}{averages} (95 %)；{seeds}{hint}"
