"""Loss scales of float16: gradients that become zero, made up and of a small network, beside published ones of SSD.

Sources: Micikevicius et al., Mixed Precision Training (2018, arXiv 1710.03740). NVIDIA, Training With Mixed Precision:
the gradients of activations of a Multibox SSD network, throughout a training in float32. They are not public. The
made-up gradients have a normal log2, whose mean and deviation give two of the published shares: those that become zero
without a scale, and those that stay zero at 2^15. All other figures are then free to differ.
"""

from collections.abc import Iterator
from statistics import NormalDist
from typing import NamedTuple

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
    yield Figure("SSD: shares of all gradients", "66.8 %, 31 %, 5.3 %", f"{whole:.1%} in all", abs(whole - 1) < 0.005)
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
    yield Figure("made-up, nonzero ones: zero in float16, fitted", "85.4 %", f"{zero[0]:.1%}")
    still = zero[15] / zero[0]
    yield Figure("made-up: of these, zero at 2^15, fitted", "0.1 %", f"{still:.2%}")
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
    gradients = np.concatenate([each.ravel() for each in activation_gradients(network())])
    sweep = swept(gradients)
    total = sweep.total
    zeros = total.zeros / total.elements
    yield Figure("a network of 3 layers: gradients that are zero in float32", "66.8 %", f"{zeros:.1%}")
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


class Network(NamedTuple):
    """A relu network of three layers, its inputs, and the class of each place."""

    x: npt.NDArray[np.float32]
    layers: tuple[npt.NDArray[np.float32], ...]
    # Added to the score of the background.
    known: float
    truth: npt.NDArray[np.int64]


def network(places: int = 8192) -> Network:
    """Draw a network that knows the background well. A tenth of the places has one of 20 classes."""
    random = np.random.default_rng(1)
    x = random.standard_normal((places, 32)).astype(np.float32)
    layers = tuple(random.normal(0, 0.2, shape).astype(np.float32) for shape in ((32, 64), (64, 64), (64, 21)))
    truth = np.where(random.random(places) < 0.1, random.integers(1, 21, places), 0)
    return Network(x, layers, 12.0, truth)


def activation_gradients(net: Network) -> list[npt.NDArray[np.float32]]:
    """Return the gradients of both hidden layers. The loss is the mean cross-entropy of the softmax over the places."""
    # In float32 the slope of a background place, its probability less 1, would cancel to a few digits.
    first, second, last = (each.astype(np.float64) for each in net.layers)
    hidden = np.maximum(net.x @ first, 0)
    deep = np.maximum(hidden @ second, 0)
    scores = deep @ last
    scores[:, 0] += net.known
    odds = np.exp(scores - scores.max(1, keepdims=True))
    slope = odds / odds.sum(1, keepdims=True)
    slope[np.arange(len(slope)), net.truth] -= 1
    of_deep = (slope / len(slope)) @ last.T * (deep > 0)
    return [each.astype(np.float32) for each in ((of_deep @ second.T) * (hidden > 0), of_deep)]
