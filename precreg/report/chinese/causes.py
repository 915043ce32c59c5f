"""Which Chinese sentences state a diagnosis: the cause, its place and evidence, and the next step?

The rows have the order of `diagnosis_rows`, so that a page can pair the two languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from shlex import quote

from msgspec import UNSET

from precreg.report.causes import cause_family, change_command, format_figure, format_figures, is_undecided
from precreg.report.chinese.cause_words import FAMILIES_ZH, REWRITES_ZH, SHAPES_ZH, SWAPS_ZH, WAYS_ZH
from precreg.report.groups import ResultGroup, cause_key
from precreg.types import (
    Cause,
    Diagnosis,
    DiagnosisBase,
    Fingerprint,
    OpaqueForm,
    OpaqueSubject,
    RewrittenPlace,
    Site,
    TriedBase,
    UnitExplanation,
    format_distinct,
    format_number,
)

_OF_REPEATS = frozenset({"left_by_earlier_call", "differs_between_runs"})
_ORDINARY = "ordinary rounding"
_NAMED = {"input": "输入", "param": "参数", "output": "输出"}
_MAX_RUNNERS_UP = 3
_MAX_SHARED = 3
_MIN_SHARE_OF_BITS = 0.5
_BASES: dict[DiagnosisBase, str] = {
    "accepted": "已接受版本",
    "golden": "golden",
    "reference": "参考实现",
    "subject": "被测对象",
}
_ERROR_KINDS = {
    "rounding": "误差主要来自正确公式的舍入",
    "formula": "误差主要来自公式不同，而非舍入",
}
_REMARKS = {
    "several": "没有单一根因能解释误差；每个数字包括该根因及其前面的全部根因",
    "partial": "最好的根因只能解释一部分误差",
    "nondeterministic": "重复运行有差异，因此没有改写能重现误差",
}


def chinese_cause_phrase(cause: Cause) -> str:
    """Name a rewrite by a Chinese noun phrase with its options."""
    if cause.rewrite == "swapped_order" and cause.place.name in SWAPS_ZH:
        return SWAPS_ZH[cause.place.name]
    if cause.rewrite not in REWRITES_ZH:
        return cause.rewrite.replace("_", " ") + format_figures(cause.options)
    plain, with_options = REWRITES_ZH[cause.rewrite]
    options = {name: format_figure(value) for name, value in cause.options.items()}
    template = WAYS_ZH.get((cause.rewrite, options.get("way", "")), with_options)
    known = set(re.findall(r"{(\w+)}", template)) <= set(options)
    phrase = (template.format_map(options) if known else "") or plain
    return f"{phrase}，{options['rounding'].replace('_', ' ')}" if "rounding" in options else phrase


def chinese_cause_place(cause: Cause) -> str:
    """Write a cause with its line in Chinese, for the story of a run."""
    key = cause_key(cause)
    phrase, where = chinese_cause_phrase(cause), f"{key.file}:{key.line}" if key.file else cause.place.site.module
    if key.target in _NAMED:
        return f"{phrase}（{_NAMED[key.target]} {key.name}）"
    return f"{phrase}（{where or key.name}）"


def chinese_group_cause(group: ResultGroup) -> str:
    """Write the cause of a group in Chinese, with its evidence in the worst diagnosed case; empty without a cause."""
    first = next((r.diagnosis for r in group.results if r.diagnosis is not None and r.diagnosis.causes), None)
    if first is None:
        return ""
    cases = len(group.results)
    several = f"（{cases} 个用例中有 {group.diagnosed} 个找到）" if cases > 1 else ""
    return f"{chinese_cause_line(first)}{several}"


def chinese_cause_line(diagnosis: Diagnosis) -> str:
    """Write the cause with its place and evidence in one Chinese line, or the reason why there is none."""
    return "：".join(_answer(diagnosis))


def chinese_explanations(diagnosis: Diagnosis, known: Mapping[str, Diagnosis]) -> list[str]:
    """Name in Chinese each unit case that explains the failure of a larger case."""
    return [f"{diagnosis.case}：由 {_explanation(each, known)} 解释" for each in diagnosis.explained_by]


def chinese_diagnosis_rows(diagnosis: Diagnosis, known: Mapping[str, Diagnosis]) -> Iterator[tuple[str, str]]:
    """Yield all of a diagnosis in Chinese as pairs of a label and a text."""
    yield _answer(diagnosis)
    yield from ((f"根因 {number}", _sentence(cause)) for number, cause in enumerate(diagnosis.causes, 1) if number > 1)
    if remark := _REMARKS.get(diagnosis.status, ""):
        yield "备注", remark
    yield from (("次优", _sentence(cause)) for cause in diagnosis.runners_up[:_MAX_RUNNERS_UP])
    yield from (("解释自", _explanation(each, known)) for each in diagnosis.explained_by)
    yield from (("下一步", text) for text in _next_steps(diagnosis))
    if diagnosis.error_kind != "unknown" and diagnosis.status != "passed":
        yield "误差", _ERROR_KINDS[diagnosis.error_kind]
    yield from (("形状", _shape(found)) for found in diagnosis.fingerprints)
    yield from (("已排除", f"{_place(each, each.site, _source(each))} 不影响误差") for each in diagnosis.cleared)
    yield from (("已尝试", _tried(base)) for base in diagnosis.bases)


_OPAQUE: dict[OpaqueForm, str] = {
    "program": "precreg 看不到程序内部",
    "recorded": "precreg 看不到已记录的文件内部",
    "figures": "未搜索：改写单个运算无法解释整个过程的数值",
}
_PURPOSES: dict[OpaqueForm, str] = {
    "program": "找到修改的那一行",
    "recorded": "找到修改的那一行",
    "figures": "测量该过程的各个部分",
}


def _unseen(diagnosis: Diagnosis, opaque: OpaqueSubject) -> str:
    command = change_command(quote(diagnosis.case), opaque)
    return f"{_OPAQUE[opaque.form]}{f'：{command}' if command else _shape_clause(diagnosis)}"


def _answer(diagnosis: Diagnosis) -> tuple[str, str]:
    if diagnosis.opaque is not UNSET and is_undecided(diagnosis):
        return "根因", _unseen(diagnosis, diagnosis.opaque)
    if diagnosis.status == "passed":
        return "根因", "无：该用例没有需要解释的误差"
    if diagnosis.status == "failed":
        late = "搜索还没有结果，时间已用完" if diagnosis.out_of_time else "原因未知"
        return "根因", f"未找到：{diagnosis.problem or late}"
    if not diagnosis.causes:
        return "根因", _unknown(diagnosis)
    labels = {"several": f"{len(diagnosis.causes)} 个根因之首", "partial": "部分误差的根因"}
    return labels.get(diagnosis.status, "根因"), _sentence(diagnosis.causes[0])


def _unknown(diagnosis: Diagnosis) -> str:
    tried, every = sum(base.tried for base in diagnosis.bases), sum(base.hypotheses for base in diagnosis.bases)
    problem = next((base.problem for base in diagnosis.bases if base.problem), "")
    if diagnosis.status == "nondeterministic":
        found = "未知：重复运行有差异"
    elif every:
        found = f"未知：{_counted(tried, every)}都不能解释误差"
    elif problem == _ORDINARY:
        found = "未知：误差不大于普通舍入"
    else:
        found = f"未知：{problem or '没有可改写的运算'}"
    return f"{found}{_shape_clause(diagnosis)}"


def _shape_clause(diagnosis: Diagnosis) -> str:
    best = max(diagnosis.fingerprints, key=lambda each: each.certainty, default=None)
    return "" if best is None else f"；误差形状：{SHAPES_ZH[best.kind]}{format_figures(best.values)}"


def _sentence(cause: Cause) -> str:
    site = cause.present or cause.place.site
    present = cause.present
    rewritten = cause.is_changed and present is not None and present.code not in ("", cause.place.site.code)
    now = re.sub(r"^(return |[\w.]+ \W?= )", "", site.code)
    place = _place(cause.place, site, now if rewritten else _source(cause.place)) + _origin(cause, rewritten=rewritten)
    if cause.rewrite in _OF_REPEATS:
        return f"第二次运行从 {place} 开始不同：{_difference(cause)}"
    evidence, phrase = _evidence(cause), chinese_cause_phrase(cause)
    if cause.place.target == "statement":
        return f"{place}：{phrase}；撤销后{evidence}"
    of = f"{_BASES[cause.base]}的 " if cause.base in ("reference", "golden") and not cause.reverses else ""
    return f"{of}{place}：{phrase}；{evidence}"


def _difference(cause: Cause) -> str:
    if "operand" not in cause.options:
        return "操作数相同而结果不同"
    way = "是先前的调用遗留的" if cause.rewrite == "left_by_earlier_call" else "不同"
    return f"操作数 {format_figure(cause.options['operand'])} {way}"


def _origin(cause: Cause, *, rewritten: bool) -> str:
    if cause.place.target == "statement":
        before = str(cause.options.get("before", ""))
        return f"（以前为 `{before}`）" if before else "（新增）"
    if cause.base != "accepted" or cause.place.target in _NAMED:
        return ""
    if cause.present is None:
        return "（已接受版本）"
    return f"（以前为 `{_source(cause.place)}`）" if rewritten else ""


def _source(place: RewrittenPlace) -> str:
    return " ".join((place.expression or place.site.code).split())


def _place(place: RewrittenPlace, site: Site, source: str) -> str:
    where = f"{site.file}:{site.line}" if site.file else site.module
    if place.target in _NAMED:
        return "，".join(filter(None, (f"{_NAMED[place.target]} {place.name}", where)))
    name = f"每个 {place.name}" if place.target == "operations" else place.name
    if not where:
        return name
    return f"{where} `{source}`" if source else f"{where}，{name}"


def _evidence(cause: Cause) -> str:
    evidence, reverses = cause.evidence, cause.reverses
    if evidence.differing and evidence.explained >= _MIN_SHARE_OF_BITS * evidence.differing:
        kind = "改变的" if cause.base == "accepted" or cause.place.target == "statement" else "不同的"
        verb = "恢复" if reverses else "重现"
        text = f"{verb}了 {evidence.differing:,} 个{kind}元素中的 {evidence.explained:,} 个"
        others = evidence.elements - evidence.differing - (evidence.reproduced - evidence.explained)
        return f"{text}，并改变另外 {others:,} 个" if others > 0 else text
    correlation = f"相关系数 {format_distinct([evidence.correlation, 1.0, 0.0], 2)[0]}"
    if isfinite(evidence.remaining) and evidence.remaining < 1:
        return f"{'消除' if reverses else '解释'}了误差的 {_percent(1 - evidence.remaining)}，{correlation}"
    return f"与误差的{correlation}"


def _percent(share: float) -> str:
    return f"{format_distinct([100 * share, 100.0, 0.0], 2)[0]} %"


def _shape(found: Fingerprint) -> str:
    share = format_number(min(100 * found.certainty, 100.0), 3)
    return f"{found.output}：{SHAPES_ZH[found.kind]}{format_figures(found.values)}，占误差的 {share} %"


def _explanation(found: UnitExplanation, known: Mapping[str, Diagnosis]) -> str:
    of_unit = known.get(found.case)
    named = of_unit is not None and of_unit.causes
    family = f"（{FAMILIES_ZH[cause_family(of_unit.causes[0]).name][0]}）" if of_unit is not None and named else ""
    share = "" if found.share is None else f"，损失的 {_percent(found.share)}"
    return f"{found.case}{family}{share}"


def _next_steps(diagnosis: Diagnosis) -> Iterator[str]:
    case = quote(diagnosis.case)
    if diagnosis.causes and diagnosis.status != "passed":
        families = dict.fromkeys(map(cause_family, diagnosis.causes))
        yield from (_to_do(family.name, family.to_do) for family in families)
        if all(family.may_be_accepted for family in families):
            yield f"若新比特同样准确，也可以接受：precreg baseline accept {case} --reason WHY"
    elif diagnosis.opaque is not UNSET and (command := change_command(case, diagnosis.opaque)):
        yield f"{_PURPOSES[diagnosis.opaque.form]}：{command}"
    elif diagnosis.status == "unknown" and diagnosis.opaque is UNSET:
        yield f"查看误差从哪里开始：precreg trace {case}"
    if diagnosis.out_of_time and diagnosis.opaque is UNSET:
        yield f"时间已用完；放宽：precreg diagnose {case} --seconds 300"
    shared = [name for each in diagnosis.explained_by for name in each.shared]
    if shared:
        names = ", ".join(dict.fromkeys(shared[:_MAX_SHARED]))
        yield f"先看单元用例：它更小，且运行同样的代码（{names}）"


def _to_do(family: str, english: str) -> str:
    if family == "conversion" and english.startswith("put"):
        return "恢复该类型转换，或以更宽的 dtype 计算此步"
    return FAMILIES_ZH[family][1]


def _counted(tried: int, every: int) -> str:
    if tried < every:
        return f"{every:,} 个改写中的 {tried:,} 个"
    return f"{every:,} 个改写" if tried == every else f"{every:,} 个改写（{tried:,} 次运行）"


def _tried(base: TriedBase) -> str:
    name = f"{_BASES[base.base]}{f' {base.commit[:8]}' if base.commit else ''}"
    if base.problem == _ORDINARY:
        return f"{name}：输出的舍入解释了全部误差，因此没有运行改写"
    if base.problem:
        return f"{name}：无法改写：{base.problem}"
    return f"{name}：{base.places:,} 处，{_counted(base.tried, base.hypotheses)}"
