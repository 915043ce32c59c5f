"""Which operations of a subject compute something else than those of its oracle?

Values of both computations are paired if they are equal. The differing part reads paired values. With the oracle's
value in the place of the one that it makes, the subject gives the oracle's result. If no single value does that, the
part ends where both computations take the same last operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import FORMATS, dtype_name
from precreg.diagnose.reduction.numpy_chain import NumpyChain, is_narrow, names_in
from precreg.errors import UserError
from precreg.run import run_oracle
from precreg.shadow.numpy import CallRecorder, SpelledCall, ValueName
from precreg.subject import Call, CaseFailed, blame_failures
from precreg.types import Case, Reason

Plain = NDArray[Any]

# The part of a unit in the last place by which equal values may differ: a kernel rounds constants to its dtype, and
# its reference does not.
_SAME = 0.1


class DifferingPart(NamedTuple):
    """The places of the subject's differing operations, the value that they make, and the oracle's value for it."""

    places: tuple[int, ...]
    made: str
    expected: Plain


def record_oracle(case: Case, seed: int, call: Call, project: Path) -> NumpyChain | None:
    """Return the recorded calls of a case's oracle; None if it is not a function of numpy, or fails now."""
    recorder = CallRecorder()
    if case.oracle.kind != "python":
        return None
    try:
        with blame_failures(Reason.REFERENCE_ERROR):
            run_oracle(case, [seed], [call.inputs], call.directory, call.project, recorder)
    except (CaseFailed, UserError):
        return None
    return NumpyChain(recorder, project) if recorder.outputs else None


class Replacement(NamedTuple):
    """A test of values: `outputs` gives the subject's outputs with another value in the place of one of its own."""

    values: Mapping[str, Plain]
    outputs: Callable[[str, Plain], Mapping[str, Plain]]
    passes: Callable[[Mapping[str, Plain]], bool]
    # Values are paired by their bits, as a golden demands, and not by their size.
    by_bits: bool
    limit: int


def find_differing_part(
    subject: NumpyChain, oracle: NumpyChain, output: str, test: Replacement
) -> tuple[DifferingPart | None, int]:
    """Return the differing part behind an output, and the number of replaced values.

    The part is None if the oracle lacks the output, or no operation differs.
    """
    if output not in subject.outputs or output not in oracle.outputs:
        return None, 0
    equal = _Equality(subject, test.values, oracle, by_bits=test.by_bits)
    tries = 0
    for made, other in _candidates(subject, oracle, subject.outputs[output], equal):
        if tries >= test.limit:
            break
        tries += 1
        if _passes(test, made, oracle.low[other]):
            return _part(subject, oracle, made, other, equal), tries
    made, other = _ends(subject, oracle, subject.outputs[output], oracle.outputs[output], equal.holds)
    return (None if equal.holds(made, other) else _part(subject, oracle, made, other, equal)), tries


def _part(subject: NumpyChain, oracle: NumpyChain, made: str, other: str, equal: _Equality) -> DifferingPart | None:
    places = tuple(sorted(_behind(subject, made, equal.is_paired)))
    return DifferingPart(places, made, oracle.low[other]) if places else None


def _passes(test: Replacement, made: str, value: Plain) -> bool:
    try:
        return test.passes(test.outputs(made, value))
    # The operations get a value that they never had.
    except Exception:
        return False


def _candidates(subject: NumpyChain, oracle: NumpyChain, output: str, equal: _Equality) -> Iterator[tuple[str, str]]:
    """Yield values of the subject without a pair, in order of execution, each with values of the oracle of its shape.

    The output itself does not count: with the oracle's result in its place, any subject passes.
    """
    own = [name for step in oracle.steps for name in step.makes if not equal.has_pair(name)]
    for place in sorted(_behind(subject, output, equal.is_paired)):
        for name in subject.steps[place].makes:
            if name != output and not equal.is_paired(name):
                yield from ((name, other) for other in own if oracle.low[other].shape == subject.low[name].shape)


