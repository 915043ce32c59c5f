"""`precreg divergence` as a user calls it: stored runs, other commits, files, and mistakes."""

import json

import numpy as np
import pytest

from tests.e2e.command import change, git, precreg, repository

TRAINING = """\
import numpy as np


def train(rate=0.1, steps=20, narrow=False):
    draws = np.random.default_rng(3)
    x = draws.standard_normal((64, 16)).astype(np.float32)
    y = x @ draws.standard_normal(16).astype(np.float32)
    weights = yield {"w<script>": np.zeros(16, np.float32) + np.float32(0.1)}
    for _ in range(steps):
        w = weights["w<script>"]
        residual = x @ w - y
        gradient = x.T @ residual / np.float32(64)
        if narrow:
            gradient = gradient.astype(np.float16).astype(np.float32)
        weights = yield {"w<script>": w - np.float32(rate) * gradient}, (residual * residual).mean()


def other(rate=0.1):
    return 3


def broken():
    yield {"w": np.ones(3)}
    raise RuntimeError("no memory")
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "runs.py").write_text(TRAINING)
    return repository(tmp_path)


def test_a_narrow_gradient_is_a_loss_in_text_json_and_page(project):
    line = ["divergence", "runs:train", "--param", "B:narrow=true", "--report", "d.html", "--json", "d.json"]
    done = precreg(project, *line)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("loss: the runs part at step 1 by ")
    record = json.loads((project / "d.json").read_text())
    assert (record["verdict"], record["reason"], len(record["twins"])) == ("loss", "start", 8)
    assert record["parted"]["step"] == 1
    page = (project / "d.html").read_text()
    assert "Loss: the runs part at step 1" in page
    assert "w&lt;script&gt;" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_json_on_stdout_leaves_the_text_to_stderr(project):
    done = precreg(project, "divergence", "runs:train", "--json", "-")
    assert json.loads(done.stdout)["verdict"] == "identical"
    assert done.stderr.startswith("identical: all 21 compared steps")


def test_another_commit_runs_its_own_code(project):
    change(
        project / "runs.py", "x.T @ residual / np.float32(64)", "x.T @ (residual / np.float32(64)) * np.float32(1.01)"
    )
    done = precreg(project, "divergence", "runs:train", "--revision", "HEAD")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "at HEAD (" in done.stdout
    assert "loss: the runs part at step 1" in done.stdout
    git(project, "commit", "-qam", "same")
    same = precreg(project, "divergence", "runs:train", "--revision", "HEAD")
    assert same.stdout.startswith("identical"), same.stdout + same.stderr


def test_stored_runs_of_other_lengths_are_compared_where_they_agree(project):
    for name, steps in (("a", 20), ("b", 12)):
        done = precreg(project, "divergence", "runs:train", "--steps", str(steps), "--record", name)
        assert done.returncode == 0, done.stderr
    done = precreg(project, "divergence", "a", "b")
    assert done.returncode == 0
    assert "identical: all 13 compared steps" in done.stdout
    assert "8 steps of run A alone" in done.stdout


def test_nan_in_one_run_is_named_with_its_step(project):
    done = precreg(project, "divergence", "runs:train", "--record", "a")
    (project / "b").mkdir()
    for file in sorted((project / "a").iterdir()):
        arrays = dict(np.load(file))
        if file.name >= "step-000005":
            arrays["w<script>"] = arrays["w<script>"] * np.float32(np.nan)
        np.savez(project / "b" / file.name, **arrays)
    done = precreg(project, "divergence", "a", "b")
    assert done.returncode == 1
    assert "run B has NaN or infinities from step 5 on" in done.stdout
    other = precreg(project, "divergence", "b", "a", "--every", "5")
    assert "from step 5 on: 4 steps of A and 0 of B" in other.stdout, other.stdout


def stored(project, name, steps, names=("w",)):
    """Store a run whose weights at each step are the given value."""
    (project / name).mkdir()
    for step, value in steps.items():
        arrays = {each: np.full(4, value, np.float32) for each in names}
        np.savez(project / name / f"step-{step:06}.npz", **arrays)


BAD_RUNS = [
    ("other", "expected weights of the same names and shapes but got w and v", "give both runs of one model"),
    ("odd", "expected steps that both runs have but got 3 and 2 steps, none of them in both", "every=10"),
    ("gone", "error[missing-file]", "step-000012.npz"),
    ("empty", "expected weights by step but got no file or name", "step-000012.npz"),
    (
        "notes.txt",
        "expected a folder, .npz, .safetensors or .pt of weights by step but got notes.txt",
        "step-000012.npz",
    ),
    ("damaged", "damaged", "what to do"),
    (None, "expected a second run to compare with a but got none", "precreg divergence a run-b"),
]


@pytest.mark.parametrize(("second", "message", "next_step"), BAD_RUNS)
def test_bad_stored_runs_are_named_with_a_next_step(project, second, message, next_step):
    stored(project, "a", {0: 1.0, 1: 0.9, 2: 0.8})
    stored(project, "other", {0: 1.0, 1: 0.9}, names=("v",))
    stored(project, "odd", {7: 1.0, 9: 0.9})
    (project / "empty").mkdir()
    (project / "notes.txt").write_text("loss 3")
    (project / "damaged").mkdir()
    (project / "damaged" / "step-000001.npz").write_bytes(b"PK but no archive")
    done = precreg(project, "divergence", "a", *([second] if second else []))
    assert done.returncode == 2
    assert message in done.stderr
    assert next_step in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_missing_steps_are_counted_on_both_sides(project):
    stored(project, "a", {step: 1 - step / 9 for step in (0, 1, 2, 3, 5)})
    stored(project, "b", {step: 1 - step / 9 for step in (0, 2, 3, 4)})
    done = precreg(project, "divergence", "a", "b")
    assert done.stdout.startswith("identical: all 3 compared steps")
    assert "2 steps of run A alone" in done.stdout
    assert "1 step of run B alone" in done.stdout


def test_nan_from_the_first_step_is_no_verdict_on_b(project):
    stored(project, "bad", dict.fromkeys(range(3), np.nan))
    stored(project, "good", {0: 1.0, 1: 0.9, 2: 0.8})
    first = precreg(project, "divergence", "bad", "good")
    assert (first.returncode, "run A has NaN or infinities at step 0" in first.stdout) == (2, True), first.stdout
    assert "what to do: give a run A that is finite" in first.stdout
    same = precreg(project, "divergence", "bad", "bad")
    assert (same.returncode, same.stdout.partition(":")[0]) == (2, "unclear")
    second = precreg(project, "divergence", "good", "bad")
    assert (second.returncode, "run B has NaN or infinities from step 0 on" in second.stdout) == (1, True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["runs:other"], "to return a generator or a training of torch but got int"),
        (["runs:trian"], "error[missing-function]"),
        (["runs:broken"], "no memory"),
        (["nowhere"], "error[missing-file]"),
        (["nowhere"], "or name a training: precreg divergence nowhere:train"),
        (["runs:train", "--report", "no/d.html"], "no/d.html: error[not-writable]"),
        (["runs:train", "--every", "50"], "unclear: no weight of run A changes in 1 step, so equal bits show nothing"),
        (["runs:train", "--param", "order"], "expected NAME=VALUE but got param=order"),
        (["runs:train", "--param", "B:rate=[1"], "expected a value of YAML"),
        (["runs:train", "--dtype", "float61"], "error[unknown-dtype]"),
        (["runs:train", "--device", "mlu371"], "error[unknown-device]"),
        (["runs:train", "--dtype", "float16", "--dtype", "B:bfloat16"], "expected one --dtype for run B"),
        (["runs:train", "--revision", "nowhere"], "error[unknown-revision]"),
        (["runs:train", "--param", "speed=3"], "speed"),
    ],
)
def test_mistakes_are_named_without_a_traceback(project, line, expected):
    done = precreg(project, "divergence", *line)
    assert done.returncode == 2
    assert expected in done.stdout + done.stderr
    assert "precreg/training" not in done.stderr, "a traceback shows the lines of the user alone"
    assert "bug of precreg" not in done.stderr
