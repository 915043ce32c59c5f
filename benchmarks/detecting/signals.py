"""Transforms and windows: results near zero."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import (
    as_brain,
    as_double,
    as_half,
    cut,
    double,
    fused,
    kept,
    single,
)
from detecting.summing import unchanged

SIZE = 128


def twiddles(n: int) -> tuple[Array, Array]:
    """Give the roots of unity, rounded from float64."""
    angle = -2 * np.pi * np.arange(n // 2) / n
    return single(np.cos(angle)), single(np.sin(angle))


def by_recurrence(n: int) -> tuple[Array, Array]:
    """Multiply one root by the next."""
    turn, roots = np.complex64(np.exp(-2j * np.pi / n)), [np.complex64(1)]
    for _ in range(n // 2 - 1):
        roots.append(np.complex64(roots[-1] * turn))
    return np.array(roots).real, np.array(roots).imag


def of_float32_angles(n: int) -> tuple[Array, Array]:
    """Take cosine and sine of angles in float32."""
    angle = np.float32(-2 * np.pi) * single(np.arange(n // 2)) / np.float32(n)
    return np.cos(angle), np.sin(angle)


def read_with(read):
    """Let the roots of unity be read in another way."""
    return lambda n: tuple(read(part) for part in twiddles(n))


def transform(re, im, roots=twiddles, keep=unchanged, product=unchanged) -> tuple[Array, Array]:
    """Transform rows by halves (decimation in time)."""
    n = re.shape[-1]
    if n == 1:
        return re, im
    even = transform(re[..., 0::2], im[..., 0::2], roots, keep, product)
    odd = transform(re[..., 1::2], im[..., 1::2], roots, keep, product)
    c, s = (part.astype(re.dtype) for part in roots(n))
    a, b = product(c * odd[0]) - product(s * odd[1]), product(c * odd[1]) + product(s * odd[0])
    return tuple(
        keep(np.concatenate([one + other, one - other], axis=-1)) for one, other in ((even[0], a), (even[1], b))
    )


def fft(x, scale=unchanged, **choices) -> Array:
    """Give real and imaginary parts of the transform of real rows, in float32."""
    return np.stack(transform(scale(x), np.zeros_like(x), **choices), axis=1)


def exact_fft(x: Array) -> Array:
    """Transform in float64."""
    found = np.fft.fft(double(x), axis=-1)
    return np.stack([found.real, found.imag], axis=1)


def in_frequency(x: Array) -> Array:
    """Transform by halves, decimating in frequency."""
    re, im, n = x.copy(), np.zeros_like(x), x.shape[-1]
    re, im = re[:, None], im[:, None]
    while n > 1:
        c, s = twiddles(n)
        (a, b), (p, q) = (np.split(part, 2, axis=-1) for part in (re, im))
        u, v = a - b, p - q
        re = np.stack([a + b, u * c - v * s], axis=2).reshape(len(x), -1, n // 2)
        im = np.stack([p + q, u * s + v * c], axis=2).reshape(len(x), -1, n // 2)
        n //= 2
    order = np.array([int(f"{at:0{SIZE.bit_length() - 1}b}"[::-1], 2) for at in range(SIZE)])
    return np.stack([re[:, order, 0], im[:, order, 0]], axis=1)


def three_products(x: Array) -> Array:
    """Multiply complex numbers by three products."""

    def recurse(re: Array, im: Array) -> tuple[Array, Array]:
        if re.shape[-1] == 1:
            return re, im
        (er, ei), (r, i) = recurse(re[:, 0::2], im[:, 0::2]), recurse(re[:, 1::2], im[:, 1::2])
        c, s = twiddles(re.shape[-1])
        shared = c * (r + i)
        a, b = shared - i * (c + s), shared + r * (s - c)
        return np.concatenate([er + a, er - a], -1), np.concatenate([ei + b, ei - b], -1)

    return np.stack(recurse(x, np.zeros_like(x)), axis=1)


def by_conjugate(x: Array) -> Array:
    """Transform the rows backward, and conjugate."""
    found = fft(np.roll(x[:, ::-1], 1, axis=-1))
    return np.stack([found[:, 0], -found[:, 1]], axis=1)


FFT = Operator(
    "fft_float32",
    lambda random: (single(random.normal(0, 1, (12, SIZE))),),
    exact_fft,
    fft,
    {
        "roots of 22 bits": partial(fft, roots=read_with(partial(kept, bits=22))),
        "roots of 23 bits": partial(fft, roots=read_with(partial(kept, bits=23))),
        "roots truncated to 22 bits": partial(fft, roots=read_with(partial(cut, bits=22))),
        "roots by multiplication": partial(fft, roots=by_recurrence),
        "roots of angles in float32": partial(fft, roots=of_float32_angles),
        "roots in float16": partial(fft, roots=read_with(as_half)),
        "stages truncated to 23 bits": partial(fft, keep=partial(cut, bits=23)),
        "stages of 23 bits": partial(fft, keep=partial(kept, bits=23)),
        "stages in float16": partial(fft, keep=as_half),
        "products of 22 bits": partial(fft, product=partial(kept, bits=22)),
        "products truncated to 23 bits": partial(fft, product=partial(cut, bits=23)),
        "three products": three_products,
        "the last sample again the one before": lambda x: fft(np.concatenate([x[:, :-1], x[:, -2:-1]], axis=1)),
        "samples read with 16 bits": partial(fft, scale=partial(kept, bits=16)),
    },
    {
        "decimated in frequency": in_frequency,
        "backward and conjugated": by_conjugate,
        "scaled and scaled back": lambda x: fft(x * np.float32(0.25)) * np.float32(4),
        "in float64": lambda x: single(exact_fft(x)),
        "products in float64": lambda x: single(fft(double(x))),
        "rows in two halves": lambda x: np.concatenate([fft(x[:6]), fft(x[6:])]),
        "negated": lambda x: -fft(-x),
        "from the middle": lambda x: fft(np.roll(x, SIZE // 2, axis=-1)) * single(1 - 2 * (np.arange(SIZE) % 2)),
    },
    # Errors are distributed alike: samples are drawn alike, so that a row is drawn like itself backward.
    null=frozenset({"backward and conjugated"}),
)

TURN = np.float32(2 * np.pi)


def window(at, turn=TURN, cos=np.cos, angle=unchanged) -> Array:
    """Give a Hann window at places from 0 to 1: near zero at both ends."""
    return np.float32(0.5) - np.float32(0.5) * cos(angle(turn * at))


def cosine_by_terms(x: Array, terms: int) -> Array:
    """Give cos(x) of 0 to 2 pi by Taylor's series about pi."""
    square = np.square(x - np.float32(np.pi))
    value = np.ones_like(x)
    for term in range(2 * terms, 0, -2):
        value = np.float32(1) - value * square / np.float32(term * (term - 1))
    return -value


