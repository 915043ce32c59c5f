"""How does a search spend its budget, and which inputs does it keep?

Each call of the subject tries many candidates at once. After each call of the search, one call gets random inputs, so
that both have the same number of trials. The inputs found are measured once more as whole arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from math import inf, isfinite
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import FORMATS, dtype_name
from precreg.diagnose.worst_inputs.climb import Elite, climb, zoom
from precreg.diagnose.worst_inputs.domain import DeclaredRange, Domain, find_domains
from precreg.diagnose.worst_inputs.evaluation import (
    CaseEvaluator,
    Layout,
    Results,
    find_layout,
    require_searchable,
)
from precreg.diagnose.worst_inputs.strategies import (
    Candidates,
    Parts,
    Scores,
    Space,
    Strategy,
    bisect_to_roots,
    can_exhaust,
    cancelling_parts,
    exhaust,
    special_values_first,
    step_to_ties,
    structured_parts,
    sweep_exponents,
)
from precreg.run import Arrays, prepare_cases
from precreg.subject import watch_case_in_process
from precreg.types import (
    Case,
    RandomTrials,
    Scalar,
    Search,
    SearchStrategy,
    StrategyResult,
    WorstValue,
)
from precreg.vcs import git_state

# The share of the budget that is spent when each strategy ends. A strategy that ends early leaves its part to the next.
_SHARES: dict[SearchStrategy, float] = {
    "special_values": 0.05,
    "exponents": 0.12,
    "structures": 0.22,
    "cancellation": 0.32,
    "roots": 0.4,
    "ties": 0.47,
    "zoom": 0.75,
    "climb": 1.0,
}

# Trials that fill the arrays of the result, and from which climbers start.
_MAX_ELITE = 1024
_MIN_ELITE = 32

# A report shows all values of a part of this many elements.
MAX_SHOWN_VALUES = 16


class SearchSettings(NamedTuple):
    """The request for a search. `seconds` or `trials` may be infinite; `chain` has the labels of the environment."""

    metric: str = "max_ulp"
    seconds: float = inf
    trials: float = inf
    seed: int = 0
    ranges: Mapping[str, DeclaredRange] = MappingProxyType({})
    chain: tuple[str, ...] = ()


class FoundInputs(NamedTuple):
    """A search, and the whole arrays of its worst inputs."""

    search: Search
    inputs: Arrays


@np.errstate(all="ignore")
def search_case(case: Case, project: Path, settings: SearchSettings) -> FoundInputs:
    """Search the inputs of a case with the largest error. Prints of the subject go to stderr.

    Raises UserError: unsearchable, bad-range, search-failed.
    """
    require_searchable(case, settings.chain)
    evaluator = CaseEvaluator(case, project, settings.metric, settings.chain)
    domains = find_domains(case, settings.ranges, evaluator.directory, project)
    prepare_cases([case], project)
    with watch_case_in_process(is_first=True), redirect_stdout(sys.stderr):
        inputs, results = evaluator.start(settings.seed, domains)
        layout = find_layout(evaluator, inputs, results, domains, settings.seed)
        session = _Session(evaluator, settings, layout, domains, inputs)
        session.take("drawn", Candidates(session.parts_of(inputs), layout.trials), results)
        session.search()
        return session.finish()


class _Best(NamedTuple):
    """The largest error of a search, with the inputs of the call and the trial that had it."""

    error: float
    strategy: SearchStrategy
    inputs: Arrays
    trial: int


class _Session:
    """The state of one search."""

    def __init__(
        self,
        evaluator: CaseEvaluator,
        settings: SearchSettings,
        layout: Layout,
        domains: Sequence[Domain],
        inputs: Arrays,
    ) -> None:
        self.evaluator, self.settings, self.layout, self.inputs = evaluator, settings, layout, inputs
        chosen = tuple(domain for domain in domains if domain.name in layout.searched)
        sizes = tuple(inputs[domain.name].size // layout.trials for domain in chosen)
        self.space = Space(chosen, sizes, layout.trials)
        self.generator = np.random.Generator(np.random.Philox(key=settings.seed))
        # Random inputs of a declared range have a stream of their own, so that no strategy moves them.
        self.random_generator = np.random.Generator(np.random.Philox(key=[settings.seed, 1]))
        self.random_seed = settings.seed
        self.elite = Elite(min(max(_MIN_ELITE, layout.trials), _MAX_ELITE))
        self.best: _Best | None = None
        self.finite = 0.0
        self.random = RandomTrials(0, 0.0, settings.seed)
        self.trials: dict[SearchStrategy, int] = {}
        self.largest: dict[SearchStrategy, float] = {}
        self.raised: set[SearchStrategy] = set()
        self.started, self.exhaustive, self.format = monotonic(), False, FORMATS["float64"]

    def parts_of(self, inputs: Arrays) -> Parts:
        return {name: self.layout.split(inputs[name]) for name in self.layout.searched}

    def inputs_of(self, parts: Parts) -> Arrays:
        joined = {name: self.layout.join(values, self.inputs[name].shape) for name, values in parts.items()}
        return {**self.inputs, **joined}

    @property
    def spent(self) -> float:
        """The share of the budget that is spent, of time or of trials."""
        total = sum(self.trials.values())
        return max(total / self.settings.trials, (monotonic() - self.started) / self.settings.seconds)

    def search(self) -> None:
        """Try all combinations if the budget can hold them, or run all strategies in their order."""
        if can_exhaust(self.space) and 2.0**self.space.bits <= self.settings.trials:
            self.exhaustive = self._run("exhaustive", exhaust(self.space), 1.0)
            return
        space, generator = self.space, self.generator
        strategies: dict[SearchStrategy, Strategy] = {
            "special_values": special_values_first(space, generator),
            "exponents": sweep_exponents(space, generator),
            "structures": structured_parts(space, generator),
            "cancellation": cancelling_parts(space, generator),
            "roots": bisect_to_roots(space, generator),
            "ties": step_to_ties(space, generator),
            "zoom": zoom(space, generator),
            "climb": climb(space, generator, self.elite),
        }
        for name, strategy in strategies.items():
            if _suits(name, space):
                self._run(name, strategy, _SHARES[name])

    def _run(self, name: SearchStrategy, strategy: Strategy, until: float) -> bool:
        """Run a strategy until it ends, or a share of the budget is spent; return whether it came to its end."""
        proposal = next(strategy, None)
        while proposal is not None:
            if self.spent >= until:
                return False
            scores = self._score(name, proposal)
            self._try_random(proposal.counted)
            try:
                proposal = strategy.send(scores)
            except StopIteration:
                return True
        return True

    def _score(self, name: SearchStrategy, proposal: Candidates) -> Scores:
        results = self.evaluator.try_evaluate(self.inputs_of(proposal.parts))
        if results is None or not results.errors:
            self.trials[name] = self.trials.get(name, 0) + proposal.counted
            return Scores(np.zeros(self.space.trials), None, self.format)
        return self.take(name, proposal, results)

    def take(self, name: SearchStrategy, proposal: Candidates, results: Results) -> Scores:
        """Count the trials of a call, and keep the worst of them."""
        errors = self._keep(name, proposal, results)
        self.trials[name] = self.trials.get(name, 0) + proposal.counted
        self.largest[name] = max(self.largest.get(name, 0.0), float(errors.max()))
        return self._scores(errors, results)

    def _keep(self, name: SearchStrategy, proposal: Candidates, results: Results) -> NDArray[np.float64]:
        """Return the errors of the trials that count, after keeping the largest ones."""
        errors = self.layout.worst(results.errors)
        errors[proposal.counted :] = 0.0
        self.finite = max(self.finite, float(np.max(errors[np.isfinite(errors)], initial=0.0)))
        self.elite.add(proposal.parts, errors)
        if self.best is None or errors.max() > self.best.error:
            self.raised.add(name)
            self.best = _Best(float(errors.max()), name, self.inputs_of(proposal.parts), int(np.argmax(errors)))
        return errors

    def _scores(self, errors: NDArray[np.float64], results: Results) -> Scores:
        real = [name for name in results.errors if results.actual[name].dtype.kind != "c" and results.actual[name].size]
        if not real:
            return Scores(errors, None, self.format)
        exact = np.concatenate([self.layout.split(results.exact[name]).astype(np.float64) for name in real], axis=1)
        return Scores(errors, exact, FORMATS[dtype_name(results.actual[real[0]].dtype)])

    def _try_random(self, counted: int) -> None:
        """Give random inputs to one call, and count as many trials as the search had."""
        seed, before = self.random_seed, self.random
        self.random_seed += 1
        inputs = self._random_inputs(seed)
        results = self.evaluator.try_evaluate(inputs)
        error = 0.0
        if results is not None and results.errors:
            # The search may go on from a random input, so that it never ends below one.
            error = float(self._keep("random", Candidates(self.parts_of(inputs), counted), results).max())
        has_risen = error > before.error
        self.random = RandomTrials(
            before.trials + counted, max(error, before.error), seed if has_risen else before.seed
        )

    def _random_inputs(self, seed: int) -> Arrays:
        """Return the inputs of a run at a seed, or uniform numbers where the user declared the range."""
        drawn = {**self.evaluator.draw(seed), **{name: self.inputs[name] for name in self.held}}
        for domain in self.space.domains:
            if domain.origin in ("declared", "suite"):
                drawn[domain.name] = domain.draw_evenly(self.random_generator, self.inputs[domain.name].shape)
        return drawn

    @property
    def held(self) -> tuple[str, ...]:
        """The inputs that keep the values of the seed."""
        return tuple(name for name in self.inputs if name not in self.layout.searched)

    def finish(self) -> FoundInputs:
        """Measure the inputs found as whole arrays, and return the search."""
        best = self.best
        assert best is not None, "the drawn inputs count, too"
        inputs, results = self._filled(best), None
        if inputs is not None:
            results = self.evaluator.try_evaluate(inputs)
        if inputs is None or results is None or self.layout.worst(results.errors).max() < best.error:
            # Trials were not as independent as the experiment said: the call that had the error is kept as it was.
            inputs = best.inputs
            results = self.evaluator.evaluate(inputs)
        return FoundInputs(self._search(best, inputs, results), inputs)

    def _filled(self, best: _Best) -> Arrays | None:
        """Return arrays full of the worst trials, the worst one at its place; None without an error."""
        ranked = [parts for _, parts in self.elite.ranked()]
        if not ranked:
            return None
        chosen = np.arange(self.layout.trials) % len(ranked)
        # SIMD kernels compute the last elements of a row in another way: the place may be a part of the cause.
        chosen[best.trial], chosen[0] = chosen[0], chosen[best.trial]
        parts = {name: np.stack([each[name] for each in ranked])[chosen] for name in self.layout.searched}
        for name, values in self.parts_of(best.inputs).items():
            parts[name][best.trial] = values[best.trial]
        return self.inputs_of(parts)

    def _search(self, best: _Best, inputs: Arrays, results: Results) -> Search:
        case, layout = self.evaluator.case, self.layout
        output = max(results.errors, key=lambda name: results.errors[name].max(initial=-1.0))
        errors = results.errors[output]
        flat = int(np.argmax(errors))
        trial = int(np.argmax(layout.split(errors).max(axis=1)))
        state = git_state(self.evaluator.project)
        return Search(
            case=case.id,
            definition=case.definition,
            commit="" if state is None else state.commit,
            seed=self.settings.seed,
            metric=self.settings.metric,
            error=float(errors.reshape(-1)[flat]),
            finite_error=self.finite,
            output=output,
            place=tuple(int(index) for index in np.unravel_index(flat, errors.shape)),
            actual=_scalar(results.actual[output].reshape(-1)[flat]),
            exact=_scalar(results.exact[output].reshape(-1)[flat]),
            tolerances=self.evaluator.share_of_tolerance(results),
            strategy=best.strategy,
            random=self.random,
            ranges=tuple(domain.range() for domain in self.space.domains),
            held=self.held,
            trial_shape=layout.shape,
            trials=sum(self.trials.values()),
            strategies=tuple(
                StrategyResult(name, count, self.largest.get(name, 0.0), name in self.raised)
                for name, count in self.trials.items()
            ),
            exhaustive=self.exhaustive,
            values=tuple(self._values(inputs, trial)),
            value_count=sum(self.space.sizes),
            failed_calls=self.evaluator.failed_calls,
            failure=self.evaluator.failure,
            seconds=monotonic() - self.started,
        )

    def _values(self, inputs: Arrays, trial: int) -> Iterator[WorstValue]:
        """Yield the first values of a trial, of each input in turn."""
        for domain in self.space.domains:
            array = inputs[domain.name]
            part = np.ascontiguousarray(self.layout.split(array)[trial])
            patterns = part.view(f"u{domain.dtype.itemsize}")
            for element in range(min(part.size, MAX_SHOWN_VALUES)):
                index = self.layout.place(trial, element, array.shape)
                bits = f"{int(patterns[element]):0{-(-domain.bits // 4)}x}"
                yield WorstValue(domain.name, index, _scalar(part[element]), bits)


def _suits(name: SearchStrategy, space: Space) -> bool:
    """Return whether a strategy can do something: a single number has no structure, and nothing to cancel with."""
    match name:
        case "structures":
            return not space.is_scalar
        case "cancellation":
            return not space.is_scalar or len(space.domains) > 1
        case "zoom":
            return space.is_scalar
    return True


def _scalar(value: Any) -> Scalar:
    """Return a number as records have it: the text of a long double, a complex number, NaN and infinities."""
    if isinstance(value, complex | np.complexfloating | np.longdouble):
        return str(value)
    number = float(value)
    return number if isfinite(number) else repr(number)
