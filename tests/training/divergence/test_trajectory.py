"""Stored runs are read from folders and archives, in the order of their steps; bad ones are named."""

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from precreg import record_trajectory
from precreg.errors import UserError
from precreg.training.divergence import read_trajectory
from precreg.training.divergence.alignment import measure_pair_of_runs
from precreg.training.divergence.trajectory import batch_digest

W = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_written_run_reads_back_bit_by_bit(tmp_path):
    half = W.astype(ml_dtypes.bfloat16)
    with record_trajectory(tmp_path / "run") as writer:
        writer.step({"w": W, "h": half})
        writer.step({"w": W + 1, "h": half}, loss=np.float32(0.5), batch=(W, [1, 2]))
    run = read_trajectory(tmp_path / "run", "run")
    assert run.numbers == (0, 1)
    first, second = run
    assert (first.loss, first.batch) == (None, None)
    assert second.loss == 0.5
    assert second.batch == batch_digest((W, [1, 2])) != batch_digest((W, [1, 3]))
    assert second.weights["h"].dtype == half.dtype
    assert second.weights["h"].tobytes() == half.tobytes()
    assert (second.weights["w"] == W + 1).all()


def test_every_keeps_every_nth_step(tmp_path):
    with record_trajectory(tmp_path / "run", every=3) as writer:
        for number in range(8):
            writer.step({"w": W + number})
    assert read_trajectory(tmp_path / "run", "run").numbers == (0, 3, 6)


def test_checkpoints_of_other_programs_have_their_last_number_as_step(tmp_path):
    for step in (2, 10, 1):
        save_file({"w": W + step}, tmp_path / f"resnet50-step{step}.safetensors")
    (tmp_path / "notes.txt").write_text("no weights")
    run = read_trajectory(tmp_path, "run")
    assert run.numbers == (1, 2, 10)
    assert (run.load(10).weights["w"] == W + 10).all()


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_one_archive_has_the_step_before_the_name(tmp_path, suffix):
    arrays = {f"{prefix}{step}/{name}": W + step for step in (0, 12) for name in ("w", "b.c") for prefix in ("step",)}
    path = tmp_path / f"run.{suffix}"
    np.savez(path, **arrays) if suffix == "npz" else save_file(arrays, path)
    run = read_trajectory(path, "run")
    assert run.numbers == (0, 12)
    assert set(run.load(12).weights) == {"w", "b.c"}


def stored(tmp_path, name, **arrays):
    np.savez(tmp_path / name, **arrays)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda folder: None, "no file or name with the number of a step"),
        (lambda folder: stored(folder, "weights.npz", w=W), "no file or name with the number of a step"),
        (lambda folder: (stored(folder, "a1.npz", w=W), stored(folder, "b1.npz", w=W)), "one file for step 1"),
    ],
)
def test_files_without_steps_are_named(tmp_path, make, expected):
    make(tmp_path)
    with pytest.raises(UserError, match=expected) as raised:
        read_trajectory(tmp_path, "run")
    assert raised.value.slug == "not-comparable"


def test_an_archive_without_steps_another_file_and_a_missing_one_are_named(tmp_path):
    stored(tmp_path, "a.npz", w=W)
    (tmp_path / "b.txt").write_text("x")
    for name, slug in (("a.npz", "not-comparable"), ("b.txt", "not-comparable"), ("c.npz", "missing-file")):
        with pytest.raises(UserError) as raised:
            read_trajectory(tmp_path / name, name)
        assert raised.value.slug == slug


def test_a_loss_of_many_numbers_is_refused(tmp_path):
    stored(tmp_path, "step1.npz", w=W, loss=W)
    with pytest.raises(UserError, match=r"one number as the loss of step 1"):
        read_trajectory(tmp_path, "run").load(1)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [(3, "weights by name"), ({"loss": W}, "other names of weights"), ({"w": "text"}, "a weight of numbers")],
)
def test_bad_weights_are_refused_by_the_writer(tmp_path, weights, expected):
    with record_trajectory(tmp_path / "run") as writer, pytest.raises(UserError, match=expected):
        writer.step(weights)


def test_the_writer_wants_an_empty_folder(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(UserError, match="empty folder"):
        record_trajectory(tmp_path)
    with pytest.raises(UserError, match="every >= 1"):
        record_trajectory(tmp_path / "run", every=0)


def run_of(tmp_path, name, steps):
    with record_trajectory(tmp_path / name) as writer:
        for step, weights in steps.items():
            writer.step(weights, step=step)
    return read_trajectory(tmp_path / name, name)


def test_runs_of_other_lengths_and_parameters_are_compared_where_they_agree(tmp_path):
    a = run_of(tmp_path, "a", {0: {"w": W, "x": W}, 1: {"w": W, "x": W}, 2: {"w": W, "x": W}})
    b = run_of(tmp_path, "b", {0: {"w": W, "y": W, "x": W.T}, 2: {"w": W, "y": W, "x": W.T}, 5: {"w": W}})
    found = measure_pair_of_runs("a", a, "b", b)
    left = found.omissions
    assert [each.step for each in found.steps] == [0, 2]
    assert (left.steps_a, left.steps_b) == (1, 1)
    assert (left.parameters_a, left.parameters_b, left.shapes) == ((), ("y",), ("x",))


def test_runs_without_a_common_step_or_parameter_are_refused(tmp_path):
    a = run_of(tmp_path, "a", {0: {"w": W}})
    with pytest.raises(UserError, match="steps that both runs have"):
        measure_pair_of_runs("a", a, "b", run_of(tmp_path, "b", {1: {"w": W}}))
    with pytest.raises(UserError, match="same names and shapes but got w and v"):
        measure_pair_of_runs("a", a, "c", run_of(tmp_path, "c", {0: {"v": W}}))
