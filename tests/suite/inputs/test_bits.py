import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Philox

from precreg.suite.inputs.distributions import derive_key, word_stream

MASK = 2**64 - 1


def philox4x64(counter, key):
    """Philox4x64-10 as its paper defines it: ten rounds on four words, the key stepped between them."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (second >> 64) ^ c1 ^ k0, second & MASK, (first >> 64) ^ c3 ^ k1, first & MASK
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return [c0, c1, c2, c3]


KNOWN_ANSWERS = [  # Random123, kat_vectors
    ([0] * 4, [0] * 2, "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
    ([MASK] * 4, [MASK] * 2, "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0"),
    (
        [0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89],
        [0x452821E638D01377, 0xBE5466CF34E90C6C],
        "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_published_answers(counter, key, expected):
    assert philox4x64(counter, key) == [int(word, 16) for word in expected.split()]
    before = sum(word << (64 * place) for place, word in enumerate(counter)) - 1
    numpys = Philox(counter=before % 2**256, key=key[0] + (key[1] << 64)).random_raw(4)
    assert [f"{word:016x}" for word in numpys] == expected.split()


@given(st.text(max_size=5), st.integers(0, 2**32))
def test_words_are_the_blocks_from_counter_one(name, seed):
    key = [int(word) for word in derive_key(name, seed)]
    expected = [word for block in (1, 2, 3) for word in philox4x64([block, 0, 0, 0], key)]
    np.testing.assert_array_equal(word_stream(name, seed)(12), np.array(expected, np.uint64))


def test_key_is_what_the_documentation_says():
    from hashlib import blake2b

    digest = blake2b(b"precreg-inputs-1\x00x\x0017", digest_size=16).digest()
    assert [int(word) for word in derive_key("x", 17)] == [
        int.from_bytes(digest[:8], "little"),
        int.from_bytes(digest[8:], "little"),
    ]


def test_names_seeds_and_purposes_have_streams_of_their_own():
    streams = [("x", 0), ("x", 1), ("y", 0), ("x", 0, "positions"), ("x1", 0), ("x", 10)]
    assert len({tuple(word_stream(*stream)(4)) for stream in streams}) == len(streams)


@given(st.lists(st.integers(0, 9), max_size=6))
def test_how_many_at_a_time_does_not_matter(counts):
    words = word_stream("x", 0)
    parts = [words(count) for count in counts]
    np.testing.assert_array_equal(np.concatenate([[], *parts]), word_stream("x", 0)(sum(counts)).astype(np.float64))
