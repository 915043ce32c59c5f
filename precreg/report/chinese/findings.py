"""Which Chinese sentences state a verdict, its findings, and the environment of its baseline?

Each sentence is written from the facts, with the numbers of the English one. Words of exceptions stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import assert_never

from precreg.measure import METRICS
from precreg.report.chinese.pairs import chinese_pair_fact
from precreg.report.findings import describe_finding
from precreg.types import (
    STATISTIC,
    AbsenceFact,
    AbsentArray,
    AbsentFigures,
    AbsentOutput,
    Baseline,
    BitsNotExact,
    Bound,
    BoundsHold,
    BrokenBound,
    BrokenLimit,
    ChangedBits,
    ChangedEnvironment,
    DefinitionChanged,
    EnvironmentDifference,
    EnvironmentFact,
    ExactnessGained,
    ExactnessLost,
    FigureMoved,
    Finding,
    InputsChanged,
    JudgeFact,
    KnownBadFact,
    KnownBadFixed,
    LargestRatio,
    MatchesLost,
    MaximaGrew,
    MetricGrew,
    MetricImproved,
    NewOutput,
    NoAlternative,
    NoBaseline,
    NoCommonName,
    NoElement,
    NoFinitePair,
    NonFiniteElements,
    NonFiniteFigures,
    NonFiniteMoved,
    NothingCompared,
    NotRegressed,
    OtherDtype,
    OtherShape,
    PairFact,
    PassFact,
    RatioMoved,
    Reason,
    RegressionFact,
    RepeatDifference,
    RoundingLost,
    SameBits,
    SameDescription,
    SameElements,
    SideContents,
    SmallOutputGrew,
    StructureFact,
    TimeGrew,
    UndeclaredDifference,
    UnknownEnvironment,
    Verdict,
    format_distinct,
)
from precreg.verdict.statistics import MIN_SAMPLES

# Sides of a comparison; another name stays as it is.
SIDES_ZH = {
    "actual": "实际结果",
    "reference": "参考实现",
    "golden": "golden",
    "benchmark": "基准实现",
    "baseline": "基线",
    "accepted version": "已接受版本",
}


def chinese_verdict(verdict: Verdict) -> str:
    """Write the message of a verdict in Chinese; the stored words if a finding has no facts."""
    if not verdict.findings or any(each.fact is None for each in (verdict.findings[0], *verdict.excused[:1])):
        return verdict.message
    first = verdict.findings[0]
    # A record of another version may state the same facts in other words, and those were shown to its reader.
    if describe_finding(first) not in verdict.message:
        return verdict.message
    named = not first.output or first.reason is Reason.NONDETERMINISTIC
    text = chinese_finding(first) if named else f"{first.output}：{chinese_finding(first)}"
    is_known_bad = bool(verdict.excused) or isinstance(first.fact, NonFiniteMoved)
    if first.reason is Reason.REGRESSED and not is_known_bad:
        text += "，但仍在容差内"
    if verdict.excused:
        more = f" 等共 {len(verdict.excused)} 项" if verdict.excused[1:] else ""
        excused = f"{verdict.excused[0].output}：{chinese_finding(verdict.excused[0])}{more}"
        text += f"；已知有错（{verdict.known_bad}）：{excused}"
    if verdict.accepted_in is not None:
        change = chinese_environment_difference(verdict.accepted_in.difference)
        text += f"；所用基线属于 {verdict.accepted_in.environment}，在其他环境中接受：{change}"
    if verdict.reason is Reason.EXPECTED_FAILURE:
        return f"如声明所述失败（{verdict.declared}）：{verdict.underlying}：{text}"
    if verdict.reason is Reason.UNEXPECTED_PASS:
        return f"声明为已知有错（{verdict.declared}），却通过了：{text}；请删除 expect: fail"
    return text


def chinese_finding(finding: Finding) -> str:
    """Write the sentence of a finding in Chinese, without its output and its seed."""
    fact = finding.fact
    if fact is None:
        return finding.message
    if isinstance(fact, AbsenceFact):
        return _absence(fact, finding.output)
    if isinstance(fact, StructureFact):
        return _structure(fact)
    if isinstance(fact, BrokenBound | NoAlternative):
        return _broken_bound(fact, finding)
    if isinstance(fact, JudgeFact):
        return _missing_judge(fact, finding.output)
    if isinstance(fact, RegressionFact):
        return _regression(fact, finding)
    if isinstance(fact, PairFact):
        return chinese_pair_fact(fact, finding)
    if isinstance(fact, KnownBadFact):
        return _known_bad(fact)
    return _pass(fact)


def _known_bad(fact: KnownBadFact) -> str:
    match fact:
        case NonFiniteMoved():
            now = f"{fact.nan_now} 个元素的 NaN 不符，{fact.inf_now} 个元素的无穷大不符"
            return f"{now}；已知有错的基线中分别为 {fact.nan_before} 个和 {fact.inf_before} 个"
        case KnownBadFixed(why):
            return f"全部界限都满足；该基线是作为已知有错接受的（{why}），请接受一条普通基线"
        case _:
            assert_never(fact)


def _absence(fact: AbsenceFact, output: str) -> str:
    match fact:
        case AbsentOutput("baseline"):
            return f"基线中有输出 {output!r}，现在没有了"
        case AbsentOutput(side):
            return f"被测对象没有给出输出 {output!r}，而{_side(side)}有"
        case AbsentFigures():
            return chinese_recorded(fact)
        case NothingCompared():
            return "没有可比较的内容：双方都没有输出"
        case AbsentArray(side, array):
            return f"{_side(side)}一侧没有数组 {array!r}"
        case NoCommonName(actual, reference):
            return f"没有可比较的内容：双方没有同名数组（{_contents(actual)}；{_contents(reference)}）"
        case _:
            assert_never(fact)


def _structure(fact: StructureFact) -> str:
    match fact:
        case OtherShape(expected, actual, "baseline"):
            return f"基线的 shape 为 {_shape(expected)}，实际为 {_shape(actual)}"
        case OtherShape(expected, actual):
            return f"应为 shape {_shape(expected)}，实际为 shape={_shape(actual)}"
        case OtherDtype(expected, actual, side):
            return f"{_side(side)}的 dtype 为 {expected}，实际为 dtype={actual}"
        case NonFiniteElements(differing, size, first):
            counted = f"{size} 个元素中有 {differing} 个的 NaN 或无穷大不符"
            if first is None:
                return counted
            return f"{counted}，首个位于 {first.index}：实际值 {first.actual}，参考值 {first.reference}"
        case NonFiniteFigures():
            return chinese_recorded(fact)
        case NoElement(shape):
            return f"shape {_shape(shape)} 没有元素"
        case NoFinitePair():
            return "没有一对元素是有限值，因此无法度量误差"
        case _:
            assert_never(fact)


def _side(side: str) -> str:
    return SIDES_ZH.get(side, side)


def _contents(contents: SideContents) -> str:
    more = f"，另有 {contents.others} 个" if contents.others else ""
    return f"{_side(contents.side)}有 {', '.join(contents.arrays) or '0 个数组'}{more}"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _broken_bound(fact: BrokenBound | NoAlternative, finding: Finding) -> str:
    if isinstance(fact, BrokenBound):
        broken = _limit(fact.broken)
    else:
        facts = "；或 ".join("，且 ".join(map(_limit, each)) for each in fact.alternatives)
        broken = f"{len(fact.alternatives)} 个备选条件都不满足：{facts}"
    return f"{broken}（{fact.layer}, {finding.source}）{_closeness(fact.closeness)}"


def _limit(broken: BrokenLimit) -> str:
    unknown = "为无穷大" if broken.error and broken.benchmark_error == 0 else "在此数据上没有定义"
    if (metric := METRICS.get(broken.metric)) is not None and metric.needs_samples:
        unknown = "需要实数输出，并在套件中写 stochastic:"
    unknown = "需要基准实现" if broken.lacks_benchmark else unknown
    got = unknown if broken.current is None else f"为 {broken.current:.7g}"
    relation = "不小于" if broken.at_least else "不大于"
    return f"{broken.metric} {got}{_two_errors(broken)}，应{relation} {broken.limit:.7g}"


def _two_errors(broken: BrokenLimit) -> str:
    if broken.error is None or broken.benchmark_error is None:
        return ""
    error, other, floor = format_distinct([broken.error, broken.benchmark_error, broken.floor])
    return f"（{error}，基准实现为 {other}{f'，按 {floor} 计' if floor else ''}）"


def _closeness(closeness: Sequence[Bound]) -> str:
    limits = ", ".join(f"{bound.metric}={bound.limit:g} ({bound.source})" for bound in closeness)
    return f"，条件 {limits}" if limits else ""


def _missing_judge(fact: JudgeFact, output: str) -> str:
    match fact:
        case NoBaseline(environments):
            return f"{', '.join(environments)} 中没有基线"
        case NewOutput(file):
            return f"输出 {output!r} 在 {file} 中没有基线"
        case DefinitionChanged(file):
            return f"自 {file} 被接受以来，用例的定义已改变（subject、reference、params 或 inputs）"
        case InputsChanged(file):
            return f"自 {file} 被接受以来，输入已改变，定义未变"
        case _:
            assert_never(fact)


def _regression(fact: RegressionFact, finding: Finding) -> str:
    current, baseline = (inf if value is None else value for value in (finding.current, finding.baseline))
    match fact:
        case BitsNotExact():
            return "用例声明为 exact，但比特与基线不同"
        case ExactnessLost() | ExactnessGained():
            return _exactness(fact, finding.metric, current, baseline)
        case MatchesLost(tested):
            counts = "超出了各次运行之间的差异" if tested else "任何下降都算回归"
            return f"相对 golden 的 {finding.metric} 从 {baseline:.7g} 降到 {current:.7g}；{counts}"
        case RatioMoved():
            return _ratio(finding, fact.judge) + _maximum(fact)
        case MetricGrew() | MetricImproved() | SmallOutputGrew() | MaximaGrew():
            return _growth(fact, finding, current, baseline) + _grown_seeds(fact)
        case FigureMoved():
            return _figure(fact, finding, current, baseline)
        case TimeGrew():
            times = f"是基线 {baseline:.3g} s 的 {current / baseline:.3g} 倍"
            return f"被测对象耗时 {current:.3g} s，{times}"
        case UndeclaredDifference(first, difference):
            begins = f"差异始于输出 {finding.output!r}" if first else "同样有差异"
            return f"{begins}{chinese_repeat_difference(difference)}"
        case _:
            assert_never(fact)


def _exactness(fact: ExactnessLost | ExactnessGained, metric: str, current: float, baseline: float) -> str:
    gained = isinstance(fact, ExactnessGained)
    if fact.judge == "benchmark":
        exact, other, error = ("输出", "基准实现", baseline) if gained else ("基准实现", "输出", current)
        return f"{exact}完全精确，而{other}不是：其 {metric} 为 {error:.4g}"
    if gained:
        return f"输出在每个种子下都完全精确，以前不是：{metric} 为 0，以前为 {baseline:.4g}"
    return f"输出以前在每个种子下都完全精确，现在不是：{metric} 以前为 0，现在为 {current:.4g}"


def _growth(
    fact: MetricGrew | MetricImproved | SmallOutputGrew | MaximaGrew, finding: Finding, current: float, baseline: float
) -> str:
    if finding.ratio is None:
        return f"{finding.metric} 以前为 {baseline:.4g}，现在为 {current:.4g}"
    times, allowed, _ = format_distinct([finding.ratio, finding.limit, 1.0], 3)
    figures = " -> ".join(format_distinct([baseline, current]))
    limit = "算作改善的界限" if isinstance(fact, MetricImproved) else "允许"
    judge = "baseline" if isinstance(fact, MaximaGrew) else fact.judge
    return f"{finding.metric} {_change(finding.ratio, times, judge)}（{figures}，{limit} {allowed} 倍）"


def _change(ratio: float, times: str, judge: str) -> str:
    return f"{'降到' if ratio < 1 else '增大到'}{_side(judge)}的 {times} 倍"


def _grown_seeds(fact: MetricGrew | MetricImproved | SmallOutputGrew | MaximaGrew) -> str:
    match fact:
        case MetricGrew() | MetricImproved():
            return ""
        case SmallOutputGrew(elements, seeds):
            return f"，{seeds} 个种子，每个 {elements} 个元素"
        case MaximaGrew(larger, seeds):
            return f"：{seeds} 个种子中有 {larger} 个超过基线的全部最大值"
        case _:
            assert_never(fact)


def _ratio(finding: Finding, judge: str) -> str:
    ratio, lower, upper, floor, min_ratio = (
        inf if value is None else value
        for value in (finding.ratio, finding.lower, finding.upper, finding.floor, finding.limit)
    )
    known = finding.current is not None and finding.baseline is not None
    figures = f"{' -> '.join(format_distinct([finding.baseline, finding.current]))}，" if known else ""
    if METRICS[finding.metric].scale == "signed":
        verb, growth = ("增大了", ratio - 1) if ratio >= 1 else ("减小了", 1 - ratio)
        bounds = sorted((abs(lower - 1), abs(upper - 1)))
        interval = f"介于 {bounds[0]:.3g} 与 {bounds[1]:.3g} 之间"
        return f"{finding.metric} {verb} |d| 均值的 {growth:.3g}（{figures}{interval}）"
    noise = f"可达 {format_distinct([floor, ratio, 1.0], 3)[0]} 倍" if floor < inf else "没有上界"
    change = f"{finding.metric} {_change(ratio, format_distinct([ratio, floor, 1.0], 4)[0], judge)}"
    scale = "，按各元素的量级计" if METRICS[finding.metric].unit != "value" else ""
    typical = "，就典型的一组元素而言" if isinstance(finding.fact, RatioMoved) and finding.fact.typical else ""
    return f"{change}{scale}{typical}（{figures}{_interval(lower, upper, min_ratio)}；单凭噪声{noise}）"


def _interval(lower: float | None, upper: float | None, min_ratio: float) -> str:
    least, most = (format_distinct([bound, min_ratio, 1.0], 3)[0] for bound in (lower, upper))
    return f"介于 {least} 与 {most} 之间"


def _maximum(fact: RatioMoved) -> str:
    before, now = fact.maximum_before, fact.maximum_now
    if before is None or now is None:
        return ""
    times = f"，为 {now / before:.3g} 倍" if before else ""
    return f"；其最大值从 {before:.4g} 升到 {now:.4g}{times}"


def _figure(fact: FigureMoved, finding: Finding, current: float, baseline: float) -> str:
    figures = " -> ".join(format_distinct([baseline, current]))
    if finding.ratio is None:
        return f"{finding.metric} 有变化（{figures}），仅凭数值判定"
    times, allowed, _ = format_distinct([finding.ratio, finding.limit, 1.0], 3)
    error = f"1 - {finding.metric}" if fact.rest else f"误差 {finding.metric}"
    verb, limit = ("减小到", "算作改善的界限") if fact.improved else ("增大到", "允许")
    return f"{error} {verb}基线的 {times} 倍（{figures}；{limit} {allowed} 倍），仅凭数值判定"


def chinese_recorded(fact: AbsentFigures | NonFiniteFigures) -> str:
    """Write in Chinese which figures of a row are absent or not finite, or that the table lacks the row."""
    if isinstance(fact, NonFiniteFigures):
        values = "，".join(f"{metric} 为 {text}" for metric, text in fact.figures.items())
        return f"该行含有非有限数值：{values}（{fact.place}）"
    if not fact.place.line:
        why = "扫描提前结束，或该行已删除：precreg baseline prune"
        return f"{fact.place} 没有此用例的行，而其基线有（{why}）"
    return f"该行没有 {', '.join(fact.metrics)} 的数值（{fact.place}）：单元格为空"


def _pass(fact: PassFact) -> str:
    match fact:
        case SameBits(seeds, runs):
            others = "" if seeds is None else f"；从种子 {seeds} 起没有基线"
            return f"每个输出都与基线逐位相同{others}{_agreement(runs)}"
        case NotRegressed():
            evidence = _unjudged(fact) if fact.largest is None else _largest(fact.largest)
            lost = "".join(map(_rounding_loss, fact.rounding))
            return f"{_bits(fact.bits)}，{evidence}{lost}{_agreement(fact.runs)}"
        case SameElements():
            return "每个元素在实际结果的 dtype 中都与参考值逐位相同"
        case BoundsHold():
            return "全部界限都满足"
        case _:
            assert_never(fact)


def _agreement(runs: int | None) -> str:
    return "" if runs is None else f"；每个种子的 {runs} 次运行都一致，或许不需要 `deterministic: false`"


def _bits(bits: ChangedBits) -> str:
    match bits.cause:
        case "change":
            return "比特有变化"
        case "undecided":
            return "如声明所述，各次运行的比特可能不同"
        case "repeats":
            return f"如声明所述，重复运行有差异，始于输出 {bits.output!r}{chinese_repeat_difference(bits.difference)}"
        case _:
            assert_never(bits.cause)


def _largest(largest: LargestRatio) -> str:
    ratio = inf if largest.ratio is None else largest.ratio
    interval = _interval(largest.lower, largest.upper, largest.min_ratio)
    times = f"{format_distinct([ratio, 1.0, 1.0], 4)[0]} 倍，{interval}"
    return f"没有变差的被判定指标：{largest.output}：{largest.metric} 为基线的 {times}"


def _rounding_loss(lost: RoundingLost) -> str:
    before, now = (f"{100 * share:.4g} %" for share in (lost.baseline, lost.current))
    seeds = "其种子下" if lost.seeds == 1 else f"{lost.seeds} 个种子下都"
    chance = f"符号检验 p = {lost.p_value:.2g}"
    return f"；{lost.output}：正确舍入的元素 {before} -> {now}，{seeds}减少（{chance}）"


def _unjudged(fact: NotRegressed) -> str:
    causes = {"few_samples": f"样本少于 {MIN_SAMPLES} 个", "statistic_off": f"{STATISTIC} 已关闭"}
    causes |= {"figures_alone": "只有数值，其噪声未知"}
    alone = "；".join(f"{', '.join(each.outputs)}：{causes[each.cause]}" for each in fact.unjudged)
    return f"{alone}，因此只用{'界限和阈值' if fact.has_thresholds else '界限'}判定"


def chinese_repeat_difference(difference: RepeatDifference | None) -> str:
    """Write in Chinese where an output of a later run differs from the first run's; empty if it is unknown."""
    if difference is None:
        return ""
    runs = f"种子 {difference.seed} 的第 1 次与第 {difference.repeat} 次运行之间"
    if difference.place is None:
        return f"：其中一次没有该输出，或 shape、dtype 不同，{runs}"
    place = f"，位于 {list(difference.place)}" if difference.place else ""
    return f"{place}：{difference.size} 个元素中有 {difference.differing} 个不同，{_extent(difference)}，{runs}"


