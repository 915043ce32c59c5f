"""How do processes share the pairs of a comparison?

Workers take pairs in batches, and answer each batch at once: small pairs take less time than their messages. If a
process dies, its batch runs again pair by pair, so that one pair alone gets the blame.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from shlex import quote
from typing import NamedTuple

from msgspec import Struct, msgpack

from precreg.comparison.pairing import ArrayPlace, StoredPair
from precreg.comparison.session import ComparisonTerms, compare_pair, unmeasured_pair
from precreg.run import LocalPlace, RunPlace
from precreg.storage import RemoteFile, fetch_objects
from precreg.types import ComparedPair, Failure

# Starting processes costs more than they save on fewer pairs; threads share the elements of each pair instead.
MIN_PAIRS_TO_SHARE = 64

# A message takes as long as a small pair, and a batch of so many makes it a small part.
MAX_PAIRS_OF_BATCH = 32
# Each process gets at least so many batches, so that all finish together.
BATCHES_OF_PROCESS = 8
# Failing pairs keep all their positions. A batch of pairs with more would come near the limit of a message.
MAX_POSITIONS_OF_BATCH = 10_000

# A batch of so many objects, both sides and a benchmark, has 24 MiB at most in a process.
MAX_FETCHED_BYTES = 1 << 18

PairBatch = tuple[StoredPair, ...]


class ComparedBatch(Struct, frozen=True):
    """The pairs of a batch that starts with the pair `first`; no pair if the process of several pairs died."""

    first: str
    pairs: tuple[ComparedPair, ...]


class PairTask(NamedTuple):
    """The pairs of a comparison in batches, as the task of workers."""

    terms: ComparisonTerms

    def prepare(self) -> None:
        """Import nothing: a worker that has this class has all modules. Exclude these from garbage collection."""
        gc.freeze()

    def run(self, batch: PairBatch, printed: Callable[[], str]) -> ComparedBatch:
        """Load, measure and judge the pairs of a batch, and drop the text that analyzers print."""
        return ComparedBatch(batch[0].name, tuple([compare_pair(pair, self.terms) for pair in fetch_small(batch)]))

    def decoder(self) -> msgpack.Decoder[ComparedBatch]:
        """Return the decoder of compared batches."""
        return msgpack.Decoder(ComparedBatch)

    def item_key(self, batch: PairBatch) -> str:
        """Return the name of the first pair of a batch."""
        return batch[0].name

    def answer_key(self, compared: ComparedBatch) -> str:
        """Return the name of the first pair of a compared batch."""
        return compared.first

    def timeout_s(self, batch: PairBatch) -> float:
        """Return infinity: a pair may take any time."""
        return inf

    def give_up(self, batch: PairBatch, failure: Failure) -> ComparedBatch:
        """Return the verdict on a pair whose worker died; no pair of several, because any of them may be the cause."""
        if len(batch) > 1:
            return ComparedBatch(batch[0].name, ())
        message = f"{failure.message}; compare it alone to see why: --select {quote(batch[0].name)}"
        return ComparedBatch(batch[0].name, (unmeasured_pair(batch[0], failure.reason, message),))


def compare_pairs(
    pairs: Sequence[StoredPair], terms: ComparisonTerms, jobs: int, cluster: RunPlace | None = None
) -> Iterator[ComparedPair]:
    """Measure and judge every pair, and yield each as it comes; `jobs` is the number of processes, 0 for this one.

    A cluster takes the place of the processes. A process that dies costs the pair that it compared. Raises UserError
    (no-workers) if a process cannot start, and errors of a cluster.
    """
    if cluster is not None:
        return _shared(pairs, terms, cluster)
    if jobs <= 1 or len(pairs) < MIN_PAIRS_TO_SHARE:
        own = terms._replace(threads=max(jobs, 1))
        batches = (pairs[start : start + MAX_PAIRS_OF_BATCH] for start in range(0, len(pairs), MAX_PAIRS_OF_BATCH))
        return (compare_pair(pair, own) for batch in batches for pair in fetch_small(batch))
    return _shared(pairs, terms, LocalPlace(jobs))


def fetch_small(pairs: Sequence[StoredPair]) -> Sequence[StoredPair]:
    """Read the small objects of pairs at once: one after the other, each would wait for the store."""
    files = [place.path for pair in pairs for place in pair[1:] if place is not None]
    small = {file for file in files if isinstance(file, RemoteFile) and file.size <= MAX_FETCHED_BYTES}
    if not small:
        return pairs
    fetched = {file.url: file for file in fetch_objects(list(small))}
    return [StoredPair(pair.name, *(_with_content(place, fetched) for place in pair[1:])) for pair in pairs]


def _with_content(place: ArrayPlace | None, fetched: Mapping[str, RemoteFile]) -> ArrayPlace | None:
    # An array of an archive is read from its place there.
    if place is None or place.found is not None or not isinstance(place.path, RemoteFile):
        return place
    return place._replace(path=fetched.get(place.path.url, place.path))


def _shared(pairs: Sequence[StoredPair], terms: ComparisonTerms, place: RunPlace) -> Iterator[ComparedPair]:
    batches = {batch[0].name: batch for batch in pair_batches(pairs, terms, place.jobs)}
    lost: list[PairBatch] = []
    for compared in place.run(list(batches.values()), PairTask(terms)):
        yield from compared.pairs
        if not compared.pairs:
            lost += [(pair,) for pair in batches[compared.first]]
    if lost:
        for compared in place.run(lost, PairTask(terms)):
            yield from compared.pairs


def pair_batches(pairs: Sequence[StoredPair], terms: ComparisonTerms, jobs: int) -> list[PairBatch]:
    """Divide pairs, in their order, into batches of equal size for so many processes; the last one may be smaller."""
    most = max(1, min(MAX_PAIRS_OF_BATCH, MAX_POSITIONS_OF_BATCH // max(terms.worst, 1)))
    size = max(1, min(most, len(pairs) // (jobs * BATCHES_OF_PROCESS)))
    return [tuple(pairs[start : start + size]) for start in range(0, len(pairs), size)]