class _Equality:
    """Compares values of a subject with an oracle's."""

    def __init__(self, subject: NumpyChain, values: Mapping[str, Plain], oracle: NumpyChain, *, by_bits: bool) -> None:
        self._subject, self._values, self._oracle, self._by_bits = subject, values, oracle, by_bits
        self._by_shape: dict[tuple[int, ...], list[str]] = {}
        for name, value in oracle.low.items():
            self._by_shape.setdefault(value.shape, []).append(name)
        self._paired: dict[str, bool] = {}

    def is_paired(self, name: str) -> bool:
        """Return whether any value of the oracle equals one of the subject."""
        if name not in self._paired:
            others = self._by_shape.get(np.shape(self._values[name]), ())
            self._paired[name] = any(self.holds(name, other) for other in others)
        return self._paired[name]

    def has_pair(self, other: str) -> bool:
        """Return whether any value of the subject equals one of the oracle."""
        return any(self.holds(name, other) for name in self._subject.low)

    def holds(self, name: str, other: str) -> bool:
        """Return whether a value of the subject equals one of the oracle."""
        one, two = np.asarray(self._values[name]), self._oracle.low[other]
        if one.shape != two.shape:
            return False
        if self._by_bits or not is_narrow(one.dtype):
            return bool(np.all((one == two) | ((one != one) & (two != two))))
        with np.errstate(all="ignore"):
            same = (one == two) | ((one != one) & (two != two))
            error = np.linalg.norm(np.where(same, 0, one - two).astype(complex).reshape(-1))
            size = np.linalg.norm(np.where(np.isfinite(two), two, 0).astype(complex).reshape(-1))
        return bool(error <= _SAME * _last_place(self._subject.low[name]) * size)


def _last_place(value: Plain) -> float:
    name = dtype_name(value.dtype)
    if name in FORMATS:
        return float(2.0 ** (1 - FORMATS[name].precision))
    return float(np.finfo(value.dtype).eps) if value.dtype.kind in "fc" else 0.0


def _ends(
    subject: NumpyChain, oracle: NumpyChain, made: str, other: str, holds: Callable[[str, str], bool]
) -> tuple[str, str]:
    """Walk back from an output while both computations end in the same operation, and one of its operands differs."""
    makers, others = _makers(subject), _makers(oracle)
    while made in makers and other in others:
        one, two = subject.calls[makers[made]].spelled, oracle.calls[others[other]].spelled
        pairs = [*zip(names_in(one), names_in(two), strict=False)]
        if _form(one) != _form(two) or len([*names_in(one)]) != len([*names_in(two)]):
            break
        differing = list(dict.fromkeys(pair for pair in pairs if not holds(*pair)))
        if len(differing) != 1:
            break
        ((made, other),) = differing
    return made, other


def _makers(chain: NumpyChain) -> dict[str, int]:
    return {name: place for place, step in enumerate(chain.steps) for name in step.makes}


def _form(value: Any) -> Any:
    """Return a call without the names of its values and without dtypes, which a reference has wider."""
    if isinstance(value, ValueName):
        return "value"
    if isinstance(value, SpelledCall):
        return (value.kind, value.name, _form(value.arguments), _form(dict(value.options)), _form(value.view))
    if isinstance(value, Mapping):
        return {name: _form(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_form(each) for each in value]
    is_dtype = isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic | float))
    return "dtype" if is_dtype else repr(value)


def _behind(chain: NumpyChain, made: str, stops: Callable[[str], bool]) -> Iterator[int]:
    """Yield the places of the operations that a value depends on, up to values that stop the way."""
    makers, waiting, seen = _makers(chain), [made], set[int]()
    while waiting:
        name = waiting.pop()
        place = makers.get(name)
        if place is None or place in seen:
            continue
        seen.add(place)
        yield place
        waiting += [each for each in chain.steps[place].reads if not stops(each)]
