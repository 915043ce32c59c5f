"""Stored gradients are read step by step, with their formats, losses and scales."""

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from precreg.errors import UserError
from precreg.training.gradients import read_gradients


def test_an_archive_is_one_step(tmp_path):
    np.savez(tmp_path / "g.npz", **{"fc.weight": np.float32([1.0, 2.0]), "loss": np.float64(0.5)})
    (step,) = read_gradients(tmp_path / "g.npz")
    assert (step.step, step.loss, step.scale) == (0, 0.5, 1.0)
    assert step.arrays["fc.weight"].tolist() == [1.0, 2.0]
    assert step.formats == {"fc.weight": "float32"}


def test_names_with_steps_are_several_steps_in_order(tmp_path):
    np.savez(tmp_path / "g.npz", **{"10/w": np.float32([3.0]), "9/w": np.float32([1.0]), "9/block/b": np.zeros(1)})
    steps = list(read_gradients(tmp_path / "g.npz"))
    assert [step.step for step in steps] == [9, 10]
    assert set(steps[0].arrays) == {"w", "block/b"}


def test_a_folder_has_a_file_for_each_step(tmp_path):
    for number in (2, 10, 1):
        np.savez(tmp_path / f"step{number}.npz", w=np.float32([number]))
    (tmp_path / "notes.txt").write_text("not an archive")
    assert [(step.step, step.arrays["w"][0]) for step in read_gradients(tmp_path)] == [(1, 1.0), (2, 2.0), (10, 10.0)]


def test_a_stored_scale_is_divided_out_and_the_format_is_kept(tmp_path):
    half = np.array([2.0**-24, 1.0], np.float16)
    np.savez(tmp_path / "g.npz", w=half, loss_scale=np.float32(65536.0))
    (step,) = read_gradients(tmp_path / "g.npz")
    assert (step.scale, step.formats) == (65536.0, {"w": "float16"})
    assert step.arrays["w"].tolist() == [2.0**-40, 2.0**-16]


def test_safetensors_with_bfloat16(tmp_path):
    save_file({"w": np.array([1.5], ml_dtypes.bfloat16)}, tmp_path / "g.safetensors")
    (step,) = read_gradients(tmp_path / "g.safetensors")
    assert (step.formats, step.arrays["w"].dtype) == ({"w": "bfloat16"}, np.float32)


def test_integers_stay_as_they_are(tmp_path):
    np.savez(tmp_path / "g.npz", n=np.arange(2), loss_scale=2.0)
    (step,) = read_gradients(tmp_path / "g.npz")
    assert (step.arrays["n"].dtype.kind, step.formats) == ("i", {})


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_that_is_none_is_refused(tmp_path, scale):
    np.savez(tmp_path / "g.npz", w=np.ones(1), loss_scale=scale)
    with pytest.raises(UserError, match=r"expected a positive loss_scale but got .* in step 0") as caught:
        list(read_gradients(tmp_path / "g.npz"))
    assert caught.value.slug == "bad-scale"


@pytest.mark.parametrize("name", ["loss", "loss_scale"])
def test_a_loss_or_a_scale_of_many_numbers_is_refused_and_no_gradient(tmp_path, name):
    np.savez(tmp_path / "g.npz", w=np.ones(1), **{name: np.ones(3)})
    with pytest.raises(UserError, match=rf"expected one number as {name} of step 0 but got an array of shape \(3,\)"):
        list(read_gradients(tmp_path / "g.npz"))


def test_two_files_of_one_step_are_refused(tmp_path):
    for name in ("rank0-step1.npz", "rank1-step1.npz"):
        np.savez(tmp_path / name, w=np.ones(1))
    with pytest.raises(UserError, match=r"one file for step 1 but got rank0-step1.npz and rank1-step1.npz"):
        list(read_gradients(tmp_path))


def test_a_path_without_arrays_is_refused(tmp_path):
    for path, slug in ((tmp_path / "none.npz", "missing-file"), (tmp_path, "missing-file")):
        with pytest.raises(UserError) as caught:
            list(read_gradients(path))
        assert caught.value.slug == slug
    (tmp_path / "g.txt").write_text("")
    with pytest.raises(UserError, match=r"expected an archive of named arrays but got g\.txt") as caught:
        list(read_gradients(tmp_path / "g.txt"))
    assert caught.value.slug == "unknown-file-format"
