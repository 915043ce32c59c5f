"""Which Chinese sentences do the warnings of a run and its reused outcomes have?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from precreg.errors import nearest
from precreg.tolerance import THRESHOLDS_VARIABLE
from precreg.types import (
    AtolBelowHalfUlp,
    ClusterWarning,
    ComparisonWarning,
    EmptyPasses,
    LostWorkers,
    MissingBenchmark,
    NarrowPart,
    NarrowReference,
    Orphan,
    OtherWorkers,
    RefusedWorker,
    ReusedOutcomes,
    RtolBelowUlp,
    RunWarning,
    SameOracles,
    ShadowingFiles,
    SkippedFiles,
    StoredText,
    ToleranceFact,
    ToleranceWarning,
    UncheckedBounds,
    UnclaimedFiles,
    UnkeptReason,
    UnknownCommit,
    UnlistedDtype,
    UnmatchedOutput,
    UnmeasuredBenchmark,
    UnmetThreshold,
    UnwritableFolder,
    VacuousTolerance,
)


def chinese_orphan(orphan: Orphan | StoredText) -> str:
    """Name in Chinese a baseline without a case."""
    if isinstance(orphan, StoredText):
        return orphan.text
    return f"{orphan.file} 中的 {orphan.case}{f'（现为 {orphan.renamed}）' if orphan.renamed else ''}"


def chinese_warning(warning: RunWarning | ComparisonWarning) -> str:
    """Write the sentence of a warning in Chinese."""
    match warning:
        case StoredText(text):
            return text
        case ToleranceWarning(case, fact, outputs):
            return "：".join(filter(None, (case, ", ".join(outputs), _tolerance_fact(fact))))
        case UnmetThreshold():
            return _threshold(warning)
        case UnknownCommit(problem):
            return f"提交未知：{problem}"
        case UnwritableFolder(folder):
            return f"无法写入 {folder}/：此次运行没有可供恢复的日志，也不提出任何新基线"
        case SameOracles(cases, fresh):
            changed = f"{cases} 个用例的参考实现或 golden 自 base 以来可能有改动"
            return f"{changed}；其结果在全部种子和 {fresh} 个新种子上逐位相同"
        case NarrowReference() | NarrowPart() | EmptyPasses():
            return _reference(warning)
        case MissingBenchmark() | UnmeasuredBenchmark() | ShadowingFiles() | UnclaimedFiles() | SkippedFiles():
            return _files(warning)
        case LostWorkers() | RefusedWorker() | OtherWorkers():
            return _cluster(warning)
        case _:
            assert_never(warning)


def _cluster(warning: ClusterWarning) -> str:
    match warning:
        case LostWorkers(workers, retried, given_up):
            ended = f"；{given_up} 项被放弃" if given_up else ""
            return f"运行期间失去了 {len(workers)} 个 worker（{', '.join(workers)}）；{retried} 项在别处重新运行{ended}"
        case RefusedWorker(worker, "failure", there):
            return f"未使用 worker {worker}：{there}"
        case RefusedWorker(worker, subject, there, here):
            named = {"precreg": "precreg", "project": "项目"}.get(subject, subject)
            return f"未使用 worker {worker}：其 {named} 为 {there}，此次运行为 {here}"
        case OtherWorkers(cases, worker, facts, workers):
            others = f"及另外 {workers - 1} 个" if workers > 1 else ""
            return f"{cases} 个用例在另一环境的 worker 上运行：{worker}{others}：{', '.join(facts)}"


_RAN_BECAUSE: dict[UnkeptReason, str] = {
    "new": "是新用例或运行条件已变",
    "changed": "有改动",
    "changed_meanwhile": "的文件在运行期间被改动",
    "failed": "执行失败",
    "unavailable": "缺少所需条件",
    "left_changes": "改变了所在进程",
    "nondeterministic": "声明为不确定",
    "timed": "测量时间",
    "undeclared": "的种类未声明依赖",
    "network": "使用网络",
    "programs": "启动其他程序",
    "deleted_library": "加载的库已被替换",
    "unreadable": "使用文件的方式无法追踪",
}


def chinese_reuse(fact: ReusedOutcomes) -> str:
    """Count in Chinese the cases that reused an outcome, and the others by the reason why they ran."""
    reused = f"{fact.cases} 个用例沿用了早先运行的结果（最早为 {fact.oldest}），因为其依赖均未改动"
    number = sum(count for _, count in fact.ran)
    reasons = "，".join(f"{count} 个{_RAN_BECAUSE[reason]}" for reason, count in fact.ran)
    return f"{reused}；{number} 个重新运行{f'：{reasons}' if reasons else ''}"


def _files(
    warning: MissingBenchmark | UnmeasuredBenchmark | ShadowingFiles | UnclaimedFiles | SkippedFiles,
) -> str:
    match warning:
        case ShadowingFiles(files, others):
            return f"文件与 Python 模块或库同名，import 可能误取：{_first_of(files, others)}"
        case UnclaimedFiles(files, others):
            named = [file if file.isprintable() else ascii(file) for file in files]
            counted = f"{len(files) + others} 个有改动的文件不属于任何用例"
            return f"{counted}：{_first_of(named, others)}；套件用 depends: 认领文件"
        case SkippedFiles(files, others):
            return f"略过了不是数组格式的文件：{_first_of(files, others)}"
        case MissingBenchmark(benchmark, pairs, others):
            return f"{benchmark} 没有以下数组：{_first_of(pairs, others)}"
        case UnmeasuredBenchmark(pair, problem):
            return f"{pair}：没有基准实现：{problem}"


def _first_of(names: Iterable[str], others: int) -> str:
    return f"{', '.join(names)}{f'，另有 {others} 个' if others else ''}"


def _reference(warning: NarrowReference | NarrowPart | EmptyPasses) -> str:
    cases = f"{warning.case}{'' if warning.cases == 1 else f'，另有 {warning.cases - 1} 个'}"
    if isinstance(warning, EmptyPasses):
        return f"{cases}：golden 有不含有限元素的输出，那里只比较 shape、dtype、NaN 和无穷大"
    if isinstance(warning, NarrowPart):
        return f"{cases}：参考实现有一部分精度较低（{warning.part}）"
    causes = {
        "asked": "这是 reference_dtype: float64 所要求的；mpmath 更宽",
        "kind": "因为其种类最多以 float64 计算；用 reference: 指定其他种类可得到更宽的",
        "platform": "因为此平台的 longdouble 就是 float64；reference_dtype: mpmath 更宽",
    }
    return f"{cases}：参考实现不比 float64 输出更宽，误差包含参考实现自身的误差，{causes[warning.cause]}"


def _tolerance_fact(fact: ToleranceFact) -> str:
    match fact:
        case UncheckedBounds(metrics, source, table):
            return f"{table} 没有 {', '.join(metrics)} 的数值，{source} 对它们的界限无法检查"
        case UnlistedDtype(standard, dtype):
            return f"标准 {standard} 没有 {dtype} 的界限，因此使用其下各层的界限"
        case RtolBelowUlp(rtol, source, dtype, ulp):
            return f"rtol={rtol:g} ({source}) 小于 {dtype} 的 1 ULP ({ulp:g})：仅舍入就可能超出"
        case AtolBelowHalfUlp(atol, source, dtype, half_ulp, magnitude):
            below = f"rtol=0，atol={atol:g} ({source}) 小于 {dtype} 的半个 ULP ({half_ulp:g})"
            return f"{below}（|r| 平均为 {magnitude:.3g}）：只有无需舍入的结果才能通过"
        case VacuousTolerance(limits, source, magnitude):
            named = "，".join(f"{metric}={limit:g}" for metric, limit in limits)
            where = "" if magnitude is None else f"，|r| 平均为 {magnitude:.3g}"
            return f"误差达 100 % 的结果也会通过：{named} ({source}){where}"
        case UnmatchedOutput(output, layer, source, outputs):
            return f"没有名为 {output} 的输出（{layer}: {source}）{nearest(output, outputs)}"
        case _:
            assert_never(fact)


def _threshold(threshold: UnmetThreshold) -> str:
    setting = f"{threshold.file or THRESHOLDS_VARIABLE}: {threshold.metric}={threshold.limit:g} ({threshold.layer})"
    if threshold.cause == "unmatched":
        return f"{setting} 在不要求 match_ratio 的用例中无效"
    return f"{setting} 比某些界限宽松，在那里不生效"
