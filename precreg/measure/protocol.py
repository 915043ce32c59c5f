"""What an analyzer is. It inherits from nothing: it declares metrics, and measures whole arrays or chunks of them.

The entry point of the group "precreg.analyzers" names the object, or a class that gives it without arguments. Metrics
are declared with names of their own; in records they are called ANALYZER.METRIC, after the entry point's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from precreg.types.metric import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray


if TYPE_CHECKING:
    Array = NDArray[Any]


State = TypeVar("State")

Figures = Mapping[str, Any]
"""Numbers by the declared names. What is left out, NaN or infinite is absent: a bound on it is broken."""


class WholeArrays(Protocol):
    """Measures two arrays of one shape at once, each in its own dtype. Both are read-only."""

    @property
    def metrics(self) -> Sequence[Metric]:
        """Describe every metric that may be given."""

    def __call__(self, actual: Array, reference: Array) -> Figures:
        """Return figures of two arrays that have at least one element, NaN and infinities included."""


class Chunked(Protocol[State]):
    """Measures arrays of any size chunk by chunk. States of neighbouring pieces merge into that of both together.

    A chunk has one dimension: neighbouring elements in C order. Where chunks begin does not depend on how many
    threads there are, and states are merged in the order of the pieces; so even sums that round come out the same.
    """

    @property
    def metrics(self) -> Sequence[Metric]:
        """Describe every metric that may be given."""

    def start(self, shape: tuple[int, ...], actual_dtype: str, reference_dtype: str) -> State:
        """Return the state of no element, of arrays of that shape; dtypes by name, as suites spell them."""

    def add(self, state: State, actual: Array, reference: Array, offset: int) -> State:
        """Return the state with a chunk more, whose first element has that flat index; `state` may be changed."""

    def merge(self, before: State, after: State) -> State:
        """Return the state of two neighbouring pieces; both may be changed."""

    def finish(self, state: State) -> Figures:
        """Return figures of all elements."""


class Declared(NamedTuple):
    """A function of whole arrays with its metrics."""

    metrics: tuple[Metric, ...]
    measure: Callable[[Array, Array], Figures]

    def __call__(self, actual: Array, reference: Array) -> Figures:
        """Call the function."""
        return self.measure(actual, reference)


def analyzer(*metrics: Metric) -> Callable[[Callable[[Array, Array], Figures]], Declared]:
    """Make an analyzer of a function of whole arrays, with the metrics that it gives."""

    def declared(measure: Callable[[Array, Array], Figures]) -> Declared:
        return Declared(metrics, measure)

    return declared
