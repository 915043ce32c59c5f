"""Which Chinese sentence states a finding on a run: changed criteria, cumulative loss, combined loss?"""

from __future__ import annotations

from typing import assert_never

from precreg.report.chinese.findings import SIDES_ZH
from precreg.types import (
    AnalyzerDropped,
    BaselineChanged,
    BaselineFact,
    BaselineRemoved,
    BenchmarkReplaced,
    BorrowedBaseline,
    CaseFact,
    CaseIntroduced,
    CaseRedefined,
    CaseRemoved,
    CaseRenamed,
    CloserBaseline,
    CombinedLoss,
    DeclarationDropped,
    ExpectFailureAdded,
    FirstBaseline,
    HistoryRemoved,
    KnownBadAccepted,
    LooserLimit,
    LooserScope,
    LooserTime,
    LossFact,
    LoweredCount,
    OracleBesideSubject,
    OracleCodeChanged,
    OracleFact,
    OracleFilesChanged,
    OracleFollowsSubject,
    OraclePatched,
    OracleResults,
    OracleResultsChanged,
    OracleUncompared,
    PooledLoss,
    RunFinding,
    SettingFact,
    SkipAdded,
    ThresholdsFreed,
    UnreadableBase,
    UnusedAllowance,
    format_distinct,
)

_LIMIT_DIGITS = 6
_PARTS = {
    "analyzers": "分析器的指标",
    "environments": "见过其比特的环境减少",
    "extension": "追加的种子或指标，而此次运行度量了别的",
    "known": "已知有错的状态",
    "bits": "比特",
    "metrics": "指标",
    "sums": "各组的和",
    "sketch": "误差分布",
    "seeds": "种子",
}
_SCOPES = {"": "其他输出", "generic": "其他环境"}


def chinese_run_finding(finding: RunFinding) -> str:
    """Write the sentence of a finding on a run in Chinese; its stored words if it has no facts."""
    fact = finding.fact
    if fact is None:
        return finding.message
    if isinstance(fact, BaselineFact):
        return _baseline(fact, finding.factor)
    if isinstance(fact, CaseFact):
        return _case(fact)
    if isinstance(fact, SettingFact):
        return _setting(fact)
    if isinstance(fact, LossFact):
        return _loss(fact)
    match fact:
        case LooserLimit():
            scopes = "；".join(map(_scope, fact.scopes))
            return f"{_limit(fact)}{f'（{scopes}）' if scopes else ''}"
        case ThresholdsFreed():
            return "新增了 allow_looser_thresholds：PRECISION_THRESHOLDS 可以取代任何界限"
        case UnreadableBase(problem, files):
            several = f"{files} 个文件" if files > 1 else ""
            return f"{several}无法按 base 中的内容读取，因此使用 HEAD 自己的标准：{problem}"
        case UnusedAllowance(change, case, merged):
            rest = "已合并：该条目不再允许任何改动，请删除" if merged else "被允许，但没有用到：请删除该条目"
            return f"{case} 的 {change} {rest}"
        case _:
            assert_never(fact)


def _baseline(fact: BaselineFact, factor: float | None) -> str:
    match fact:
        case BaselineRemoved(file, date):
            return f"{date or '日期不明'} 接受的基线已从 {file} 中删除"
        case BaselineChanged(file, parts, metric, output):
            changed = f"{file} 中的基线已改变：{'，'.join(_PARTS.get(part, part) for part in parts)}"
            grew = "" if factor is None else f"；{output} 的 {metric} 为已接受值的 {factor:.3g} 倍"
            return f"{changed}{grew}"
        case KnownBadAccepted(file, why):
            return f"{file} 新接受了一个错误的结果，作为已知有错：{why}"
        case HistoryRemoved(file):
            return f"{file} 中的已接受值被删除：小的损失可能在不知不觉中累积"
        case FirstBaseline(environment):
            return f"在 {environment} 中首次有基线，那里由 HEAD 的基线判定"
        case CloserBaseline(file, former):
            return f"{file} 是新的，优先于以前用来判定的 {former} 的基线"
        case BorrowedBaseline(lender, former):
            return f"由 {lender} 的基线判定，以前由{f' {former} ' if former else '自己'}的基线判定"
        case _:
            assert_never(fact)


def _case(fact: CaseFact) -> str:
    if isinstance(fact, OracleFact):
        return _oracle(fact)
    match fact:
        case CaseRemoved(source):
            return f"已从 {source} 中删除"
        case CaseRenamed(former):
            return f"是 {former} 的新名称，由其基线判定"
        case CaseIntroduced():
            return "是新用例：由 HEAD 的基线判定"
        case CaseRedefined(parts):
            return f"名称未变但计算内容不同：{', '.join(parts)} 已改变；由 HEAD 的基线判定"
        case _:
            assert_never(fact)


def _oracle(fact: OracleFact) -> str:
    match fact:
        case OracleFilesChanged(role, files, results):
            return f"{_role(role)}的文件已改变：{', '.join(files)}{_results(results)}"
        case OracleCodeChanged(role, code, results):
            return f"{_role(role)}的代码 {code} 已改变{_results(results)}"
        case OracleResultsChanged(role, results):
            return f"{_role(role)}的比特与此环境基线中的不同，没有文件能说明原因{_results(results)}"
        case OracleFollowsSubject(role, files):
            return f"{_role(role)}新打开了被测对象的文件，而其代码中看不出：{', '.join(files)}"
        case OracleBesideSubject(role, seed):
            return f"种子 {seed} 下，{_role(role)}与被测对象同进程时的比特不同于单独进程"
        case BenchmarkReplaced(before, now):
            return f"其基准实现现为 {now}，以前为 {before}"
        case OraclePatched(role, attributes):
            return f"被测对象修改了{_role(role)}可能用到的内容：{', '.join(attributes)}"
        case _:
            assert_never(fact)


