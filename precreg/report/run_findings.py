"""Which sentence states a finding on a run: changed criteria, cumulative loss, combined loss?"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

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
    CriteriaFact,
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

# Nearly all limits are written with at most six digits.
_LIMIT_DIGITS = 6

# The names of parts that are not their own words.
_PARTS = {
    "analyzers": "metrics of analyzers",
    "environments": "fewer environments in which its bits were seen",
    "extension": "further seeds or metrics, and this run measured others",
    "known": "the state that is known to be bad",
}
# Names that no layer has, and environments without layers of their own.
_SCOPES = {"": "other outputs", "generic": "other environments"}


def add_run_finding_message(finding: RunFinding) -> RunFinding:
    """Fill in the message of a finding on a run, unless it has one."""
    return finding if finding.message else replace(finding, message=describe_run_finding(finding))


def describe_run_finding(finding: RunFinding) -> str:
    """Write the sentence of a finding on a run, without its subject and its place."""
    fact = finding.fact
    if fact is None:
        return finding.message
    if isinstance(fact, BaselineFact):
        return _describe_baseline(fact, finding.factor)
    if isinstance(fact, CaseFact):
        return _describe_case(fact)
    if isinstance(fact, SettingFact):
        return _describe_setting(fact)
    if isinstance(fact, LossFact):
        return describe_loss(fact)
    return _describe_criteria(fact)


def _describe_baseline(fact: BaselineFact, factor: float | None) -> str:
    """Write how another baseline judges, or would."""
    match fact:
        case BaselineRemoved(file, date):
            return f"the baseline accepted on {date or 'an unknown day'} was removed from {file}"
        case BaselineChanged(file, parts, metric, output):
            changed = f"the baseline in {file} changed: {', '.join(_PARTS.get(part, part) for part in parts)}"
            grew = "" if factor is None else f"; {metric} of {output} is {factor:.3g} times the accepted value"
            return f"{changed}{grew}"
        case KnownBadAccepted(file, why):
            return f"{file} newly accepts a wrong result as known bad: {why}"
        case HistoryRemoved(file):
            return f"accepted values were removed from {file}: small losses could add up unseen"
        case FirstBaseline(environment):
            return f"has a first baseline in {environment}, and HEAD's judges there"
        case CloserBaseline(file, former):
            return f"{file} is new, and comes before the baseline of {former}, which judged"
        case BorrowedBaseline(lender, former):
            return f"judged by the baseline of {lender}, formerly {f'of {former}' if former else 'by its own'}"
        # mypy then reports a new fact that has no sentence yet.
        case _:
            assert_never(fact)


def _describe_case(fact: CaseFact) -> str:
    """Write how a case, or the code behind it, changed."""
    if isinstance(fact, OracleFact):
        return _describe_oracle(fact)
    match fact:
        case CaseRemoved(source):
            return f"was removed from {source}"
        case CaseRenamed(former):
            return f"is {former} under another name, and its baseline judges"
        case CaseIntroduced():
            return "is new: HEAD's baseline judges"
        case CaseRedefined(parts):
            changed = f"{', '.join(parts)} changed"
            return f"computes something else under the same name: {changed}; HEAD's baseline judges"
        case _:
            assert_never(fact)


def _describe_oracle(fact: OracleFact) -> str:
    """Write how what lies behind a reference, a golden or a benchmark changed."""
    match fact:
        case OracleFilesChanged(role, files, results):
            return f"files of its {role} changed: {', '.join(files)}{_describe_results(results)}"
        case OracleCodeChanged(role, code, results):
            return f"the code of its {role} {code} changed{_describe_results(results)}"
        case OracleResultsChanged(role, results):
            others = f"its {role} gives other bits than in the baseline of this environment"
            return f"{others}, and no file shows why{_describe_results(results)}"
        case OracleFollowsSubject(role, files):
            return f"its {role} newly opens files of its subject, which its code does not show: {', '.join(files)}"
        case OracleBesideSubject(role, seed):
            return f"its {role} gives other bits beside the subject than in a process of its own, at seed {seed}"
        case BenchmarkReplaced(before, now):
            return f"its benchmark is {now}, and was {before}"
        case OraclePatched(role, attributes):
            return f"its subject alters what its {role} may use: {', '.join(attributes)}"
        case _:
            assert_never(fact)


def _describe_results(results: OracleResults | None) -> str:
    """Write how far the results of an oracle are from the base's, or why that is not known."""
    if results is None:
        return ""
    if isinstance(results, OracleUncompared):
        return f"; the results of both versions could not be compared: {_describe_uncompared(results)}"
    where = f"{results.output} at seed {results.seed}"
    if results.place is None:
        return f"; {where} is missing in one version, or has another shape or dtype"
    size = "in NaN or infinity" if results.ulp is None else f"by up to {results.ulp:.4g} ULP"
    place = f", first at {list(results.place)}" if results.place else ""
    return f"; {results.differing} of {results.size} elements of {where} differ from the base's {size}{place}"


