"""An amount of memory is read with its unit, and written with all its digits."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.suite import describe_memory, required_memory


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("memory:8GB", 8 * 10**9),
        ("memory:8 GB", 8 * 10**9),
        ("memory:1.5GiB", 3 * 2**29),
        ("memory:512MiB", 2**29),
        ("memory:0.0000001kB", 1),
        ("memory:12B", 12),
    ],
)
def test_an_amount_is_read_in_bytes(text, size):
    assert required_memory(text) == size


@pytest.mark.parametrize(
    "text", ["memory:", "memory:8", "memory:-1GB", "memory:8gb", "memory:1e9B", "8GB", "device:8GB"]
)
def test_another_text_is_no_amount(text):
    assert required_memory(text) is None


@given(st.integers(0, 10**15))
def test_different_amounts_have_different_texts(size):
    number, unit = re.fullmatch(r"([\d.]+) ([kMGT]?B)", describe_memory(size)).groups()
    power = {"B": 0, "kB": 1, "MB": 2, "GB": 3, "TB": 4}[unit]
    assert Fraction(number) * 1000**power == size