def _role(role: str) -> str:
    return f"其{SIDES_ZH.get(role, role)}"


def _results(results: OracleResults | None) -> str:
    if results is None:
        return ""
    if isinstance(results, OracleUncompared):
        return f"；两个版本的结果无法比较：{_uncompared(results)}"
    where = f"种子 {results.seed} 的 {results.output}"
    if results.place is None:
        return f"；{where} 在一个版本中缺失，或 shape、dtype 不同"
    size = "NaN 或无穷大不符" if results.ulp is None else f"最多相差 {results.ulp:.4g} ULP"
    place = f"，首个位于 {list(results.place)}" if results.place else ""
    return f"；{where} 的 {results.size} 个元素中有 {results.differing} 个与 base 不同，{size}{place}"


def _uncompared(results: OracleUncompared) -> str:
    match results.cause:
        case "base_failed":
            return f"base 的版本失败：{results.message}"
        case "failed":
            return f"当前版本失败：{results.message}"
        case "not_started":
            return results.message
        case "other_inputs":
            return "输入不同"
        case "foreign_files":
            return f"base 的版本打开了工作区的 {results.message}"
        case "unsteady":
            return "再次运行时比特不同"
        case "no_time":
            return "一次运行中全部参考实现的时间已用完"
        case _:
            assert_never(results.cause)


def _setting(fact: SettingFact) -> str:
    match fact:
        case LoweredCount(setting, now, before):
            return f"{setting}: {now}，以前为 {before}"
        case AnalyzerDropped(analyzer):
            return f"分析器 {analyzer} 不再度量它"
        case ExpectFailureAdded(why):
            return f"新增了 expect: fail：{why}"
        case DeclarationDropped("exact"):
            return "删除了 exact: true：比特不同不再算回归"
        case DeclarationDropped():
            return "新增了 deterministic: false：重复运行可以不同"
        case LooserTime(setting, before, now):
            unit = " s" if setting == "timeout" else ""
            longer = f"没有 {setting}" if now is None else f"{setting}: {now:g}{unit}"
            return f"{longer}，以前为 {before:g}{unit}"
        case SkipAdded("requires", name):
            return f"现在要求 {name}，没有时跳过"
        case SkipAdded(_, name):
            return f"失去了标签 {name}：按此标签筛选时不再包含该用例"
        case _:
            assert_never(fact)


def _loss(fact: LossFact) -> str:
    if isinstance(fact, CombinedLoss):
        grew = f"{fact.metric} 为基线的 {fact.factor:.4g} 倍，至少 {fact.lower:.4g}"
        kind = f"（{'小输出' if fact.small else '输出'} {fact.dtype}）" if fact.small or fact.dtype else ""
        return f"{fact.cases} 个用例{kind}合计：{grew}（p 值 {fact.p_value:.2g}）"
    if isinstance(fact, PooledLoss):
        grew = f"{fact.metric} 为已接受版本的 {fact.factor:.4g} 倍，至少 {fact.lower:.4g}"
        return f"{fact.cases} 个 {fact.dtype} 用例在新输入上合计：{grew}（p 值 {fact.p_value:.2g}）"
    since = f"{fact.date}（{fact.reason}）" if fact.reason else fact.date
    sure = f"至少 {fact.lower:.4g}" if fact.lower else "样本太少，无法与噪声区分"
    allowed = "" if fact.allowed is None else f"；允许 {fact.allowed:.4g} 倍"
    return (
        f"{fact.output} 的 {fact.metric} 为 {since} 接受值的 {fact.factor:.4g} 倍（{sure}），"
        f"分 {fact.steps} 步：{fact.before:.4g} -> {fact.current:.4g}{allowed}"
    )


def _limit(fact: LooserLimit) -> str:
    key, old, new = fact.key, fact.before, fact.now
    if fact.sort == "alternatives":
        if new is None:
            return f"不再要求满足任何备选条件，以前须满足 {_value(old)} 个之一"
        return f"备选条件 {new:g} 现在即可，且弱于以前的每一个"
    if fact.sort == "region":
        return f"{key} 为 {_value(new)}，以前为 {_value(old)}：计入的元素不同"
    has, had = format_distinct([new, old], _LIMIT_DIGITS)
    if fact.sort == "growth":
        return f"{key} 已关闭，以前允许 {had}" if new is None else f"{key} 允许 {has}，以前允许 {had}"
    relation = "不小于" if fact.at_least else "不大于"
    now = "不受限制" if new is None else f"须{relation} {has}"
    return f"{key} {now}，以前须{relation} {had}"


def _value(value: float | None) -> str:
    return "内置值" if value is None else f"{value:g}"


def _scope(scope: LooserScope) -> str:
    more = f"，另有 {scope.others} 个" if scope.others else ""
    return ", ".join(_SCOPES.get(name, name) for name in scope.names) + more
