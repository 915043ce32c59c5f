"""Systems: a differential equation by Runge and Kutta's steps, and linear equations by Cholesky's factors."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_double, as_half, as_single, cut, double, extended, fused, kept, single
from detecting.summing import backward, places, serial, shuffled, tree, unchanged

STEP = 0.1


def slope_of(a: Array, y: Array, total=serial, product=np.multiply) -> Array:
    """Return the product of each matrix with its vector, one term after the other."""
    return total(product(a, y[:, None]))


def runge_kutta(
    a,
    y,
    steps=4,
    slope=slope_of,
    stage=unchanged,
    state=unchanged,
    join=None,
    share=unchanged,
    read=unchanged,
    middle=0.5,
) -> Array:
    """Return the state of 24 linear systems of 8 unknowns after steps of 0.1, in the dtype of the state."""
    number = y.dtype.type
    h, a = number(STEP), read(a)
    for _ in range(steps):
        first = stage(slope(a, y))
        second = stage(slope(a, y + h * number(middle) * first))
        third = stage(slope(a, y + h * number(middle) * second))
        fourth = stage(slope(a, y + h * third))
        if join is not None:
            y = state(join(y, h, first, second, third, fourth))
        else:
            y = state(y + share(h / number(6)) * (first + number(2) * second + number(2) * third + fourth))
    return y


def from_the_middle(x: Array) -> Array:
    """Sum one term after the other, from the middle."""
    return serial(np.roll(x, x.shape[-1] // 2, axis=-1))


def outer_and_inner(y, h, first, second, third, fourth) -> Array:
    """Add the outer slopes and the inner ones apart."""
    return y + h / y.dtype.type(6) * ((first + fourth) + y.dtype.type(2) * (second + third))


def weights_apart(y, h, first, second, third, fourth, sixth=1 / 6, third_share=1 / 3) -> Array:
    """Give each slope a weight of its own."""
    sixth, third_share = y.dtype.type(sixth), y.dtype.type(third_share)
    return y + h * (sixth * first + third_share * second + third_share * third + sixth * fourth)


def one_after_the_other(y, h, first, second, third, fourth) -> Array:
    """Add the slopes to the state one after the other."""
    sixth, third_share = h / y.dtype.type(6), h / y.dtype.type(3)
    return (((y + sixth * first) + third_share * second) + third_share * third) + sixth * fourth


def wide_join(y, h, first, second, third, fourth) -> Array:
    """Add the slopes in long double."""
    first, second, third, fourth = (extended(slope) for slope in (first, second, third, fourth))
    return double(y + h / np.longdouble(6) * (first + 2 * second + 2 * third + fourth))


def extended_join(y, h, first, second, third, fourth) -> Array:
    """Add the slopes and the state in long double."""
    first, second, third, fourth = (extended(slope) for slope in (first, second, third, fourth))
    return extended(y) + extended(h) / 6 * (first + 2 * second + 2 * third + fourth)


def toward_zero(x: Array) -> Array:
    """Truncate long double to float64."""
    nearest = double(x)
    return np.where(np.abs(extended(nearest)) > np.abs(x), np.nextafter(nearest, 0.0), nearest)


def heun(y, h, first, second, third, fourth) -> Array:
    """Let the second slope alone count (the midpoint method)."""
    return y + h * second


RUNGE_KUTTA = Operator(
    "runge_kutta_float64",
    lambda random: (random.normal(0, 0.8, (24, 8, 8)), random.normal(0, 1, (24, 8))),
    lambda a, y: runge_kutta(extended(a), extended(y)),
    runge_kutta,
    {
        "slopes of 51 bits": partial(runge_kutta, stage=partial(kept, bits=51)),
        "slopes truncated to 51 bits": partial(runge_kutta, stage=partial(cut, bits=51)),
        "slopes in float32": partial(runge_kutta, stage=as_single),
        "slopes in bfloat16": partial(runge_kutta, stage=as_brain),
        "the state of 52 bits": partial(runge_kutta, state=partial(kept, bits=52)),
        "the state truncated to 53 bits of long double": partial(
            runge_kutta, join=lambda *parts: toward_zero(extended_join(*parts))
        ),
        "the state truncated to 52 bits": partial(runge_kutta, state=partial(cut, bits=52)),
        "the state in float32": partial(runge_kutta, state=as_single),
        "products truncated to 51 bits": partial(
            runge_kutta, slope=partial(slope_of, product=lambda a, y: cut(a * y, 51))
        ),
        "products rounded to 50 bits": partial(
            runge_kutta, slope=partial(slope_of, product=lambda a, y: kept(a * y, 50))
        ),
        "products in float32": partial(runge_kutta, slope=partial(slope_of, product=lambda a, y: as_single(a * y))),
        "matrices of 50 bits": partial(runge_kutta, read=partial(kept, bits=50)),
        "matrices read as float32": partial(runge_kutta, read=as_single),
        "h/6 in float32": partial(runge_kutta, share=lambda share: float(np.float32(share))),
        "weights with 15 digits": partial(
            runge_kutta, join=partial(weights_apart, sixth=0.166666666666667, third_share=0.333333333333333)
        ),
        "weights with 16 digits": partial(
            runge_kutta, join=partial(weights_apart, sixth=0.1666666666666667, third_share=0.3333333333333333)
        ),
        "weights with four digits": partial(runge_kutta, join=partial(weights_apart, sixth=0.1667, third_share=0.3333)),
        "the middle at 0.4999": partial(runge_kutta, middle=0.4999),
        "the midpoint method": partial(runge_kutta, join=heun),
        "the slopes added one after the other": partial(runge_kutta, join=one_after_the_other),
        "a step fewer": partial(runge_kutta, steps=3),
    },
    {
        "terms from the last": partial(runge_kutta, slope=partial(slope_of, total=backward)),
        "terms from the middle": partial(runge_kutta, slope=partial(slope_of, total=from_the_middle)),
        "terms in an order that was drawn": partial(
            runge_kutta, slope=partial(slope_of, total=partial(shuffled, order=serial))
        ),
        "a tree of terms": partial(runge_kutta, slope=partial(slope_of, total=tree)),
        "terms in long double": partial(
            runge_kutta, slope=partial(slope_of, total=lambda x: double(extended(x).sum(-1)))
        ),
        "outer and inner slopes apart": partial(runge_kutta, join=outer_and_inner),
        "weights apart": partial(runge_kutta, join=weights_apart),
        "slopes added in long double": partial(runge_kutta, join=wide_join),
        "everything in long double": lambda a, y: double(runge_kutta(extended(a), extended(y))),
    },
    # Unknowns are drawn alike: give them other numbers, and the matrix other rows and columns with them. From the last
    # and from the middle, this is its own inverse.
    null=frozenset({"terms from the last", "terms from the middle", "terms in an order that was drawn"}),
)


def cholesky(
    a,
    b,
    root=np.sqrt,
    column=unchanged,
    rest=unchanged,
    product=np.multiply,
    inverse=None,
    solved=unchanged,
    right=unchanged,
    less=None,
) -> Array:
    """Solve 40 systems of 8 unknowns by the factors of their matrices, in float32."""
    a, b, n = a.copy(), b.copy(), b.shape[1]
    less = less or (lambda x, y, z: rest(x - product(y, z)))
    below = np.empty_like(b)
    for j in range(n):
        below[:, j] = root(a[:, j, j])
        a[:, j + 1 :, j] = column(quotient(a[:, j + 1 :, j], below[:, j, None], inverse))
        side = a[:, j + 1 :, j]
        a[:, j + 1 :, j + 1 :] = less(a[:, j + 1 :, j + 1 :], side[:, :, None], side[:, None])
        b[:, j] = quotient(b[:, j], below[:, j], inverse)
        b[:, j + 1 :] = right(less(b[:, j + 1 :], side, b[:, j, None]))
    for j in range(n - 1, -1, -1):
        b[:, j] = solved(quotient(b[:, j], below[:, j], inverse))
        b[:, :j] = less(b[:, :j], a[:, j, :j], b[:, j, None])
    return b


def quotient(x: Array, y: Array, inverse=None) -> Array:
    """Divide, or multiply by the reciprocal if there is a way to round it."""
    return x / y if inverse is None else x * inverse(np.float32(1) / y)


def without_roots(a: Array, b: Array) -> Array:
    """Divide by the pivots, and take no roots."""
    a, b, n = a.copy(), b.copy(), b.shape[1]
    for j in range(n):
        side = a[:, j + 1 :, j] / a[:, j, j, None]
        a[:, j + 1 :, j + 1 :] -= side[:, :, None] * a[:, j, None, j + 1 :]
        b[:, j + 1 :] -= side * b[:, j, None]
    for j in range(n - 1, -1, -1):
        b[:, j] /= a[:, j, j]
        b[:, :j] -= a[:, :j, j] * b[:, j, None]
    return b


def renumbered(order: Array | None = None):
    """Return a solver that gives the unknowns other numbers: the last one first without an order."""

    def solve(a: Array, b: Array) -> Array:
        new = np.arange(b.shape[1])[::-1] if order is None else order
        found = np.empty_like(b)
        found[:, new] = cholesky(np.ascontiguousarray(a[:, new][:, :, new]), np.ascontiguousarray(b[:, new]))
        return found

    return solve


def refined(a: Array, b: Array, residual=single) -> Array:
    """Solve again for what is left over, which is computed in float64."""
    found = cholesky(a, b)
    return found + cholesky(a, residual(double(b) - (double(a) @ double(found)[..., None])[..., 0]))


def exact_cholesky(a: Array, b: Array) -> Array:
    """Solve in float64."""
    return np.linalg.solve(double(a), double(b)[..., None])[..., 0]


def positive(random: np.random.Generator) -> tuple[Array, Array]:
    """Draw positive matrices and right sides."""
    factor = random.normal(0, 1, (40, 8, 8))
    return single(factor @ factor.swapaxes(1, 2) / 8 + 0.5 * np.eye(8)), single(random.normal(0, 1, (40, 8)))


CHOLESKY = Operator(
    "cholesky_solve_float32",
    positive,
    exact_cholesky,
    cholesky,
    {
        "roots of 22 bits": partial(cholesky, root=lambda x: kept(np.sqrt(x), 22)),
        "roots of 20 bits": partial(cholesky, root=lambda x: kept(np.sqrt(x), 20)),
        "roots truncated to 22 bits": partial(cholesky, root=lambda x: cut(np.sqrt(x), 22)),
        "roots in float16": partial(cholesky, root=lambda x: as_half(np.sqrt(x))),
        "columns of 22 bits": partial(cholesky, column=partial(kept, bits=22)),
        "columns truncated to 23 bits": partial(cholesky, column=partial(cut, bits=23)),
        "columns in bfloat16": partial(cholesky, column=as_brain),
        "what remains of 23 bits": partial(cholesky, rest=partial(kept, bits=23)),
        "what remains of 22 bits": partial(cholesky, rest=partial(kept, bits=22)),
        "what remains truncated to 23 bits": partial(cholesky, rest=partial(cut, bits=23)),
        "what remains in float16": partial(cholesky, rest=as_half),
        "products of 22 bits": partial(cholesky, product=lambda x, y: kept(x * y, 22)),
        "products of 11 bits (TF32)": partial(cholesky, product=lambda x, y: kept(x, 11) * kept(y, 11)),
        "products truncated to 22 bits": partial(cholesky, product=lambda x, y: cut(x * y, 22)),
        "reciprocals of 22 bits": partial(cholesky, inverse=partial(kept, bits=22)),
        "reciprocals of 12 bits": partial(cholesky, inverse=partial(kept, bits=12)),
        "the right side truncated to 22 bits": partial(cholesky, right=partial(cut, bits=22)),
        "unknowns of 20 bits": partial(cholesky, solved=partial(kept, bits=20)),
        "1e-6 added to pivots": partial(cholesky, root=lambda x: np.sqrt(x + np.float32(1e-6))),
        "1e-7 added to pivots": partial(cholesky, root=lambda x: np.sqrt(x + np.float32(1e-7))),
    },
    {
        "from the last unknown": renumbered(),
        "from the middle": renumbered(np.roll(np.arange(8), 4)),
        "neighbouring unknowns exchanged": renumbered(np.arange(8) ^ 1),
        "unknowns in an order that was drawn": renumbered(places(8)),
        "multiplied and subtracted in one": partial(cholesky, less=lambda x, y, z: fused(-y, z, x)),
        "products in float64": partial(cholesky, less=lambda x, y, z: single(double(x) - double(y) * double(z))),
        "roots in float64": partial(cholesky, root=lambda x: as_double(np.sqrt, x)),
        "in float64": lambda a, b: single(exact_cholesky(a, b)),
        "no roots": without_roots,
        "refined by a residual of float64": refined,
        "by reciprocals": partial(cholesky, inverse=unchanged),
    },
    # Unknowns are drawn alike, so that the matrix with other numbers has the distribution of the matrix. All but the
    # order that was drawn are their own inverse.
    null=frozenset(
        {
            "from the last unknown",
            "from the middle",
            "neighbouring unknowns exchanged",
            "unknowns in an order that was drawn",
        }
    ),
)

OPERATORS = (RUNGE_KUTTA, CHOLESKY)
