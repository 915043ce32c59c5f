"""Steps of optimisers: state in float32 or bfloat16, small updates to large weights."""

from __future__ import annotations

from functools import partial

import numpy as np

from detecting.operator import Array, Operator
from detecting.rounding import as_brain, as_double, as_half, brain, brain_cut, cut, double, fused, kept, single
from detecting.summing import unchanged

RATE, EPSILON = np.float32(1e-3), np.float32(1e-8)
RESTS = np.float32(0.1), np.float32(0.001)
STEP, SHARE, DECAY = np.float32(0.05), np.float32(0.9), np.float32(0.01)
ONE = np.float32(1)


def adam(
    m,
    v,
    g,
    betas=(0.9, 0.999),
    rests=RESTS,
    first=unchanged,
    second=unchanged,
    root=np.sqrt,
    quotient=np.divide,
    corrections=(1 - 0.9**10, 1 - 0.999**10),
    epsilon=EPSILON,
) -> Array:
    """Give the tenth update of Adam's, in float32."""
    first_beta, second_beta = map(np.float32, betas)
    m = first(first_beta * m + rests[0] * g)
    v = second(second_beta * v + rests[1] * g * g)
    return RATE * quotient(m / np.float32(corrections[0]), root(v / np.float32(corrections[1])) + epsilon)


def exact_adam(m: Array, v: Array, g: Array) -> Array:
    """Give the update in float64."""
    m, v, g = double(m), double(v), double(g)
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return 1e-3 * (m / (1 - 0.9**10)) / (np.sqrt(v / (1 - 0.999**10)) + 1e-8)


def moments(random: np.random.Generator) -> tuple[Array, ...]:
    """Draw the moments of gradients, and a gradient."""
    g = random.normal(0, 0.02, (70, 80)) * random.uniform(0.2, 3, (70, 1))
    return single(random.normal(0, 0.4, g.shape) * g), single(0.01 * g**2 * random.uniform(0.3, 2, g.shape)), single(g)


def towards(m: Array, v: Array, g: Array) -> Array:
    """Move the moments towards the gradient by a share of the difference."""
    m, v = m + np.float32(0.1) * (g - m), v + np.float32(0.001) * (g * g - v)
    return RATE * ((m / np.float32(1 - 0.9**10)) / (np.sqrt(v / np.float32(1 - 0.999**10)) + EPSILON))


def rate_corrected(m: Array, v: Array, g: Array) -> Array:
    """Put both corrections into the rate, and into epsilon."""
    m, v = np.float32(0.9) * m + np.float32(0.1) * g, np.float32(0.999) * v + np.float32(0.001) * (g * g)
    both = np.sqrt(1 - 0.999**10)
    return np.float32(1e-3 * both / (1 - 0.9**10)) * (m / (np.sqrt(v) + np.float32(1e-8 * both)))


def multiplied_first(m: Array, v: Array, g: Array) -> Array:
    """Multiply by the rate before the division."""
    m, v = np.float32(0.9) * m + np.float32(0.1) * g, np.float32(0.999) * v + np.float32(0.001) * g * g
    return RATE * (m / np.float32(1 - 0.9**10)) / (np.sqrt(v / np.float32(1 - 0.999**10)) + EPSILON)


def fused_adam(m: Array, v: Array, g: Array) -> Array:
    """Multiply and add in one rounding."""
    m = fused(np.float32(0.9), m, np.float32(0.1) * g)
    v = fused(np.float32(0.999), v, np.float32(0.001) * g * g)
    return RATE * ((m / np.float32(1 - 0.9**10)) / (np.sqrt(v / np.float32(1 - 0.999**10)) + EPSILON))


def moments_in_float64(m: Array, v: Array, g: Array) -> Array:
    """Compute moments in float64 and round them."""
    m, v = single(0.9 * double(m) + 0.1 * double(g)), single(0.999 * double(v) + 0.001 * double(g) ** 2)
    return RATE * ((m / np.float32(1 - 0.9**10)) / (np.sqrt(v / np.float32(1 - 0.999**10)) + EPSILON))


