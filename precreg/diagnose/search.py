"""Which rewrites of a base reproduce the result to explain?

Single rewrites are tried first. If the best one leaves errors, further rewrites are tried on top of it. Numbers without
a usual value are fitted to the errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from precreg.diagnose.changed_lines import ChangedLines
from precreg.diagnose.engine import Rewriting
from precreg.diagnose.evidence import (
    MOST,
    NEARLY_ALL,
    ErrorToExplain,
    changes_something,
    is_exact,
    measure_evidence,
    rounded_to,
    strength,
)
from precreg.diagnose.places import ComputedPlace, PlaceKey
from precreg.diagnose.rewrites import Hypothesis, Params, fit_number
from precreg.run import Arrays
from precreg.types import Cause, DiagnosisBase, Evidence, RewrittenPlace

# Rewrites that explain less than this are no runners-up: a random one explains as much.
_LEAST = 0.95
# Single rewrites on which further ones are tried: errors of two causes of one size make the right one the second best.
_BEAM = 4
# Causes that act together; more of them look like noise.
_MOST_CAUSES = 3
# A further cause must leave at most this part of the errors that the causes before it left.
_NEXT = 0.5
# Runners-up in a result.
_SHOWN = 5


class Base(NamedTuple):
    """Hold a computation that rewrites alter, with its inputs and params."""

    name: DiagnosisBase
    engine: Rewriting
    inputs: Arrays
    params: Params
    # The folder of the project, with a separator at its end; files of places are relative to it.
    root: str
    # The lines that changed since, if this is the accepted version, and the folder of the present project.
    changes: ChangedLines | None = None
    present_root: Path = Path()

    def compute(self, hypotheses: Sequence[Hypothesis] = ()) -> Arrays:
        """Return the outputs with all rewrites in place. Raises any exception of the computation."""
        inputs, params = self.inputs, self.params
        for each in hypotheses:
            inputs = each.inputs(inputs) if each.inputs else inputs
            params = each.params(params) if each.params else params
        outputs = self.engine.run(inputs, params, hypotheses)
        for each in hypotheses:
            outputs = each.outputs(outputs) if each.outputs else outputs
        return outputs

    def is_in_changed_file(self, key: PlaceKey) -> bool:
        """Return whether the file of a place changed since this version."""
        return self.changes is not None and bool(self.changes.of(key.file).changed)

    def is_touched(self, key: PlaceKey) -> bool:
        """Return whether a change since this version touched a place."""
        return self.changes is not None and self.changes.has_changed(key.file, key.line, key.end_line)


class Tried(NamedTuple):
    """Hold rewrites that ran together, with their evidence."""

    hypotheses: tuple[Hypothesis, ...]
    evidence: Evidence


class SearchResult(Struct, frozen=True):
    """Hold the causes that a search found, the best first, and the numbers of places and rewrites."""

    causes: tuple[Cause, ...] = ()
    runners_up: tuple[Cause, ...] = ()
    cleared: tuple[RewrittenPlace, ...] = ()
    tried: int = 0
    hypotheses: int = 0
    out_of_time: bool = False


class CauseSearch:
    """Try rewrites of one base until the time is up."""

    def __init__(
        self,
        base: Base,
        error: ErrorToExplain,
        places: Mapping[PlaceKey, ComputedPlace],
        hypotheses: Sequence[Hypothesis],
        deadline: float,
    ) -> None:
        self.base, self.error, self.places = base, error, places
        self.hypotheses, self.deadline = list(hypotheses), deadline
        self.tried = 0
        self.out_of_time = False
        # Hypotheses that change an output at all: only these are tried on top of others.
        self._effective: list[Hypothesis] = []

    def run(self) -> SearchResult:
        """Return the causes that explain most of the errors, alone or together."""
        singles = self._try_all(self.hypotheses, (), self.error)
        best = self._combined(singles)
        found = () if best is None else best.hypotheses
        if best is not None and is_exact(best.evidence):
            singles += self._try_suspects(found)
        return SearchResult(
            causes=self._causes(found),
            runners_up=self._runners_up(singles, found),
            cleared=self._cleared(singles, found),
            tried=self.tried,
            hypotheses=len(self.hypotheses),
            out_of_time=self.out_of_time,
        )

    def _try_all(
        self, hypotheses: Iterable[Hypothesis], before: tuple[Hypothesis, ...], error: ErrorToExplain
    ) -> list[Tried]:
        """Return what each rewrite explains of an error, the best first.

        Once a rewrite is exact, the others of its rank still run: an equally good rewrite is a runner-up.
        """
        found: list[Tried] = []
        exact_rank: int | None = None
        for each in hypotheses:
            if exact_rank is not None and each.rank > exact_rank:
                break
            if monotonic() > self.deadline:
                self.out_of_time = True
                break
            fitted = self._try(each, before, error)
            if fitted is not None:
                found.append(fitted)
                if is_exact(fitted.evidence) and exact_rank is None:
                    exact_rank = each.rank
        return sorted(found, key=lambda tried: strength(tried.evidence))

    def _try(self, hypothesis: Hypothesis, before: tuple[Hypothesis, ...], error: ErrorToExplain) -> Tried | None:
        """Return a rewrite with its evidence, or None if it changes nothing or fails."""
        self.tried += not before
        if hypothesis.refit is not None:
            chosen = fit_number(hypothesis, error, lambda each: self._outputs((*before, each)))
            if chosen is None:
                return None
            hypothesis = chosen._replace(number=chosen.number or 0.0)
        made = self._outputs((*before, hypothesis))
        if made is None or not changes_something(error, made):
            return None
        # A fitted number on top of another cause would fit its remaining error.
        if not before and hypothesis.number is None:
            self._effective.append(hypothesis)
        return Tried((*before, hypothesis), measure_evidence(error, made))

    def _try_suspects(self, found: tuple[Hypothesis, ...]) -> list[Tried]:
        """Try the functions that people suspect, after the cause is known, so that a report can clear them."""
        guilty = {key for each in found for key in each.keys}
        suspects = [
            each
            for each in self.hypotheses
            if each.rewrite in _SUSPICIONS
            and each.keys
            and each.keys[0].name in SUSPECTS
            and each.keys[0] not in guilty
        ]
        singles = [self._try(each, (), self.error) for each in suspects if monotonic() <= self.deadline]
        return [each for each in singles if each is not None]

    def _outputs(self, hypotheses: tuple[Hypothesis, ...]) -> Arrays | None:
        try:
            with np.errstate(all="ignore"):
                made = self.base.compute(hypotheses)
        # A rewrite may lead user code anywhere: an index beyond an array, or a loop that divides by zero.
        except Exception:
            return None
        names = [name for name in self.error.target if name in made]
        if any(made[name].shape != self.error.target[name].shape for name in names):
            return None
        return rounded_to(made, self.error.target, names) if len(names) == len(self.error.target) else None

    def _combined(self, singles: list[Tried]) -> Tried | None:
        """Return the best rewrite, or the rewrites that together explain far more than it does."""
        if not singles:
            return None
        best = singles[0]
        if is_exact(best.evidence) or best.evidence.remaining > _LEAST:
            return best if best.evidence.remaining <= _LEAST else None
        if self.error.ordinary and best.evidence.remaining <= NEARLY_ALL:
            # Beside a nearly exact result the rest is ordinary rounding.
            return best
        beam = [each for each in singles[:_BEAM] if each.evidence.remaining <= _LEAST]
        for _ in range(_MOST_CAUSES - 1):
            longer = [one for each in beam for one in self._with_another(each)]
            if not longer:
                break
            longer.sort(key=lambda tried: strength(tried.evidence))
            if not _is_far_better(longer[0], best):
                break
            best, beam = longer[0], longer[:1]
            if is_exact(best.evidence):
                break
        return best

    def _with_another(self, tried: Tried) -> list[Tried]:
        """Return rewrites on top of others, measured against the whole error."""
        taken = {(each.keys, each.name, each.target) for each in tried.hypotheses}
        others = [each for each in self._effective if (each.keys, each.name, each.target) not in taken]
        return self._try_all(others, tried.hypotheses, self.error)[:1]

    def _causes(self, hypotheses: tuple[Hypothesis, ...]) -> tuple[Cause, ...]:
        """Return causes with the evidence of all rewrites up to each, the most explained error first."""
        return tuple(
            self._cause(each, self._evidence_of(hypotheses[: place + 1])) for place, each in enumerate(hypotheses)
        )

    def _evidence_of(self, hypotheses: tuple[Hypothesis, ...]) -> Evidence:
        made = self._outputs(hypotheses)
        assert made is not None
        return measure_evidence(self.error, made)

    def _cause(self, hypothesis: Hypothesis, evidence: Evidence) -> Cause:
        cause = Cause(hypothesis.rewrite, hypothesis.options, self._place(hypothesis), self.base.name, evidence)
        return self._locate(cause, hypothesis)

    def _locate(self, cause: Cause, hypothesis: Hypothesis) -> Cause:
        """Add the place in the present version to a cause of the accepted version."""
        changes = self.base.changes
        if changes is None or not hypothesis.keys:
            return cause
        key = hypothesis.keys[0]
        present = changes.present_site(key.file, key.line, self.base.present_root)
        return replace(cause, present=present, is_changed=self.base.is_touched(key))

    def _place(self, hypothesis: Hypothesis) -> RewrittenPlace:
        if hypothesis.keys:
            return self.places[hypothesis.keys[0]].described(self.base.root)
        return RewrittenPlace(hypothesis.target, hypothesis.name)

    def _runners_up(self, singles: list[Tried], found: tuple[Hypothesis, ...]) -> tuple[Cause, ...]:
        others = [each for each in singles if each.hypotheses[-1] not in found and each.evidence.remaining <= _LEAST]
        return tuple(self._cause(each.hypotheses[-1], each.evidence) for each in others[:_SHOWN])

    def _cleared(self, singles: list[Tried], found: tuple[Hypothesis, ...]) -> tuple[RewrittenPlace, ...]:
        """Return the places of approximated functions whose rewrites explain nothing, if the cause is at another."""
        if not found:
            return ()
        guilty = {key for each in found for key in each.keys}
        best: dict[PlaceKey, float] = {}
        for each in singles:
            for key in each.hypotheses[-1].keys:
                best[key] = min(best.get(key, 1.0), each.evidence.remaining)
        suspects = [key for key in best if key not in guilty and key.name in SUSPECTS and best[key] > _LEAST]
        return tuple(self.places[key].described(self.base.root) for key in suspects)


# Functions that kernels approximate: people suspect them first.
SUSPECTS = frozenset({"sqrt", "exp", "log", "tanh", "sin", "cos", "power", "reciprocal", "exp2", "log2"})
# Rewrites that replace the computation of such a function.
_SUSPICIONS = frozenset({"exact", "another_library", "fewer_terms", "fewer_newton_steps"})


def _is_far_better(longer: Tried, best: Tried) -> bool:
    """Return whether a further cause is worth naming: it explains all bits, or most of the remaining error."""
    return is_exact(longer.evidence) or longer.evidence.remaining <= _NEXT * best.evidence.remaining


def explains_most(cause: Cause) -> bool:
    """Return whether a cause explains the errors: all bits, or nearly all of the errors of most elements.

    A reference rounds in another way than the subject, so it leaves more. A fitted number leaves little of any error
    with one degree of freedom, so it has to leave nearly nothing.
    """
    evidence = cause.evidence
    if is_exact(evidence):
        return True
    limit = MOST if cause.base == "reference" or cause.reverses else NEARLY_ALL
    limit = limit if cause.rewrite not in FITTED else FITTED_REST
    return evidence.remaining <= limit and evidence.nearer >= 0.5 * evidence.differing


# Rewrites whose number a search fits, and the rest that one of them may leave.
FITTED = frozenset({"scaled", "offset", "other_constant", "other_param"})
FITTED_REST = 0.02
