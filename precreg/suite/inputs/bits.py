"""The random bits of an input: the same 64-bit words on every machine and with every version of numpy.

Words are the raw output of Philox4x64-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC11), which
numpy promises to keep; numpy's distributions carry no such promise and are not used. The key is the first
128 bits, as two little-endian words, of

    BLAKE2b-128(b"precreg-inputs-1" NUL name NUL seed)        or, for a second stream, ... seed NUL purpose)

with the name in UTF-8 and the seed in decimal. Word 4*i + j is word j of the block with the counter i + 1.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, cast

import numpy as np
from numpy.random import Philox
from numpy.typing import NDArray

Words = Callable[[int], NDArray[np.uint64]]
"""A stream of words: called with a count, it gives that many, after those it gave before."""


def derive_key(name: str, seed: int, purpose: str | None = None) -> NDArray[np.uint64]:
    """Return the two words of the key for an input's name and seed, and for a second stream its purpose."""
    parts = ["precreg-inputs-1", name, str(seed)] + ([] if purpose is None else [purpose])
    digest = blake2b("\0".join(parts).encode(), digest_size=16).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def word_stream(name: str, seed: int, purpose: str | None = None) -> Words:
    """Return the stream of words for an input's name and seed; it starts anew with every call."""
    return cast(Words, Philox(key=cast(Any, derive_key(name, seed, purpose))).random_raw)