ADAM = Operator(
    "adam_float32",
    moments,
    exact_adam,
    adam,
    {
        "1 - beta of a rounded beta": partial(adam, rests=(ONE - np.float32(0.9), ONE - np.float32(0.999))),
        "1 - beta of a rounded beta, the first alone": partial(adam, rests=(ONE - np.float32(0.9), np.float32(0.001))),
        "the first moment in bfloat16": partial(adam, first=as_brain),
        "the first moment of 23 bits": partial(adam, first=partial(kept, bits=23)),
        "the first moment of 22 bits": partial(adam, first=partial(kept, bits=22)),
        "the second moment in bfloat16": partial(adam, second=as_brain),
        "the second moment of 23 bits": partial(adam, second=partial(kept, bits=23)),
        "the second moment of 22 bits": partial(adam, second=partial(kept, bits=22)),
        "the second moment truncated to 22 bits": partial(adam, second=partial(cut, bits=22)),
        "the root truncated to 23 bits": partial(adam, root=lambda v: cut(np.sqrt(v), 23)),
        "the root in float16": partial(adam, root=lambda v: as_half(np.sqrt(v))),
        "epsilon inside of the root": partial(adam, root=lambda v: np.sqrt(v + EPSILON), epsilon=np.float32(0)),
        "epsilon of 1e-7": partial(adam, epsilon=np.float32(1e-7)),
        "epsilon lost": partial(adam, epsilon=np.float32(0)),
        "no correction": partial(adam, corrections=(1.0, 1.0)),
        "corrections of the step before": partial(adam, corrections=(1 - 0.9**9, 1 - 0.999**9)),
        "corrections with six digits": partial(adam, corrections=(0.651322, 0.00995512)),
        "by the reciprocal, of 22 bits": partial(adam, quotient=lambda x, y: x * kept(ONE / y, 22)),
    },
    {
        "towards the gradient": towards,
        "corrections in the rate": rate_corrected,
        "times the rate first": multiplied_first,
        "multiplied and added in one": fused_adam,
        "by the reciprocal": partial(adam, quotient=lambda x, y: x * (ONE / y)),
        "the root in float64": partial(adam, root=lambda v: as_double(np.sqrt, v)),
        "everything in float64": lambda m, v, g: single(exact_adam(m, v, g)),
        "the moments in float64": moments_in_float64,
        "twice the quotient, half the rate": lambda m, v, g: (
            np.float32(0.5) * adam(m, v, g, quotient=lambda x, y: 2 * x / y)
        ),
    },
)


def momentum(
    w,
    speed,
    g,
    rate=STEP,
    share=SHARE,
    decay=DECAY,
    kept_speed=unchanged,
    pull=unchanged,
    step=unchanged,
    store=brain,
) -> Array:
    """Step with momentum and decay: weights are stored in bfloat16, all else is float32."""
    w, g = single(w), single(g)
    speed = kept_speed(share * speed + pull(g + decay * w))
    return store(w - step(rate * speed))


def exact_momentum(w: Array, speed: Array, g: Array) -> Array:
    """Step in float64, with constants as they are in float32."""
    rate, share, decay = (double(np.float32(value)) for value in (0.05, 0.9, 0.01))
    w = double(w)
    return w - rate * (share * double(speed) + double(g) + decay * w)


def decayed_apart(w: Array, speed: Array, g: Array, decay=0.01) -> Array:
    """Let the decay shrink the weight first."""
    rate = np.float32(0.05)
    shrunk = single(w) * (ONE - rate * np.float32(decay))
    return brain(shrunk - rate * (np.float32(0.9) * speed + single(g)))


def one_formula(w: Array, speed: Array, g: Array) -> Array:
    """Add three products."""
    rate, share = np.float32(0.05), np.float32(0.9)
    return brain((single(w) - rate * share * speed) - (rate * single(g) + rate * np.float32(0.01) * single(w)))


MOMENTUM = Operator(
    "momentum_bfloat16",
    lambda random: (
        brain(random.normal(0, 0.5, (64, 96))),
        single(random.normal(0, 3, (64, 96))),
        brain(random.normal(0, 1, (64, 96))),
    ),
    exact_momentum,
    momentum,
    {
        "the speed in bfloat16": partial(momentum, kept_speed=as_brain),
        "the speed of 9 bits": partial(momentum, kept_speed=partial(kept, bits=9)),
        "the speed truncated to bfloat16": partial(momentum, kept_speed=partial(cut, bits=8)),
        "the step in bfloat16": partial(momentum, step=as_brain),
        "the step truncated to 9 bits": partial(momentum, step=partial(cut, bits=9)),
        "the pull of 6 bits": partial(momentum, pull=partial(kept, bits=6)),
        "the rate in bfloat16": partial(momentum, rate=single(brain(0.05))),
        "the share in bfloat16": partial(momentum, share=single(brain(0.9))),
        "the decay lost": partial(momentum, decay=np.float32(0)),
        "the decay lost in half of the weights": lambda w, speed, g: np.concatenate(
            [momentum(w[:32], speed[:32], g[:32]), momentum(w[32:], speed[32:], g[32:], decay=np.float32(0))]
        ),
        "the share of the speed before": partial(momentum, share=np.float32(0.91)),
        "truncated to bfloat16": partial(momentum, store=brain_cut),
        "rounded to 9 bits first, then truncated": partial(momentum, store=lambda x: brain_cut(kept(x, 9))),
        "rounded to 10 bits first": partial(momentum, store=lambda x: brain(kept(x, 10))),
        "the speed of the row before": lambda w, speed, g: momentum(w, np.roll(speed, 1, 0), g),
    },
    {
        "the decay shrinks first": decayed_apart,
        "three products": one_formula,
        "in float64": lambda w, speed, g: brain(single(exact_momentum(w, speed, g))),
        "multiplied and subtracted in one": lambda w, speed, g: brain(
            fused(-np.float32(0.05), np.float32(0.9) * speed + (single(g) + np.float32(0.01) * single(w)), single(w))
        ),
        "the speed of 18 bits": partial(momentum, kept_speed=partial(kept, bits=18)),
        "the step of 18 bits": partial(momentum, step=partial(kept, bits=18)),
        "the rate into the share": lambda w, speed, g: brain(
            single(w) - (np.float32(0.045) * speed + np.float32(0.05) * (single(g) + np.float32(0.01) * single(w)))
        ),
    },
)

OPERATORS = (ADAM, MOMENTUM)
