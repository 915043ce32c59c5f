"""An MLU370-like device: alignment, bias of truncation, and training with 20 bits or with noise in the updates."""

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from published import Figure

SEEDS = range(3)
EPOCHS, BATCH, POINTS = 40, 64, 512
Rounding = Callable[[np.ndarray], np.ndarray]


def figures() -> Iterator[Figure]:
    """Measure all of it."""
    aligned = Fraction(1) / Fraction(8)
    yield Figure("2^0 aligned to 2^3", "0.000125", f"{float(aligned)}", aligned == Fraction("0.000125"))
    x = np.arange(2**23, 2**24, 101, dtype=np.float64)
    for name, error in (("cut off", (cut(x) - x) / 8), ("to nearest", (np.rint(x / 8) * 8 - x) / 8)):
        yield Figure(f"20 bits of mantissa, {name}: mean error in last places", "", f"{error.mean():+.4f}")
    yield from training()
    yield from noise()


def cut(x: np.ndarray) -> np.ndarray:
    """Keep 21 bits of a float64 number, the implicit one included; flush what is below 2^-126."""
    kept = (np.asarray(x, np.float64).view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    return np.where(np.abs(kept) < 2.0**-126, 0.0, kept)


def training() -> Iterator[Figure]:
    """Train two layers exactly, and with every product, sum and function cut off: losses, steps, accuracy, period."""
    both = [[trained(seed, rounding) for seed in SEEDS] for rounding in (np.asarray, cut)]
    exact, device = ([losses for losses, _ in runs] for runs in both)
    off = max(np.abs(d / e - 1).max() for d, e in zip(device, exact, strict=True))
    yield Figure("two layers, 20 bits cut off: losses off by at most", "", f"{off:.4%}")
    more = [steps(d) / steps(e) - 1 for d, e in zip(device, exact, strict=True)]
    yield Figure("two layers, 20 bits cut off: more steps to a loss of 0.3", "15 to 20 %", span(more), min(more) > 0.15)
    points = [d - e for (_, e), (_, d) in zip(*both, strict=True)]
    yield Figure(
        "two layers, 20 bits cut off: accuracy", "+-0.8 %", span(points), 0.004 < max(map(abs, points)) < 0.012
    )
    periods = [sorted({strongest(run) for run in runs}) for runs in (exact, device)]
    text = f"of {', '.join(map(str, periods[1]))} steps; in float64 {', '.join(map(str, periods[0]))}"
    yield Figure("two layers, 20 bits cut off: periods of the loss", "periodic", text, periods[0] != periods[1])


def trained(seed: int, r: Rounding) -> tuple[np.ndarray, float]:
    """Train tanh(x w1) w2 on the sign of x0 x1 by gradient descent, each operation rounded by r; sums in order."""
    random = np.random.default_rng(seed)
    x, held_out = random.normal(size=(POINTS, 2)), random.normal(size=(2000, 2))
    w1, w2 = random.normal(size=(3, 16)), random.normal(0, 0.25, 16)
    x, held_out = (np.column_stack([part.astype(np.float32), np.ones(len(part))]) for part in (x, held_out))
    losses = []
    for step in range(EPOCHS * POINTS // BATCH):
        batch = x[step * BATCH % POINTS :][:BATCH]
        sign = np.sign(batch[:, 0] * batch[:, 1])
        hidden = r(np.tanh(product(batch, w1, r)))
        margin = sign * product(hidden, w2[:, None], r)[:, 0]
        losses.append(np.log1p(np.exp(-margin)).mean())
        slope = r(-sign / r(1 + r(np.exp(margin))) / BATCH)
        back = r(r(slope[:, None] * w2) * r(1 - r(hidden * hidden)))
        change = product(hidden.T, slope[:, None], r)[:, 0]
        w1, w2 = r(w1 - r(0.5 * product(batch.T, back, r))), r(w2 - r(0.5 * change))
    score = np.tanh(held_out @ w1) @ w2
    return np.array(losses), float(np.mean(score * held_out[:, 0] * held_out[:, 1] > 0))


def product(a: np.ndarray, b: np.ndarray, r: Rounding) -> np.ndarray:
    """Multiply and add one after the other, both rounded."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for k in range(a.shape[1]):
        total = r(total + r(a[:, k, None] * b[k]))
    return total


def steps(losses: np.ndarray) -> float:
    """Give the steps until the mean loss of an epoch is 0.3, by a straight line between epochs."""
    means = losses.reshape(EPOCHS, -1).mean(1)
    return float(np.interp(-0.3, -means, np.arange(EPOCHS)) * POINTS / BATCH)


def strongest(losses: np.ndarray) -> float:
    """Give the period of the strongest oscillation of the losses about their means over an epoch, in steps."""
    size = POINTS // BATCH
    smooth = np.convolve(losses, np.ones(size) / size, "valid")
    rest = losses[size // 2 :][: len(smooth)] - smooth
    power = np.abs(np.fft.rfft(rest)[1:]) ** 2
    return round(len(rest) / (1 + int(power.argmax())), 1)


def noise() -> Iterator[Figure]:
    """Train a logistic regression with e in [1e-7, 1e-5] in each update, at three rates, e of one sign and of both."""
    for rate, count in ((0.1, 1600), (3e-3, 4800), (3e-4, 8000)):
        calm_runs = [regressed(seed, rate, count, 0) for seed in SEEDS]
        for signs in (1, 2):
            runs = list(zip(calm_runs, [regressed(seed, rate, count, signs) for seed in SEEDS], strict=True))
            more = [reached(noisy[0], calm[0]) / reached(calm[0], calm[0]) - 1 for calm, noisy in runs]
            points = [noisy[1] - calm[1] for calm, noisy in runs]
            what = f"e of {'one sign' if signs == 1 else 'both signs'} in the updates, rate {rate:g}"
            yield Figure(f"{what}: more steps", "15 to 20 %", span(more), bool(0.15 <= np.median(more) <= 0.2))
            within = 0.004 < max(map(abs, points)) < 0.012
            yield Figure(f"{what}: accuracy", "+-0.8 %", span(points), within)


def regressed(seed: int, rate: float, count: int, signs: int) -> tuple[np.ndarray, float]:
    """Give the losses by epoch and the accuracy; noise has so many signs, or there is none."""
    random = np.random.default_rng(seed)
    teacher, x, held_out = random.normal(0, 0.5, 64), random.normal(size=(1024, 64)), random.normal(size=(2000, 64))
    signed = x * np.sign(x @ teacher + random.normal(0, 0.5, 1024))[:, None]
    e = random.uniform(1e-7, 1e-5, (count, 64)) * random.choice([[0, 0], [1, 1], [1, -1]][signs], (count, 64))
    w, losses = np.zeros(64), []
    for step in range(count):
        batch = signed[step * 64 % 1024 :][:64]
        margin = batch @ w
        losses.append(np.log1p(np.exp(-margin)).mean())
        w = w - (rate * (-(1 / (1 + np.exp(margin))) @ batch / 64) + e[step])
    return np.array(losses).reshape(-1, 16).mean(1), float(np.mean((held_out @ w) * (held_out @ teacher) > 0))


def reached(losses: np.ndarray, calm: np.ndarray) -> float:
    """Give when the losses are down to those of a calm run at three quarters of its way."""
    return float(np.interp(-calm[-len(calm) // 4], -losses, np.arange(len(losses)), right=np.inf))


def span(values: list[float]) -> str:
    """Write the least and the largest value."""
    return f"{min(values):+.2%} to {max(values):+.2%}"
