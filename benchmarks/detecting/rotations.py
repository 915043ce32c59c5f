"""Rotary embeddings: pairs of features, turned by an angle that grows with the position."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_half, cut, double, fused, kept, single
from detecting.summing import unchanged

FREQUENCIES = 10000.0 ** (-np.arange(16) / 16)


def tables(positions: Array, frequencies: Array = FREQUENCIES, angle=unchanged) -> tuple[Array, Array]:
    """Return cosines and sines of position times frequency, computed in float64, rounded to float32."""
    angles = angle(double(positions)[:, None] * frequencies)
    return single(np.cos(angles)), single(np.sin(angles))


def in_float32(positions: Array) -> tuple[Array, Array]:
    """Return them of angles in float32."""
    angles = single(positions)[:, None] * single(FREQUENCIES)
    return np.cos(angles), np.sin(angles)


def near(positions: Array) -> tuple[Array, Array]:
    """Return them by the sums of angles: of multiples of 64, and of the rest."""
    (c, s), (p, q) = tables(positions // 64 * 64), tables(positions % 64)
    return c * p - s * q, s * p + c * q


def read_with(read):
    """Return tables that are read in another way."""
    return lambda positions: tuple(read(part) for part in tables(positions))


def turn_fused(a: Array, b: Array, c: Array, s: Array) -> tuple[Array, Array]:
    """Round one product of each sum, and add the other in one rounding: those with the first feature."""
    return fused(a, c, -(b * s)), fused(a, s, b * c)


def turn_mirrored(a: Array, b: Array, c: Array, s: Array) -> tuple[Array, Array]:
    """Add the products with the second feature in one rounding."""
    return fused(-b, s, a * c), fused(b, c, a * s)


def turn_twice(a: Array, b: Array, c: Array, s: Array, narrower=unchanged) -> tuple[Array, Array]:
    """Round all products."""
    return narrower(a * c) - narrower(b * s), narrower(a * s) + narrower(b * c)


def turn_by_three(a: Array, b: Array, c: Array, s: Array) -> tuple[Array, Array]:
    """Multiply three times instead of four."""
    shared = c * (a + b)
    return shared - b * (s + c), shared + a * (s - c)


def turn_wide(a: Array, b: Array, c: Array, s: Array) -> tuple[Array, Array]:
    """Turn in float64."""
    a, b, c, s = (double(part) for part in (a, b, c, s))
    return single(a * c - b * s), single(a * s + b * c)


def turn_by_shears(a: Array, b: Array, c: Array, s: Array) -> tuple[Array, Array]:
    """Turn by three shears."""
    slope = -s / (np.float32(1) + c)
    one = a + slope * b
    other = b + s * one
    return one + slope * other, other


def rotary(x, positions, angles=tables, turn=turn_fused, last=unchanged, read=unchanged) -> Array:
    """Turn pairs of features of three heads by the angles of 56 positions, in float32."""
    c, s = (part[:, None] for part in angles(positions))
    first, second = turn(read(x[..., :16]), read(x[..., 16:]), c, s)
    return last(np.concatenate([first, second], axis=-1))


def exact_rotary(x: Array, positions: Array) -> Array:
    """Turn in float64."""
    angles = double(positions)[:, None, None] * FREQUENCIES
    a, b, c, s = double(x[..., :16]), double(x[..., 16:]), np.cos(angles), np.sin(angles)
    return np.concatenate([a * c - b * s, a * s + b * c], axis=-1)


def last_position_again(x: Array, positions: Array) -> Array:
    """Turn the last row as the one before."""
    return rotary(x, np.concatenate([positions[:-1], positions[-2:-1]]))


def backward_tables(positions: Array) -> tuple[Array, Array]:
    """Return cosine and sine of negative angles, the sine negated."""
    c, s = tables(-positions)
    return c, -s


def by_cosines(positions: Array) -> tuple[Array, Array]:
    """Return the sine as a cosine of an angle that is a quarter of a turn smaller."""
    angles = double(positions)[:, None] * FREQUENCIES
    return single(np.cos(angles)), single(np.cos(angles - np.pi / 2))


ROTARY = Operator(
    "rotary_float32",
    lambda random: (single(random.normal(0, 1, (56, 3, 32))), np.sort(random.integers(0, 4096, 56))),
    exact_rotary,
    rotary,
    {
        "angles in float32": partial(rotary, angles=in_float32),
        "frequencies in float32": partial(rotary, angles=partial(tables, frequencies=double(single(FREQUENCIES)))),
        "frequencies with eight digits": partial(
            rotary, angles=partial(tables, frequencies=np.array([float(f"{one:.8g}") for one in FREQUENCIES]))
        ),
        "angles less turns of 6.2831853": partial(
            rotary, angles=partial(tables, angle=lambda angle: angle - 6.2831853 * np.floor(angle / 6.2831853))
        ),
        "tables in float16": partial(rotary, angles=read_with(as_half)),
        "tables in bfloat16": partial(rotary, angles=read_with(as_brain)),
        "tables of 22 bits": partial(rotary, angles=read_with(partial(kept, bits=22))),
        "tables of 23 bits": partial(rotary, angles=read_with(partial(kept, bits=23))),
        "tables truncated to 23 bits": partial(rotary, angles=read_with(partial(cut, bits=23))),
        "tables by sums of angles": partial(rotary, angles=near),
        "products truncated to 23 bits": partial(rotary, turn=partial(turn_twice, narrower=partial(cut, bits=23))),
        "products rounded to 22 bits": partial(rotary, turn=partial(turn_twice, narrower=partial(kept, bits=22))),
        "products in bfloat16": partial(rotary, turn=partial(turn_twice, narrower=as_brain)),
        "three products": partial(rotary, turn=turn_by_three),
        "three shears": partial(rotary, turn=turn_by_shears),
        "features read as float16": partial(rotary, read=as_half),
        "features truncated to 22 bits": partial(rotary, read=partial(cut, bits=22)),
        "truncated to 23 bits": partial(rotary, last=partial(cut, bits=23)),
        "rounded to 23 bits": partial(rotary, last=partial(kept, bits=23)),
        "the last position as the one before": last_position_again,
        "four products": partial(rotary, turn=turn_twice),
    },
    {
        "the other products in one": partial(rotary, turn=turn_mirrored),
        "turned in float64": partial(rotary, turn=turn_wide),
        "everything in float64": lambda x, positions: single(exact_rotary(x, positions)),
        "angles less whole turns": partial(
            rotary, angles=partial(tables, angle=lambda angle: angle - 2 * np.pi * np.rint(angle / (2 * np.pi)))
        ),
        "turned backward by the negative angle": partial(rotary, angles=backward_tables),
        "heads one after the other": lambda x, positions: np.concatenate(
            [rotary(x[:, head, None], positions) for head in range(3)], axis=1
        ),
        "the sine as a cosine a quarter before": partial(rotary, angles=by_cosines),
    },
    # Turn the pair by a quarter first: (a, b) to (b, -a). Pairs are drawn alike in each direction, and the one way of
    # rounding becomes the other, with the results exchanged and one of them negated.
    null=frozenset({"the other products in one"}),
)


OPERATORS = (ROTARY,)