HANN = Operator(
    "hann_window_float32",
    lambda random: (single(random.uniform(0, 1, 6000)),),
    lambda at: 0.5 - 0.5 * np.cos(2 * np.pi * double(at)),
    window,
    {
        "2 pi with five digits": partial(window, turn=np.float32(6.2832)),
        "2 pi with seven digits": partial(window, turn=np.float32(6.283185 - 2e-6)),
        "2 pi with three digits": partial(window, turn=np.float32(6.28)),
        "angles of 23 bits": partial(window, angle=partial(kept, bits=23)),
        "angles of 22 bits": partial(window, angle=partial(kept, bits=22)),
        "angles truncated to 23 bits": partial(window, angle=partial(cut, bits=23)),
        "angles in bfloat16": partial(window, angle=as_brain),
        "cosines of 22 bits": partial(window, cos=lambda x: kept(np.cos(x), 22)),
        "cosines truncated to 23 bits": partial(window, cos=lambda x: cut(np.cos(x), 23)),
        "cosines in float16": partial(window, cos=lambda x: as_half(np.cos(x))),
        "a series of nine terms": partial(window, cos=partial(cosine_by_terms, terms=9)),
        "a series of seven terms": partial(window, cos=partial(cosine_by_terms, terms=7)),
        "Hamming's": lambda at: np.float32(0.54) - np.float32(0.46) * np.cos(TURN * at),
        "a window one place off": lambda at: window(np.roll(at, 1)),
    },
    {
        "the square of a sine": lambda at: np.square(np.sin(np.float32(np.pi) * at)),
        "one minus the cosine, halved": lambda at: np.float32(0.5) * (np.float32(1) - np.cos(TURN * at)),
        "the cosine in float64": partial(window, cos=lambda x: as_double(np.cos, x)),
        "everything in float64": lambda at: single(0.5 - 0.5 * np.cos(2 * np.pi * double(at))),
        "the angle doubled": lambda at: window(at, turn=np.float32(np.pi), angle=lambda x: x + x),
        "symmetric about the middle": lambda at: window(np.minimum(at, np.float32(1) - at)),
        "in two pieces": lambda at: np.concatenate([window(at[:100]), window(at[100:])]),
        "halves subtracted in one": lambda at: fused(np.float32(-0.5), np.cos(TURN * at), np.float32(0.5)),
    },
)

OPERATORS = (FFT, HANN)
