"""Print what was published about the shipped kernels beside what they give on this machine."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

SUITES = Path(__file__).parents[1] / "suites"
sys.path[:0] = [str(SUITES / tier) for tier in ("unit", "integration")]

from kernels import apply_adam, apply_adam_oracles, cast_chain, layer_norm, mixed_precision_step, softmax  # noqa: E402


def main() -> None:
    """Print one line per figure."""
    print(f"{'figure':<72} {'published':>28} {'measured':>28}")
    for study in (adam, casts, lost_updates, layer_norm_study, accumulators, recorded):
        for figure, published, measured in study():
            print(f"{figure:<72} {published:>28} {measured:>28}")


def adam() -> Iterator[tuple[str, str, str]]:
    """Compare both orders of Adam's last step with the golden and with float64, on 589,824 weights a seed."""
    settings = {"lr": 1e-4, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "step": 1000}
    same: dict[str, list[float]] = {"standard": [], "swapped": []}
    errors: dict[str, list[float]] = {"standard": [], "swapped": []}
    steps = 0.0
    for seed in range(8):
        random = np.random.default_rng(seed)
        w, m, g = (random.normal(0, std, (768, 768)).astype(np.float32) for std in (1, 0.23, 1))
        state = [w, m, random.uniform(0.58, 0.68, w.shape).astype(np.float32), g]
        golden = apply_adam_oracles.golden(*state, **settings, order="standard")["w"]
        exact = apply_adam_oracles.exact(*(a.astype(np.float64) for a in state), **settings, order="standard")["w"]
        for order in same:
            actual = apply_adam.apply_adam(*state, **settings, order=order)["w"]
            same[order].append(float(np.mean(actual == golden)))
            errors[order].append(float(np.mean(np.abs(actual - exact))))
            steps = max(steps, float(np.max(np.abs(actual - golden) / np.spacing(np.abs(golden)))))
    yield "apply_adam, standard order: elements equal to the golden", "100 %", f"{np.mean(same['standard']):.6%}"
    yield "apply_adam, swapped order: elements equal to the golden", "99.9931 %", f"{np.mean(same['swapped']):.6%}"
    yield "apply_adam, swapped order: largest difference in ULP of w", "", f"{steps:g}"
    ratios = np.divide(errors["swapped"], errors["standard"])
    yield (
        "apply_adam, mean error swapped / standard, against float64",
        "0.99-1.00",
        f"1 {ratios.min() - 1:+.1e} .. {ratios.max() - 1:+.1e}",
    )


def casts() -> Iterator[tuple[str, str, str]]:
    """Give the values of the cast chain with all their decimals, and the sign, exponent and mantissa bits."""
    values = cast_chain.cast_chain(np.array([1.12156456132]), np.array([1.125]), np.array([0.12457275390625]))
    single, half = values["single"], values["half"]
    yield "1.12156456132 in float32", "1.12156450748443603515625", f"{single[0]:.23f}"
    yield "1.12156456132 in float32, then in float16", "1.12109375", f"{half[0]:.8f}"
    bits = f"{single.view(np.uint32)[0]:032b}"
    yield "its float32 bits: sign exponent mantissa", "", f"{bits[0]} {bits[1:9]} {bits[9:]}"
    bits = f"{half.view(np.uint16)[0]:016b}"
    yield "its float16 bits: sign exponent mantissa", "", f"{bits[0]} {bits[1:6]} {bits[6:]}"
    yield "1.125 + 0.12457275390625 in float16", "1.25", f"{values['sum_half'][0]}"
    yield "1.125 + 0.12457275390625 in float32", "1.24957275390625", f"{values['sum_single'][0]:.14f}"


def lost_updates() -> Iterator[tuple[str, str, str]]:
    """Add 0.00041999 to 1.125 a hundred times."""
    weight, gradient = np.array([1.125], np.float16), np.array([0.00041999], np.float16)
    for weights, published in (("half", "1.125, never moves"), ("master", "moves")):
        moved = mixed_precision_step.repeated_update(weight, gradient, additions=100, weights=weights)
        yield f"weight 1.125 after 100 float16 gradients of 0.00041999, {weights}", published, f"{moved[0]}"


def layer_norm_study() -> Iterator[tuple[str, str, str]]:
    """Repeat the study of the device style on numpy's legacy generator, seed 42."""
    x = np.random.RandomState(42).randn(8, 128, 768).astype(np.float32)
    exact = layer_norm.exact(x.astype(np.float64), eps=1e-5, style="device")
    error = np.abs(layer_norm.layer_norm(x, eps=1e-5, style="device") - exact)
    correlation = np.corrcoef(error.ravel(), np.abs(x).ravel())[0, 1]
    yield "LayerNorm 8x128x768 in the device style: errors > 1e-3", "6,858 of 786,432", f"{np.sum(error > 1e-3):,}"
    yield "LayerNorm, correlation of the error with |x|", "0.637", f"{correlation:.4f}"


def accumulators() -> Iterator[tuple[str, str, str]]:
    """Compare softmax's mean error with a float16 accumulator to that with float32, for float16 outputs."""
    for shape in ((4, 4096), (4, 64), (3, 5, 63)):
        inputs = [np.random.default_rng(seed).normal(size=shape).astype(np.float16) for seed in range(3)]
        exact = [softmax.exact(x.astype(np.float64)) for x in inputs]
        means = []
        for softmax.ACCUMULATOR in (np.float16, np.float32):
            errors = [np.abs(softmax.softmax(x) - r) for x, r in zip(inputs, exact, strict=True)]
            means.append(np.mean(errors))
        yield f"softmax {shape} float16: mean error, float16 accumulator / float32", "", f"{means[0] / means[1]:.3f}"


def recorded() -> Iterator[tuple[str, str, str]]:
    """Give the mean and the maximum ULP of the recorded arctan2 outputs."""
    folder = SUITES / "unit" / "recorded" / "arctan2"
    for path in sorted((folder / "golden").iterdir()):
        golden = np.load(path)
        for outputs in sorted((folder / "outputs").iterdir()):
            ulp = np.abs(np.load(outputs / path.name) - golden) / np.spacing(np.abs(golden).astype(np.float32))
            figure = f"numpy {outputs.name} arctan2, {path.stem}: mean and maximum ULP"
            yield figure, "", f"{ulp.mean():.4f} {ulp.max():.3f}"


if __name__ == "__main__":
    main()
