"""All pairs of a comparison, shared among processes where they are many; of users' code only analyzers run in them."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from msgspec import msgpack

from precreg.comparison.measuring import Terms, compared
from precreg.comparison.pairing import Pair
from precreg.errors import UserError
from precreg.run.worker_process import prepare
from precreg.types.records import ComparedPair

FEWEST_TO_SHARE = 64
"""Pairs below which starting processes costs more than it saves; threads share the elements of each pair instead."""


LARGEST_BATCH = 32

BATCHES_PER_WORKER = 8

BATCHES_WAITING = 2
"""Per worker: so many that none waits for work."""


def all_compared(pairs: Sequence[Pair], terms: Terms, jobs: int) -> Iterator[ComparedPair]:
    """Measure and judge every pair, and yield each as it comes; `jobs` is the number of processes, 0 for this one.

    Raises UserError (no-workers) when processes cannot be started, or one of them dies.
    """
    if jobs <= 1 or len(pairs) < FEWEST_TO_SHARE:
        return (compared(pair, terms._replace(threads=max(jobs, 1))) for pair in pairs)
    return _shared(pairs, terms, jobs)


def _shared(pairs: Sequence[Pair], terms: Terms, jobs: int) -> Iterator[ComparedPair]:
    prepare()
    decoder = msgpack.Decoder(tuple[ComparedPair, ...])
    context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_leave_interrupts_to_the_parent)
    try:
        for answer in _answers(pool, _batches(pairs, jobs), terms, jobs):
            yield from decoder.decode(answer)
    except (BrokenProcessPool, OSError) as problem:
        raise UserError("no-workers", f"expected the processes that compare to live but: {problem}") from None
    except (KeyboardInterrupt, GeneratorExit):
        _stop_children()  # nobody waits for what they are at
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _answers(pool: ProcessPoolExecutor, batches: Iterator[Sequence[Pair]], terms: Terms, jobs: int) -> Iterator[bytes]:
    waiting: set[Future[bytes]] = set()
    for batch in batches:
        with interrupts_held_back():  # in the middle of starting a process one would leave a pool that never ends
            waiting.add(pool.submit(_compared_batch, batch, terms))
        if len(waiting) >= jobs * BATCHES_WAITING:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    while waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        yield from (future.result() for future in done)


def _batches(pairs: Sequence[Pair], jobs: int) -> Iterator[Sequence[Pair]]:
    size = max(1, min(LARGEST_BATCH, len(pairs) // (jobs * BATCHES_PER_WORKER)))
    return (pairs[first : first + size] for first in range(0, len(pairs), size))


def _compared_batch(pairs: Sequence[Pair], terms: Terms) -> bytes:
    return msgpack.encode([compared(pair, terms) for pair in pairs])


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Let an interrupt that comes inside be raised at the end, as KeyboardInterrupt. For the main thread."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _stop_children() -> None:
    for child in multiprocessing.active_children():
        child.terminate()


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
