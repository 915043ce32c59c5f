"""Clipping, dynamic loss scales and the noise scale of gradients, on made-up gradients.

Sources: Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks (2013). PyTorch, Automatic
Mixed Precision examples, and torch.amp.GradScaler (init_scale 2^16, growth_interval 2000). McCandlish et al., An
Empirical Model of Large-Batch Training (2018, arXiv 1812.06162), appendix A.1.
"""

from collections.abc import Iterator

import numpy as np

from precreg.arithmetic import FORMATS
from precreg.training import StepGradients, find_clipped_before_unscale, sweep_clipping
from precreg.training.magnitudes import format_limits
from precreg.training.observing.noise import NoiseOfBatches, noise_scale
from precreg.training.scaler import run_scaler
from precreg.types import ClippedStep
from published import Figure

SCALE = 2.0**16


def figures() -> Iterator[Figure]:
    """Compare limits on norms and on values, before and after unscaling, and runs of a scaler; then the noise."""
    yield from directions()
    yield from orders()
    yield from scalers()
    yield from noise()


def directions() -> Iterator[Figure]:
    """Compare the directions of clipped and unclipped gradients."""
    effects = {effect.kind: effect for effect in sweep_clipping(steps(), [1.0], [0.05]).effects if not effect.quantile}
    whole, each, values = (effects[kind] for kind in ("global_norm", "parameter_norm", "value"))
    yield Figure(
        "norm of all clipped at 1: cosine to the gradient of the step",
        "1: the direction stays",
        f"{whole.step_cosine:.6f}",
        whole.step_cosine == 1.0,
    )
    yield Figure("the same: cosine of the sums over 64 steps", "", f"{whole.sum_cosine:.4f}")
    for what, effect in (("norm of each parameter clipped at 1", each), ("values clipped at 0.05", values)):
        yield Figure(f"{what}: least cosine of a step", "", f"{effect.least_cosine:.3f}")


def orders() -> Iterator[Figure]:
    """Compare the steps that a limit clips before and after unscaling by 2^16."""
    shares = {}
    for name, factor in (("after", 1.0), ("before", SCALE)):
        effect = next(each for each in sweep_clipping(steps(factor), [2.0]).effects if each.kind == "global_norm")
        shares[name] = effect.clipped_steps / 64
    yield Figure(
        "norm clipped at 2, steps clipped after / before unscaling",
        "before: the limit is invalid",
        f"{shares['after']:.1%} / {shares['before']:.1%}",
        shares["before"] > shares["after"],
    )
    norms = [float(np.sqrt(sum(np.square(each).sum() for each in step.arrays.values()))) for step in steps(SCALE)]
    clippings = [ClippedStep(step, norm, 2.0, SCALE, is_scaled=True) for step, norm in enumerate(norms)]
    found = find_clipped_before_unscale(clippings)
    yield Figure("the limit that acts before unscaling by 2^16", "", f"{found.effective_greatest:.2g}")


def scalers() -> Iterator[Figure]:
    """Run the scaler over steps without overflow, and over one overflow among them."""
    limit = format_limits(FORMATS["float16"]).beyond
    for clean, published in ((1999, 16), (2000, 17), (4000, 18)):
        found = run_scaler([1e-6] * clean, limit, 16).final
        yield Figure(
            f"a scaler from 2^16, {clean} steps without overflow", f"2^{published}", f"2^{found}", found == published
        )
    found = run_scaler([*[1e-6] * 1999, 2.0, *[1e-6] * 1999], limit, 16)
    yield Figure(
        "one overflow after 1999 steps, then 1999 without: scale, steps skipped",
        "2^15, 1",
        f"2^{found.final}, {found.skipped}",
        (found.final, found.skipped) == (15, 1),
    )


def noise() -> Iterator[Figure]:
    """Compare estimates of the noise scale with the exact one, from 1000 steps of 16 micro-batches."""
    random = np.random.default_rng(5)
    size, batches, gradient = 200, 16, 0.5
    exact = 1 / gradient**2  # The squared deviation of an element, 1, over its squared mean; any number of elements.
    sums, ratios = NoiseOfBatches(), []
    for _ in range(1000):
        drawn = gradient + random.standard_normal((batches, size))
        squares = np.square(drawn).sum(1).tolist()
        for square in squares:
            sums.add_batch("w", square)
        sums.end_step({"w": float(np.square(drawn.sum(0)).sum())})
        ratios.append(noise_scale(float(np.mean(squares)), float(np.square(drawn.mean(0)).sum()), batches))
    found = next(iter(sums.result())).scale
    yield Figure(
        f"noise scale of {exact:g}: ratio of the sums of both estimates",
        "unbiased sums",
        f"{found:.3f}",
        abs(found / exact - 1) < 0.01,
    )
    yield Figure("the same: mean of the ratios of single steps", "", f"{np.mean(ratios):.3f}")


def steps(factor: float = 1.0) -> Iterator[StepGradients]:
    """Yield made-up gradients of 64 steps of two parameters; a log-normal size for each step."""
    random = np.random.default_rng(4)
    for step in range(64):
        size = np.exp(random.normal(0, 1))
        arrays = {
            "embed": random.standard_normal((64, 16)) * 0.01 * size,
            "head": random.standard_normal((16, 8)) * 0.1 * size,
        }
        yield StepGradients(
            step,
            None,
            factor,
            {name: each.astype(np.float32) * np.float32(factor) for name, each in arrays.items()},
            {},
        )