def _extent(difference: RepeatDifference) -> str:
    strange = f"其中 {difference.non_finite} 个为 NaN 或无穷大" if difference.non_finite else ""
    if difference.largest is None:
        return strange or "差值超出 float64 的范围"
    largest = f"差值最大 {difference.largest:.3g}" if difference.largest else "只有比特不同"
    return f"{strange}，{largest}" if strange else largest


def chinese_environment_change(baseline: Baseline) -> str:
    """Write in Chinese the difference between the environments of a baseline and of the run; empty without one."""
    return baseline.change if baseline.difference is None else chinese_environment_difference(baseline.difference)


def chinese_environment_difference(difference: EnvironmentDifference) -> str:
    """Write the differing facts of two environments in Chinese."""
    match difference:
        case ChangedEnvironment(facts):
            return "，".join(map(_environment_fact, facts))
        case UnknownEnvironment(fingerprint):
            return f"没有保存环境 {fingerprint} 的信息"
        case SameDescription(before, now):
            return f"环境 {before} 与 {now} 的描述相同"
        case _:
            assert_never(difference)


def _environment_fact(fact: EnvironmentFact) -> str:
    name, before, now = fact.name, fact.before, fact.now
    if before is None or now is None:
        return f"{name} {now} 为新增" if before is None else f"{name} {before} 已没有"
    if name != "cpu_features":
        return f"{name} {before} -> {now}"
    had, has = before.split(), now.split()
    gone = " ".join(each for each in had if each not in has)
    new = " ".join(each for each in has if each not in had)
    changes = (f"{word} {features}" for word, features in (("没有", gone), ("多出", new)) if features)
    return f"{name} {'，'.join(changes) or '顺序不同'}"
