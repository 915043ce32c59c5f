"""What compensation is worth in a network: published for ResNet-152 in 8 bits, measured on a small stand-in."""

from collections.abc import Iterator

import numpy as np

from published import Figure

STEPS, ITEMS = 40, 512
SHARES = {"without": (0.0, 0.0), "with": (0.1, 0.9)}
"""alpha and beta."""


def figures() -> Iterator[Figure]:
    """Compare classes with those of float64 for single steps and for means over ten, errors carried and not."""
    base, noise, weights = drawn()
    inputs = base + noise
    exact = [layers(x, weights, [None] * 3) for x in inputs]
    steps = [1.25 / 127 * np.abs(part).max() for part in exact[0]]
    scores = {"float64": np.array([parts[-1] for parts in exact])}
    for name, shares in SHARES.items():
        scores[name] = np.array([parts[-1] for parts in streamed(inputs, weights, steps, shares)])
    for what, published, average in (
        ("single steps", "0.3 % -> 0.05 %", lambda scores: scores),
        ("means over ten steps", "", lambda scores: scores.reshape(-1, 10, *scores.shape[1:]).mean(1)),
    ):
        right = average(scores["float64"])
        lost = [float(np.mean(average(scores[name]).argmax(-1) != right.argmax(-1))) for name in ("without", "with")]
        error = [float(np.abs(average(scores[name]) - right).mean()) for name in ("without", "with")]
        fewer = lost[1] < lost[0] if published else None
        yield Figure(
            f"classes that change, {what}, without -> with", published, f"{lost[0]:.2%} -> {lost[1]:.2%}", fewer
        )
        yield Figure(f"mean error of scores, {what}, without -> with", "", f"{error[0]:.4f} -> {error[1]:.4f}")
    yield Figure("more operations with compensation", "1.9 % more time", f"{extra_operations(weights):.1%}")


def streamed(inputs: np.ndarray, weights: list, steps: list, shares: tuple[float, float]) -> list[list[np.ndarray]]:
    """Run all steps through the quantized network."""
    carried = [Carried(step, *shares) for step in steps]
    return [layers(x, weights, carried) for x in inputs]


def extra_operations(weights: list[np.ndarray]) -> float:
    """Give the additions and multiplications that carrying adds, five an output, as a share of all others.

    A product takes 2 K an output, and quantizing divides, rounds, clips and multiplies.
    """
    outputs = np.array([weight.shape[1] for weight in weights])
    others = np.array([2 * weight.shape[0] + 4 for weight in weights])
    return float((5 * outputs).sum() / (others * outputs).sum())


class Carried:
    """Quantizes and carries its error: alpha of what was carried, beta of the newest; anew every ten steps."""

    def __init__(self, step: float, alpha: float, beta: float) -> None:
        self.step, self.alpha, self.beta, self.age, self.error = step, alpha, beta, 0, 0.0

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Give whole steps."""
        wanted = values - self.error * (self.age % 10 > 0)
        given = np.clip(np.round(wanted / self.step), -127, 127) * self.step
        self.error = self.alpha * self.error * (self.age % 10 > 0) + self.beta * (given - wanted)
        self.age += 1
        return given


def drawn() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Draw the items, their noise from step to step, and the weights of three layers."""
    random = np.random.default_rng(0)
    base, noise = random.normal(size=(ITEMS, 32)), random.normal(0, 0.01, (STEPS, ITEMS, 32))
    return base, noise, [random.normal(0, size**-0.5, (size, out)) for size, out in ((32, 64), (64, 64), (64, 10))]


def layers(x: np.ndarray, weights: list[np.ndarray], quantizers: list) -> list[np.ndarray]:
    """Give what each of three linear layers, two with relu, gives on."""
    given = []
    for weight, quantizer in zip(weights, quantizers, strict=True):
        x = (np.maximum(x, 0) if given else x) @ weight
        x = quantizer(x) if quantizer else x
        given.append(x)
    return given
