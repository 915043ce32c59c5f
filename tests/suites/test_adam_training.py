"""Adam in three tiers: its training steps against 50 digits, and one change of order that all tiers see."""

import json

import mpmath
import numpy as np
import pytest

from tests.e2e.command import ROOT, change, copy_of, precreg
from tests.suites.kernel_files import load
from tests.suites.measured import comparisons

training = load("networks/adam_training")
oracles = load("networks/adam_training_oracles")
adam = load("networks/adam")

RULE = adam.Rule(0.05, 0.9, 0.999, 1e-8, "standard")
SUITES = ("unit/apply_adam", "integration/adam_step", "model/adam_training")


def drawn(seed, dtype=np.float64, steps=3):
    random = np.random.default_rng(seed)
    shapes = ((steps, 5, 4), (steps, 5, 2), (4, 6), (6, 2))
    return [random.normal(0, 1, shape).astype(dtype) for shape in shapes]


def at_rest(*weights):
    return [[np.zeros_like(w), np.zeros_like(w)] for w in weights]


def trained(oracle, x, target, w1, w2):
    return oracle(x, target, [w1, w2], at_rest(w1, w2), 0, RULE.lr, (RULE.beta1, RULE.beta2), RULE.eps)


class TestStep:
    def test_gradients_are_central_differences_of_the_loss(self):
        x, target, w1, w2 = drawn(0)
        _, *gradients = training.loss_and_gradients(x[0], target[0], w1, w2)
        for which, gradient in enumerate(gradients):
            for place in np.ndindex(gradient.shape):
                losses = []
                for sign in (1, -1):
                    moved = [w1.copy(), w2.copy()]
                    moved[which][place] += sign * 1e-6
                    losses.append(training.loss_and_gradients(x[0], target[0], *moved)[0])
                assert gradient[place] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-6, abs=1e-8)

    def test_the_exact_run_agrees_with_50_digits(self):
        x, target, w1, w2 = drawn(1)
        run = trained(oracles.exact, x, target, w1, w2)
        with mpmath.workdps(50):
            losses, weights = in_50_digits(x, target, w1, w2)
        assert run.losses == pytest.approx([float(loss) for loss in losses], rel=1e-13)
        for found, exact in zip(run.weights[-1], weights, strict=True):
            expected = np.array(exact.tolist(), dtype=float).reshape(found.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)

    def test_the_kernel_has_the_golden_bits_in_every_step(self):
        for seed in range(5):
            given = drawn(seed, np.float32, steps=7)
            golden = trained(oracles.golden, *given)
            states = list(training.train(training.at_rest(*given[2:]), given[0], given[1], RULE, done=0))
            assert [state.loss for state in states] == golden.losses
            for state, weights in zip(states, golden.weights, strict=True):
                assert np.array_equal(state.layer1.w, weights[0])
                assert np.array_equal(state.layer2.w, weights[1])


def in_50_digits(x, target, w1, w2):
    """Train with mpmath's matrices; Adam as its authors' algorithm 1, with eps as the kernels have it."""
    lr, b1, b2, eps = (mpmath.mpf(value) for value in RULE[:4])
    weights = [mpmath.matrix(w.tolist()) for w in (w1, w2)]
    moments = [[w * 0, w * 0] for w in weights]
    losses = []
    for t, (batch, wanted) in enumerate(zip(x, target, strict=True), start=1):
        inputs, before = mpmath.matrix(batch.tolist()), None
        before = inputs * weights[0]
        hidden = before.apply(lambda value: max(value, mpmath.mpf(0)))
        residual = hidden * weights[1] - mpmath.matrix(wanted.tolist())
        size = residual.rows * residual.cols
        losses.append(sum(value**2 for value in residual) / size)
        slope = residual * (mpmath.mpf(2) / size)
        back = slope * weights[1].T
        for place in np.ndindex(back.rows, back.cols):
            back[place] = back[place] if before[place] > 0 else 0
        for which, gradient in enumerate((inputs.T * back, hidden.T * slope)):
            m, v = moments[which]
            m, v = b1 * m + (1 - b1) * gradient, b2 * v + (1 - b2) * gradient.apply(lambda value: value**2)
            moments[which] = [m, v]
            rate = lr * mpmath.sqrt(1 - b2**t) / (1 - b1**t)
            weights[which] = weights[which].copy()
            for place in np.ndindex(m.rows, m.cols):
                weights[which][place] -= rate * m[place] / (mpmath.sqrt(v[place]) + eps)
    return losses, weights


def test_the_swapped_order_costs_ever_more_bits_as_the_suites_say():
    swapped = {(one.output, one.seed): one.metrics["equal_share"] for one in comparisons(SUITES[2])["swapped"]}
    stated = {1: (0.973, 0.974), 10: (0.776, 0.770), 100: (0.307, 0.305), 500: (0.048, 0.0003)}
    for mark, shares in stated.items():
        for seed, share in enumerate(shares):
            assert swapped[f"weights_{mark}", seed] == pytest.approx(share, abs=6e-4)
    worst = [one.metrics["max_rel_error"] for one in comparisons(SUITES[2])["swapped"] if one.output == "losses"]
    assert worst == pytest.approx([4e-4, 7e-3], rel=0.1)
    step = {one.output: one.metrics["equal_share"] for one in comparisons(SUITES[1])["swapped"]}
    assert step == pytest.approx({"loss": 1, "w1": 0.9990, "w2": 1 - 1 / 400, "loss_after": 1}, abs=2e-4)


def test_one_change_of_order_is_seen_in_all_three_tiers_and_by_no_exact_reference(tmp_path):
    project = copy_of(ROOT, tmp_path)
    change(project / "suites/networks/adam.py", "return rate * (m / denominator)", "return rate * m / denominator")
    chosen = [argument for suite in SUITES for name in (suite, f"{suite}_reference") for argument in ("--suite", name)]
    precreg(project, "run", *chosen, "--jobs", "2")
    results = json.loads((project / "reports" / "record.json").read_text())["results"]
    seen = {result["id"].rpartition("/")[0] for result in results if result["verdict"]["status"] == "failed"}
    assert seen == set(SUITES)
    sound = {result["id"].rpartition("/")[0] for result in results if result["role"] == "reference"}
    assert sound == {f"{suite}_reference" for suite in SUITES}
