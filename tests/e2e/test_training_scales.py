"""`precreg training --gradients` on stored gradients: the table, the JSON, the page, and mistakes."""

import json
from math import floor, log2

import numpy as np
import pytest

from tests.e2e.command import precreg


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(21)
    (tmp_path / "gradients").mkdir()
    for step in range(6):
        arrays = {
            "embed.weight": (random.standard_normal((8, 8)) * 1e-7).astype(np.float32),
            "head.weight": (random.standard_normal(16) * 0.1).astype(np.float32),
        }
        np.savez(tmp_path / "gradients" / f"step{step}.npz", **arrays)
    return tmp_path


def test_scales_tensor_scales_and_clipping_are_shown_and_written(folder):
    done = precreg(
        folder, "training", "--gradients", "gradients", "--scales", "--tensor-format", "e5m2", "--clip", "0.25",
        "--json", "found.json", "--report", "found.html",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "found.json").read_text())["losses"]
    advice = found["loss_scale"]["recommendation"]
    assert f"torch.amp.GradScaler(init_scale=2.0**{advice['exponent']})" in done.stdout
    archives = (np.load(path) for path in (folder / "gradients").iterdir())
    largest = max(float(np.abs(arrays["head.weight"]).max()) for arrays in archives)
    highest = floor(log2(65519.0 / largest))
    assert (found["loss_scale"]["window"]["high"], advice["highest"]) == (highest, highest)
    # Most of embed.weight is below 2**-24 / 1, and none is at 2**13.
    embed = next(layer for layer in found["loss_scale"]["layers"] if layer["parameter"] == "embed.weight")
    assert embed["zero"][0] > 0.15 * embed["nonzero"]
    assert embed["zero"][13] < 0.01 * embed["nonzero"]
    assert "per-tensor scales of float8_e5m2" in done.stdout
    assert [each["limit"] for each in found["clipping"]["effects"] if each["quantile"] is None] == [0.25, 0.25]
    assert "<h2>Loss scale of float16</h2>" in (folder / "found.html").read_text()
    assert done.stdout.endswith("written: found.json, found.html\n")


def test_json_on_stdout_leaves_the_table_to_stderr(folder):
    done = precreg(folder, "training", "--gradients", "gradients", "--scales", "--json", "-")
    assert json.loads(done.stdout)["losses"]["loss_scale"]["steps"] == 6
    assert "loss scale\n" in done.stderr


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--gradients", "none", "--report", "no/x.html"], "no/x.html: error[not-writable]"),
        (["--gradients", "none"], "expected stored gradients but none is not there"),
        (["--gradients", "gradients", "--format", "float61"], "expected the name of a format but got format=float61"),
        (["--gradients", "gradients", "--tensor-format", "e9"], "expected the name of a format but got format=e9"),
        (["--gradients", "gradients", "--clip", "-1"], "expected a positive norm but got clip=-1"),
    ],
)
def test_mistakes_are_messages_without_a_traceback(folder, words, printed):
    done = precreg(folder, "training", *words)
    assert done.returncode == 2
    assert printed in done.stderr
    assert "Traceback" not in done.stderr


def test_arrays_without_gradients_are_named(folder):
    np.savez(folder / "counts.npz", counts=np.arange(4))
    done = precreg(folder, "training", "--gradients", "counts.npz")
    assert done.returncode == 2
    assert "error[no-gradients]: expected gradients in counts.npz but got no floating-point array" in done.stderr


def test_the_table_has_the_figures_of_stored_gradients(folder):
    archive = folder / "gradients" / "step3.npz"
    kept = dict(np.load(archive))
    np.savez(archive, **{**kept, "head.weight": np.full(16, np.nan, np.float32), "count": np.arange(3)})
    done = precreg(folder, "training", "--gradients", "gradients", "--json", "r.json")
    assert done.returncode == 0, done.stderr
    record = json.loads((folder / "r.json").read_text())["record"]
    assert [step["step"] for step in record["steps"]] == list(range(6))
    assert done.stdout.splitlines()[1] == "  head.weight has NaN or infinite values in its gradient (first at step 3)"
    rows = done.stdout.partition("gradients by parameter\n")[2].splitlines()[1:3]
    assert [row.split()[0] for row in rows] == ["head.weight", "embed.weight"]
    assert "count holds no floating-point numbers and is not measured (first at step 3): int64" in done.stdout
