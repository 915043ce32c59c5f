"""Which sentences state the result of a bisection: the guilty change, its proof, and the steps of the search?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import indent

from precreg.report.describe import strip_controls
from precreg.types import (
    Bisection,
    BisectionStatus,
    BisectionStep,
    CodeChange,
    GuiltyCommit,
    GuiltyRelease,
    NarrowingLevel,
    VersionEvidence,
    VersionVerdict,
)

_VERDICTS: dict[VersionVerdict, str] = {"good": "good", "bad": "bad", "cannot_run": "skipped", "unclear": "skipped"}
_EVIDENCE: dict[VersionEvidence, str] = {
    "good_bits": "bits of the good version",
    "bad_bits": "bits of the bad version",
    "other_bits": "other bits than the good version",
    "own_seeds": "judged on the seeds of the case",
    "fresh_seeds": "paired test with the good version",
    "failure": "cannot run",
}
_STATUSES: dict[BisectionStatus, str] = {
    "no_difference": "the good and the bad version give the same bits, so no change made the case worse",
    "no_loss": "the bits differ, but no loss of the bad version is proven, and bits alone do not judge this case",
    "good_fails": "the case cannot run at the good version, so nothing can be compared with it",
    "bad_fails": "the case cannot run at the bad version, so its result cannot be searched for",
    "good_is_bad": "the good version breaks a bound of the case itself; name an older good version, or --rule bits",
    "nondeterministic": "repeats of the good version differ: fix that first, or declare it with deterministic: false",
}
_COMMIT_DIGITS = 12
_MAX_SHOWN = 10


def bisection_json(found: Bisection) -> bytes:
    """Return the result as JSON."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"


def describe_bisection_step(step: BisectionStep) -> str:
    """Return one line for a step."""
    name = _short(step.version)
    parts = [f"{_VERDICTS[step.verdict]:7} {name}  {_EVIDENCE[step.evidence]}"]
    if step.reason is not None and step.evidence not in ("good_bits", "failure"):
        parts.append(str(step.reason))
    if step.seeds:
        parts.append(f"{step.seeds} fresh seeds")
    if step.message:
        parts.append(strip_controls(step.message))
    parts.append("from the log" if step.logged else f"{step.seconds:.1f} s")
    return ", ".join(parts)


def render_bisection(found: Bisection) -> str:
    """Return the result for a terminal."""
    return "\n".join([*_headline(found), *_changes(found), *_proof(found), *_steps(found)])


def _headline(found: Bisection) -> Iterator[str]:
    name = strip_controls(found.case)
    if found.status in _STATUSES:
        yield f"{name}: {_STATUSES[found.status]}"
        yield from (f"  {_short(step.version)}: {strip_controls(step.message)}" for step in found.ends if step.message)
        return
    if found.commit is not None:
        yield f"{name}: first bad commit {_commit_line(found.commit)}"
        yield f"  by {strip_controls(found.commit.author)}, {found.commit.date}; it changed {_files(found.commit)}"
    if found.candidates:
        yield f"{name}: one of {len(found.candidates)} commits is to blame, and all but the last were skipped"
        yield from (f"  {_commit_line(commit)}" for commit in _shown(found.candidates))
    yield from (f"{name}: {_release_line(release)}" for release in found.releases)
    if found.settings:
        yield f"{name}: bad with these settings, and with no fewer: {', '.join(map(strip_controls, found.settings))}"
    if found.rule == "bits":
        yield "  judged by bits: any difference from the good version counts as bad"


def _commit_line(commit: GuiltyCommit) -> str:
    return f'{_short(commit.commit)} "{strip_controls(commit.subject)}"'


def _release_line(release: GuiltyRelease) -> str:
    package = strip_controls(release.package)
    line = f"{package} {release.bad} is the first bad release, {release.good} the last good one"
    return line + (f"; {', '.join(release.candidates)} could not be judged" if release.candidates else "")


def _files(commit: GuiltyCommit) -> str:
    return "1 file" if len(commit.files) == 1 else f"{len(commit.files)} files"


def _shown(commits: Sequence[GuiltyCommit]) -> Sequence[GuiltyCommit]:
    return commits[-_MAX_SHOWN:]


def _changes(found: Bisection) -> Iterator[str]:
    yield from (f"  {_level_line(level)}" for level in found.narrowings)
    for change in found.changes:
        yield f"  to blame: {_place(change)}"
        for sign, source in (("-", change.good), ("+", change.bad)):
            if source:
                yield indent(strip_controls(source), f"    {sign} ")


def _level_line(level: NarrowingLevel) -> str:
    noun = level.level if level.level == "lines" else f"{level.level}s"
    runs = "1 run" if level.runs == 1 else f"{level.runs} runs"
    return f"{noun}: {len(level.kept)} of {level.parts} to blame, after {runs}"


def _place(change: CodeChange) -> str:
    line = f":{change.line}" if change.line else ""
    function = f", {strip_controls(change.function)}" if change.function else ""
    return f"{strip_controls(change.file)}{line}{function} ({change.level})"


def _proof(found: Bisection) -> Iterator[str]:
    proof = found.proof
    if proof is None:
        if found.status == "found":
            yield "  no proof: with all files of the commit undone the result is not good"
        return
    if proof.verdict == "good":
        yield f"  proof: with this undone the bad version is good: {_EVIDENCE[proof.evidence]}"
    else:
        yield f"  with this undone the bad version is not good: {_EVIDENCE[proof.evidence]}; there is another cause"


def _steps(found: Bisection) -> Iterator[str]:
    skipped = sum(step.verdict in ("cannot_run", "unclear") for step in found.steps)
    if found.steps:
        steps = "1 step" if len(found.steps) == 1 else f"{len(found.steps)} steps"
        yield f"{steps} for {found.versions} versions, {skipped} skipped"
    if found.log:
        yield f"log: {found.log}"


def _short(version: str) -> str:
    head, space, rest = version.partition(" ")
    is_commit = len(head) >= 40 and not set(head) - set("0123456789abcdef")
    return strip_controls(f"{head[:_COMMIT_DIGITS] if is_commit else head}{space}{rest}")
