"""The shipped trainings that diverge get the verdict that is right by construction, with twins that precreg runs."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from precreg import record_trajectory
from precreg.errors import UserError
from precreg.run import find_model
from precreg.training.divergence import DivergenceRequest, TrainingSource, compare_trainings, read_trajectory
from precreg.training.divergence.runs import run_training

SUITES = Path(__file__).parents[3] / "suites"


def source(name="adam", device=None, dtype=None, **params):
    found = find_model(f"networks.diverging_trainings:{name}", SUITES)
    return TrainingSource(name, found.target, found.directory, found.project, params, device, dtype)


def compared(a, b, **more):
    return compare_trainings(DivergenceRequest(a, b, **more), "0", lambda _name: None)


CHAOS = [{"order": "swapped"}, {"nudge": 5}, {"reverse": True}]
LOSSES = [({"truncate": True}, "direction"), ({"fault_at": 20}, "start")]


@pytest.mark.parametrize(("change", "seed"), list(product(CHAOS, (0, 1))))
def test_other_orders_and_last_bits_are_chaos(change, seed):
    found = compared(source(seed=seed, steps=30), source(seed=seed, steps=30, **change))
    assert (found.verdict, found.reason) == ("chaos", "none")
    assert len(found.twins) == 8
    assert found.omissions.idle_twins == 0
    assert found.level_ratio < 1


@pytest.mark.parametrize(("change", "reason"), LOSSES)
def test_lost_bits_and_faults_are_losses(change, reason):
    found = compared(source(steps=30), source(steps=30, **change))
    assert (found.verdict, found.reason) == ("loss", reason)


def test_the_device_of_20_bits_loses_by_truncation():
    found = compared(source(steps=20), source(steps=20, device="mlu370"))
    assert (found.verdict, found.reason) == ("loss", "start")
    toward = next(each for each in found.biases if each.kind == "toward")
    assert toward.pair < -0.9
    assert toward.p_value < 1e-4


@pytest.mark.parametrize("scale", [1.0, 2.0**20])
def test_gradients_in_float16_are_a_loss(scale):
    found = compared(
        source("half_gradients", narrow="float32", steps=20), source("half_gradients", steps=20, scale=scale)
    )
    assert (found.verdict, found.reason) == ("loss", "start")
    # Underflow is another matter than rounding: without a scale the distance is many times larger.
    assert (found.start_ratio > 3000) == (scale == 1.0)


def test_a_fault_is_named_by_its_step_and_parameter():
    found = compared(source(steps=60), source(steps=60, fault_at=50))
    assert found.verdict == "loss"
    for place in (found.parted, found.beyond):
        assert (place.step, place.parameter, place.others) == (50, "layer2", 0)
    assert found.loss_at_parting == 0.0
    assert all(limit is None for limit in found.noise[:49])


def test_the_same_run_is_identical_and_runs_no_twins():
    found = compared(source(steps=10), source(steps=10))
    assert (found.verdict, found.twins, found.parted) == ("identical", (), None)


def test_equal_weights_that_no_update_changed_are_no_pass(tmp_path):
    for name in ("a", "b"):
        with record_trajectory(tmp_path / name) as writer:
            for _ in range(3):
                writer.step({"w": np.ones(4, np.float32)}, loss=1.0)
    still = compared(*(read_trajectory(tmp_path / name, name) for name in ("a", "b")))
    assert (still.verdict, still.reason) == ("unclear", "no_updates")
    initial = compared(source(steps=10), source(steps=10), every=50)
    assert (initial.verdict, initial.reason, initial.steps) == ("unclear", "no_updates", (0,))


def test_equal_weights_of_one_checkpoint_after_updates_are_identical(tmp_path):
    for name in ("a", "b"):
        with record_trajectory(tmp_path / name) as writer:
            writer.step({"w": np.ones(4, np.float32)}, step=100)
    found = compared(*(read_trajectory(tmp_path / name, name) for name in ("a", "b")))
    assert found.verdict == "identical"


def test_zeros_of_another_dtype_are_not_the_farthest_parameter(tmp_path):
    draws = np.random.default_rng(8)
    exact = [draws.standard_normal(64).astype(np.float32) for _ in range(10)]
    for name, change in (("a", 0), ("b", 0.5), *((f"t{each}", 1e-6 * (1 + each)) for each in range(4))):
        dtype = np.float16 if name == "b" else np.float32
        with record_trajectory(tmp_path / name) as writer:
            for each in exact:
                writer.step({"bias": np.zeros(4, dtype), "w": (each * np.float32(1 + change / 4)).astype(dtype)})
    a, b, *twins = (read_trajectory(tmp_path / name, name) for name in ("a", "b", "t0", "t1", "t2", "t3"))
    found = compared(a, b, recorded_twins=twins)
    assert (found.beyond.parameter, found.beyond.distance) == ("w", pytest.approx(0.125, rel=1e-2))


def test_another_seed_and_another_order_of_batches_are_named_and_not_compared():
    seeds = compared(source(steps=10), source(steps=10, seed=1))
    assert (seeds.verdict, seeds.reason, seeds.twins) == ("unclear", "different_start", ())
    order = compared(source(steps=16), source(steps=16, shuffle=1), epoch=8)
    assert (order.verdict, order.reason, order.twins) == ("unclear", "batch_order", ())
    assert [each.steps for each in order.epochs] == [8, 8]
    assert order.epochs[1].a == pytest.approx(np.mean(order.losses_a[9:17]))
    assert order.epochs[1].b == pytest.approx(np.mean(order.losses_b[9:17]))


def test_another_order_of_batches_is_compared_with_twins_of_other_orders(tmp_path):
    def stored(name, **params):
        with record_trajectory(tmp_path / name) as writer:
            for step in run_training(source(steps=24, **params)):
                writer.add(step)
        return read_trajectory(tmp_path / name, name)

    twins = [stored(f"order-{seed}", shuffle=seed) for seed in range(2, 10)]
    plain = compared(stored("a"), stored("b", shuffle=1), recorded_twins=twins)
    assert (plain.verdict, plain.reason, plain.twins_with_other_batches) == ("unclear", "order_noise", 8)
    loss = next(each for each in plain.biases if each.kind == "loss")
    assert abs(loss.pair - loss.twins) < loss.visible
    # A loss of the size of rounding is hidden, and never a pass.
    hidden = compared(stored("a2"), stored("c", shuffle=1, truncate=True), recorded_twins=twins)
    assert (hidden.verdict, hidden.reason) == ("unclear", "order_noise")
    # A far larger rate moves the weights farther than any order.
    coarse = compared(stored("a3"), stored("d", shuffle=1, lr=0.09), recorded_twins=twins)
    assert coarse.verdict == "loss"
    # The same batches in A and B, and noisy twins: no pass.
    same = compared(stored("a4"), stored("e", reverse=True), recorded_twins=twins)
    assert (same.verdict, same.reason) == ("unclear", "order_noise")
    mixed = compared(stored("a5"), stored("f", shuffle=1), recorded_twins=[*twins[:3], stored("n", nudge=1)])
    assert (mixed.verdict, mixed.reason) == ("unclear", "batch_order")


def test_few_steps_and_no_twins_give_no_verdict():
    swapped = source(steps=60, order="swapped")
    few = compared(source(steps=60), swapped, last=4)
    assert (few.verdict, few.reason, few.steps[-1]) == ("unclear", "few_steps", 4)
    none = compared(source(steps=60), swapped, twins=0, last=20)
    assert (none.verdict, none.reason) == ("unclear", "no_twins")


def test_a_cast_to_float16_ends_in_nan_or_is_a_loss():
    found = compared(source(steps=12), source(steps=12, dtype="float16"))
    # Adam's epsilon of 1e-8 is 0 in float16, so weights without a gradient divide 0 by 0.
    assert (found.verdict, found.reason) == ("loss", "non_finite")
    assert found.omissions.first_non_finite == 1


def test_stored_runs_and_twins_give_the_verdict_of_the_same_runs(tmp_path):
    def stored(name, **params):
        with record_trajectory(tmp_path / name) as writer:
            for step in run_training(source(steps=30, **params)):
                writer.add(step)
        return read_trajectory(tmp_path / name, name)

    a, b = stored("a"), stored("b", order="swapped")
    twins = [stored(f"t{seed}", nudge=seed) for seed in (1, 2, 3)]
    found = compared(a, b, recorded_twins=twins)
    assert (found.verdict, [each.name for each in found.twins]) == ("chaos", ["t1", "t2", "t3"])
    live = compared(source(steps=30), source(steps=30, order="swapped"))
    assert live.distances == found.distances
    fault = compared(a, stored("c", fault_at=20), recorded_twins=twins[:2])
    assert (fault.verdict, fault.reason) == ("unclear", "few_twins")
    fault = compared(a, stored("d", fault_at=20), recorded_twins=twins)
    assert fault.verdict == "loss"
    alone = compared(a, b)
    assert (alone.verdict, alone.reason) == ("unclear", "no_twins")


def test_every_nth_step_is_compared_and_twins_change_there(tmp_path):
    found = compared(source(steps=60), source(steps=60, order="swapped"), every=5)
    assert found.steps == tuple(range(0, 61, 5))
    assert found.verdict == "chaos"


def test_a_training_that_ignores_what_comes_back_has_idle_twins(tmp_path):
    (tmp_path / "deaf.py").write_text(
        "import numpy as np\n"
        "def train(rate=0.1):\n"
        "    w = np.ones(9, np.float32)\n"
        "    for _ in range(20):\n"
        "        yield {'w': w.copy()}\n"
        "        w = w * np.float32(1 - rate)\n"
    )
    a, b = (TrainingSource("t", "deaf:train", tmp_path, tmp_path, {"rate": rate}) for rate in (0.1, 0.1000001))
    found = compared(a, b)
    assert found.omissions.idle_twins == 0, "a change in the step itself is one"
    for settings in ({"dtype": "float16"}, {"device": "mlu370"}):
        with pytest.raises(UserError, match="expected") as raised:
            compared(a, a._replace(**settings))
        assert "weights = yield weights" in str(raised.value)
