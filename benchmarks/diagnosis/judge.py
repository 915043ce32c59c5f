"""Is the answer of a diagnosis right: its kind of cause, and its place?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from benchmarks.diagnosis.kinds import KIND_OF_FINGERPRINT, CauseKind, kinds_of_rewrite
from benchmarks.diagnosis.plant import Plant, PlantedCause, guilty_lines
from precreg.types import Cause, Diagnosis, RewrittenPlace

# - first: the first cause is right
# - first_three: another one of the first three is right
# - statement: the first answer is the guilty statement, whose undoing restores all bits, without a word for the change
# - wrong: a confident answer, and none of the first three is right
# - silent: no confident answer, and none of the first three is right
# - error: the command gave no diagnosis
ScoreClass: TypeAlias = Literal["first", "first_three", "statement", "wrong", "silent", "error"]

MOST_ANSWERS = 3
# A fingerprint below this certainty is no hint.
MIN_CERTAINTY = 0.5
# "partial" names a cause that explains too little, and is no confident answer.
CONFIDENT = ("found", "several", "nondeterministic")


class Answer(Struct, frozen=True):
    """One answer of a diagnosis: its rewrite and place in words of the tool, and the parts of it that are right."""

    rewrite: str
    place: str
    kind_is_right: bool
    place_is_right: bool


class Score(Struct, frozen=True):
    """The class of one plant, with the facts that tables count."""

    plant: str
    kind: str
    half: str
    oracle: str
    beyond: bool
    harmless: bool
    outcome: ScoreClass
    status: str = ""
    answers: tuple[Answer, ...] = ()
    # Of two planted causes, the number that the causes of a diagnosis name.
    named: int = 0
    # A fingerprint hints at the kind.
    hinted: bool = False
    seconds: float = 0.0
    problem: str = ""
    diagnosis: Diagnosis | None = None


def judge_diagnosis(plant: Plant, oracle: str, diagnosis: Diagnosis) -> Score:
    """Compare the causes of a diagnosis with those of a plant."""
    ranked = (*diagnosis.causes, *diagnosis.runners_up)[:MOST_ANSWERS]
    right = [any(names_cause(answer, plant, cause) for cause in plant.causes) for answer in ranked]
    named = sum(any(names_cause(answer, plant, cause) for answer in diagnosis.causes) for cause in plant.causes)
    confident = diagnosis.status in CONFIDENT and bool(diagnosis.causes)
    undone = bool(ranked) and ranked[0].rewrite == "changed_expression"
    proven = undone and any(is_guilty(ranked[0].place, plant, cause) for cause in plant.causes)
    return Score(
        plant=plant.id,
        kind=plant.kind,
        half=plant.half,
        oracle=oracle,
        beyond=plant.beyond,
        harmless=plant.harmless,
        outcome=classify(right, confident, proven=proven),
        status=diagnosis.status,
        answers=tuple(describe_answer(answer, plant) for answer in ranked),
        named=named,
        hinted=_is_hinted(plant, diagnosis),
        seconds=diagnosis.seconds,
        problem=diagnosis.problem,
        diagnosis=diagnosis,
    )


def missing_diagnosis(plant: Plant, oracle: str, problem: str) -> Score:
    """Return the score of a command that gave no diagnosis."""
    return Score(
        plant.id, plant.kind, plant.half, oracle, plant.beyond, plant.harmless, outcome="error", problem=problem
    )


def classify(right: Sequence[bool], confident: bool, *, proven: bool = False) -> ScoreClass:
    """Return the class of ranked answers, by which of them are right; `proven` means a statement without a kind."""
    if right and right[0]:
        return "first"
    if proven:
        return "statement"
    if any(right[:MOST_ANSWERS]):
        return "first_three"
    return "wrong" if confident else "silent"


def names_cause(answer: Cause, plant: Plant, cause: PlantedCause) -> bool:
    """Return whether an answer has the kind and the place of a planted cause."""
    # Reports print the present line of a cause in the accepted version.
    present = answer.present is not None and answer.present.code.strip() in guilty_lines(plant, cause)
    return bool(kinds_of_rewrite(answer.rewrite) & cause.kinds) and (present or is_guilty(answer.place, plant, cause))


def is_guilty(place: RewrittenPlace, plant: Plant, cause: PlantedCause) -> bool:
    """Return whether a place is a guilty line, or the guilty input, param or output."""
    if place.target in ("input", "param", "output"):
        return place.name in cause.names
    return place.site.code.strip() in guilty_lines(plant, cause)


def describe_answer(answer: Cause, plant: Plant) -> Answer:
    """Return an answer in the tool's words, with the parts of it that are right for any planted cause."""
    place, kinds = answer.place, kinds_of_rewrite(answer.rewrite)
    line = f" at line {place.site.line}: {place.site.code}" if place.site.line else ""
    return Answer(
        rewrite=answer.rewrite,
        place=f"{place.target} {place.name}{line}",
        kind_is_right=any(kinds & cause.kinds for cause in plant.causes),
        place_is_right=any(is_guilty(place, plant, cause) for cause in plant.causes),
    )


def _is_hinted(plant: Plant, diagnosis: Diagnosis) -> bool:
    wanted: set[CauseKind] = {kind for cause in plant.causes for kind in cause.kinds}
    shapes = [print.kind for print in diagnosis.fingerprints if print.certainty >= MIN_CERTAINTY]
    return any(KIND_OF_FINGERPRINT.get(shape, frozenset()) & wanted for shape in shapes)
