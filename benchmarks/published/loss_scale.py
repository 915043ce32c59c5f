"""Loss scales of float16: gradients that become zero, on made-up gradients and on those of a small network, not on SSD's.

Sources: Micikevicius et al., Mixed Precision Training (2018, arXiv 1710.03740). NVIDIA, Training With Mixed Precision:
the gradients of activations of a Multibox SSD network, throughout a training in float32. They are not public. The
made-up gradients have a normal log2, whose mean and deviation give two of the published shares: those that become zero
without a scale, and those that stay zero at 2^15. All other figures are then free to differ.
"""

from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from precreg.training import StepGradients, sweep_scales
from precreg.types import LossScaleSweep
from published import Figure

COUNT = 2**20
# Shares of all gradients: zeros in float32; zeros in float16 alone; neither.
ZERO, LOST, KEPT = 0.668, 0.31, 0.053
# The share of lost gradients that stay zero at 2^15.
STILL_LOST = 0.001


def figures() -> Iterator[Figure]:
    """Compare the shares with those of the guide, on the made-up gradients, and then on a network's."""
    whole = ZERO + LOST + KEPT
    yield Figure("SSD: sum of the published shares", "100 %", f"{whole:.1%}", abs(whole - 1) < 0.005)
    mean, deviation = fitted()
    made = np.exp2(np.random.default_rng(0).normal(mean, deviation, COUNT)).astype(np.float32)
    yield from of_made(made, deviation)
    yield from of_network()
    yield Figure("SSD: accuracy at a scale of 8", "that of float32", "not checked")


def fitted() -> tuple[float, float]:
    """Return the mean and the deviation of log2 that give the share of zeros without a scale, and at 2^15."""
    lost = LOST / (LOST + KEPT)
    # A gradient of at most 2^-25 becomes zero, and one of at most 2^-40 at 2^15.
    high, low = NormalDist().inv_cdf(lost), NormalDist().inv_cdf(lost * STILL_LOST)
    deviation = 15 / (high - low)
    return -25 - high * deviation, deviation


def of_made(made: npt.NDArray[np.float32], deviation: float) -> Iterator[Figure]:
    """Count the made-up gradients that each scale loses."""
    sweep = swept(made)
    zero = [count / sweep.total.nonzero for count in sweep.total.zero]
    yield Figure("made-up gradients: deviation of log2", "", f"{deviation:.2f}")
    yield Figure(
        "made-up, nonzero ones: zero in float16, fitted", "85.4 %", f"{zero[0]:.1%}", abs(zero[0] - 0.854) < 0.01
    )
    still = zero[15] / zero[0]
    yield Figure("made-up: of these, zero at 2^15, fitted", "0.1 %", f"{still:.2%}", 0.0007 < still < 0.0013)
    overflows = sweep.overflow_steps[15]
    yield Figure("made-up: steps that overflow at 2^15", "0", f"{overflows}", overflows == 0)
    yield Figure("made-up: of these, zero at 2^3, the scale that sufficed for SSD", "", f"{zero[3] / zero[0]:.1%}")
    share = (1 - ZERO) * float(np.mean((made > 2.0**-32) & (made < 2.0**-30)))
    yield Figure("made-up: all gradients from 2^-32 to 2^-30", "4 %", f"{share:.1%}", abs(share - 0.04) < 0.005)
    window = sweep.window
    found = "none" if window is None else f"2^{window.low} to 2^{window.high}"
    yield Figure("made-up: scales that lose least without overflow", "", found)


def of_network() -> Iterator[Figure]:
    """Count the gradients of activations of a small network with a mean over its outputs, as in the guide."""
    gradients = activation_gradients()
    sweep = swept(gradients)
    total = sweep.total
    zeros = total.zeros / total.elements
    yield Figure("a network of 3 layers: gradients that are zero in float32", "66.8 %", f"{zeros:.1%}", None)
    for exponent in (0, 3, 15):
        share = total.zero[exponent] / total.nonzero
        yield Figure(f"the same, nonzero ones: zero in float16 at 2^{exponent}", "", f"{share:.2%}")
    recovered = 1 - total.zero[15] / total.zero[0]
    yield Figure(
        "the same: recovered by 2^15",
        "all but 0.1 %",
        f"{recovered:.2%}",
        recovered >= 0.999 and not sweep.overflow_steps[15],
    )


def swept(gradients: npt.NDArray[np.float32]) -> LossScaleSweep:
    """Count the gradients of one step at each scale from 2^0 to 2^24."""
    return sweep_scales([StepGradients(0, None, 1.0, {"activations": gradients}, {})], "float16")


def activation_gradients() -> npt.NDArray[np.float32]:
    """Return the gradients of the hidden layers of a relu network, whose softmax loss is a mean over 8192 places.

    A tenth of the places has one class of 20, and the others are background, which the network knows well by now.
    """
    random = np.random.default_rng(1)
    x = random.standard_normal((8192, 32)).astype(np.float32)
    first, second = (random.normal(0, 0.2, shape).astype(np.float32) for shape in ((32, 64), (64, 64)))
    last = random.normal(0, 0.2, (64, 21)).astype(np.float32)
    hidden = np.maximum(x @ first, 0)
    deep = np.maximum(hidden @ second, 0)
    scores = deep @ last
    scores[:, 0] += np.float32(12)
    truth = np.where(random.random(8192) < 0.1, random.integers(1, 21, 8192), 0)
    odds = np.exp(scores - scores.max(1, keepdims=True))
    slope = odds / odds.sum(1, keepdims=True)
    slope[np.arange(8192), truth] -= 1
    of_deep = (slope / np.float32(8192)) @ last.T * (deep > 0)
    of_hidden = (of_deep @ second.T) * (hidden > 0)
    return np.concatenate([of_deep.ravel(), of_hidden.ravel()]).astype(np.float32)
