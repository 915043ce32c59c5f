"""Sums on rationals: small sums written out by hand, plain loops of numpy, and published values of what is drawn."""

import numpy as np
import pytest

from precreg.arithmetic.exact import exact_dot, exact_matmul, exact_output, exact_random_bits, exact_total
from precreg.arithmetic.formats import FORMATS, Format, Rounding
from precreg.arithmetic.unit import Order, Unit

HALF, SINGLE, DOUBLE = FORMATS["float16"], FORMATS["float32"], FORMATS["float64"]
THREE_BITS = Format("three bits", 3, -20, 2.0**20)
"""From 4 to 8 only the whole numbers: sums are easily followed by eye."""


def unit(order=Order.SEQUENTIAL, width=1, accumulator=THREE_BITS, rounding=Rounding.TOWARD_ZERO, **fields):
    return Unit(DOUBLE, accumulator, DOUBLE, rounding=rounding, order=order, width=width, **fields)


@pytest.mark.parametrize(
    ("order", "width", "expected"),
    [
        (Order.SEQUENTIAL, 1, 7.0),  # 1.5 3 4(.5) 5(.5) 6(.5) 7(.5)
        (Order.BLOCKS, 2, 8.0),  # 3 and 3 and 3: 3 6 8(9)
        (Order.BLOCKS, 4, 8.0),  # 1.5 3 4(.5) 5(.5) and 3: 5 8
        (Order.LANES, 2, 8.0),  # 1.5 3 4(.5) twice
        (Order.LANES, 4, 8.0),  # 3 and 3 and 1.5 and 1.5: 3 6 7(.5) 8(.5)
        (Order.PAIRWISE, 1, 8.0),  # 3 3 3, then 6 and 3, then 8(9)
    ],
)
def test_each_order_by_hand(order, width, expected):
    assert exact_total([1.5] * 6, unit(order, width)) == expected


def test_lanes_and_blocks_take_different_terms():
    """Lanes add 7 - 7 and 1/4 + 1/4; blocks 7 + 1/4, which is 7, and -7 + 1/4, which is -6 (toward zero)."""
    terms = [7.0, 0.25, -7.0, 0.25]
    assert exact_total(terms, unit(Order.LANES, 2)) == 0.5
    assert exact_total(terms, unit(Order.BLOCKS, 2)) == 1.0


@pytest.mark.parametrize("order", Order)
def test_no_terms_give_zero(order):
    assert str(exact_total([], unit(order, 3))) == "0.0"
    assert str(exact_dot([], [], unit(order, 3))) == "0.0"


def test_an_odd_last_one_is_carried_up_as_it_is():
    """4 + 1/2 is 4, but 4 + (1/2 + 1/2) is 5: so it is seen which terms are pairs."""
    assert exact_total([0.5, 0.5, 4.0], unit(Order.PAIRWISE)) == 5.0
    assert exact_total([4.0, 0.5, 0.5], unit(Order.PAIRWISE)) == 4.0
    assert exact_total([4.0, 0.5, 0.5, 0.5], unit(Order.PAIRWISE)) == 5.0


def test_float32_sums_are_those_of_a_plain_loop():
    terms = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    total = np.float32(0)
    for term in terms:
        total = np.float32(total + term)
    nearest = unit(accumulator=SINGLE, rounding=Rounding.NEAREST_EVEN)
    assert exact_total(terms.tolist(), nearest) == total


def test_float16_stands_still_at_2048():
    """A published figure: 8192 ones, added one by one in float16."""
    half = unit(accumulator=HALF, rounding=Rounding.NEAREST_EVEN)
    assert exact_total([1.0] * 3000, half) == 2048.0


def test_products_are_rounded_where_a_format_is_given():
    """1.75 * 1.25 + 0.3125 is 2.5; but 1.75 * 1.25 by itself is 2 in 3 bits, and so is 2 + 0.3125."""
    x, y = [0.3125, 1.75], [1.0, 1.25]
    assert exact_dot(x, y, unit()) == 2.5
    assert exact_dot(x, y, unit(product=THREE_BITS)) == 2.0


def test_matrix_products_convert_on_the_way_in_and_out():
    """1/3 in 3 bits is 0.3125; three times 0.3125 is 0.9375, which 3 bits have as 0.875; in 2 bits it is 0.75."""
    two_bits = Format("two bits", 2, -20, 2.0**20)
    thirds = Unit(THREE_BITS, DOUBLE, two_bits, conversion=Rounding.TOWARD_ZERO)
    assert exact_matmul([[1 / 3, 1 / 3, 1 / 3]], [[1.0, 0.0], [1.0, 0.0], [1.0, 3.0]], thirds) == [[0.75, 0.75]]


def test_each_addition_draws_by_its_own_index():
    """Of element 2 with 3 terms additions have the indices 6, 7, 8, and the two merges of blocks of 2 have 9 and 10."""
    stochastic = unit(Order.BLOCKS, 2, rounding=Rounding.STOCHASTIC, seed=40)

    def up(value, spacing, index):
        low = value // spacing * spacing
        return low + spacing * ((value - low) / spacing * 2**24 > exact_random_bits(40, index))

    terms = [5.3, 1.9, 6.7]
    first = up(up(terms[0], 1, 6) + terms[1], 1, 7)
    second = up(terms[2], 1, 8)
    assert exact_total(terms, stochastic, 2) == up(first + second, 2, 10)
    assert exact_output(first / 3, Unit(HALF, HALF, THREE_BITS, conversion=Rounding.STOCHASTIC, seed=36), 10) == up(
        first / 3, 0.5, 10
    )