def _describe_uncompared(results: OracleUncompared) -> str:
    match results.cause:
        case "base_failed":
            return f"the base's fails: {results.message}"
        case "failed":
            return f"the present one fails: {results.message}"
        case "not_started":
            return results.message
        case "other_inputs":
            return "the inputs differ"
        case "foreign_files":
            return f"the base's opens {results.message} of the working tree"
        case "unsteady":
            return "it gives other bits when it runs again"
        case "no_time":
            return "the time for all references of a run was spent"
        case _:
            assert_never(results.cause)


def _describe_setting(fact: SettingFact) -> str:
    """Write which setting of a case is weaker."""
    match fact:
        case LoweredCount(setting, now, before):
            return f"{setting}: {now}, and had {before}"
        case AnalyzerDropped(analyzer):
            return f"analyzer {analyzer} no longer measures it"
        case ExpectFailureAdded(why):
            return f"expect: fail is new: {why}"
        case DeclarationDropped("exact"):
            return "exact: true was removed: other bits no longer count as a regression"
        case DeclarationDropped():
            return "deterministic: false is new: repeats may differ"
        case LooserTime(setting, before, now):
            unit = " s" if setting == "timeout" else ""
            longer = f"no {setting}" if now is None else f"{setting}: {now:g}{unit}"
            return f"{longer}, and had {before:g}{unit}"
        case SkipAdded("requires", name):
            return f"requires {name} now, and is skipped without it"
        case SkipAdded(_, name):
            return f"lost the tag {name}: a selection by this tag leaves the case out"
        case _:
            assert_never(fact)


def describe_loss(fact: LossFact) -> str:
    """Write a cumulative or combined loss with its lower bound."""
    if isinstance(fact, CombinedLoss):
        grew = f"{fact.metric} is {fact.factor:.4g} times the baseline's, and at least {fact.lower:.4g}"
        kind = " ".join(["small"] * fact.small + ["outputs"] * (fact.small or bool(fact.dtype)))
        kind += f" of {fact.dtype}" if fact.dtype else ""
        cases = f"{fact.cases} cases with {kind} together" if kind else f"{fact.cases} cases together"
        return f"{cases}: {grew} (p-value {fact.p_value:.2g})"
    if isinstance(fact, PooledLoss):
        grew = f"{fact.metric} is {fact.factor:.4g} times the accepted version's, and at least {fact.lower:.4g}"
        return f"{fact.cases} cases of {fact.dtype} together, on fresh inputs: {grew} (p-value {fact.p_value:.2g})"
    since = f"{fact.date} ({fact.reason})" if fact.reason else fact.date
    steps = "1 step" if fact.steps == 1 else f"{fact.steps} steps"
    sure = f"at least {fact.lower:.4g}" if fact.lower else "too few samples to separate from noise"
    allowed = "" if fact.allowed is None else f"; {fact.allowed:.4g} times are allowed"
    return (
        f"{fact.metric} of {fact.output} is {fact.factor:.4g} times ({sure}) the value accepted on {since}, "
        f"in {steps}: {fact.current:.4g} against {fact.before:.4g}{allowed}"
    )


def _describe_criteria(fact: CriteriaFact) -> str:
    """Write which limit is looser, and which file of criteria cannot be read or used."""
    match fact:
        case LooserLimit():
            scopes = "; ".join(map(_describe_scope, fact.scopes))
            return f"{_describe_limit(fact)}{f' ({scopes})' if scopes else ''}"
        case ThresholdsFreed():
            return "allow_looser_thresholds is new: PRECISION_THRESHOLDS may replace any bound"
        case UnreadableBase(problem, files):
            several = f"{files} files " if files > 1 else ""
            return f"{several}cannot be read as the base has it, so HEAD's own criteria apply: {problem}"
        case UnusedAllowance(change, case, merged):
            rest = (
                "is merged: the entry permits nothing further, remove it"
                if merged
                else "is allowed, and nothing uses that: remove the entry"
            )
            return f"{change} of {case} {rest}"
        case _:
            assert_never(fact)


def _describe_limit(fact: LooserLimit) -> str:
    key, old, new = fact.key, fact.before, fact.now
    if fact.sort == "alternatives":
        if new is None:
            return f"no alternative has to hold, and one of {_figure(old)} had to"
        return f"alternative {new:g} suffices now, and is weaker than every former one"
    if fact.sort == "region":
        return f"{key} is {_figure(new)}, and was {_figure(old)}: other elements count"
    has, had = format_distinct([new, old], _LIMIT_DIGITS)
    if fact.sort == "growth":
        return f"{key} is off, and allowed {had}" if new is None else f"{key} allows {has}, and allowed {had}"
    relation = "at least" if fact.at_least else "at most"
    now = "is not bound" if new is None else f"has to be {relation} {has}"
    return f"{key} {now}, and had to be {relation} {had}"


def _figure(value: float | None) -> str:
    return "the shipped one" if value is None else f"{value:g}"


def _describe_scope(scope: LooserScope) -> str:
    more = f" and {scope.others} more" if scope.others else ""
    return ", ".join(_SCOPES.get(name, name) for name in scope.names) + more
