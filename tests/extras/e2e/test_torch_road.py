"""Subjects of torch end to end: accepted, a planted loss found, an equal rewrite passed, and nothing left behind."""

import json
import shutil

import pytest

from tests.e2e.command import accept_on_main, change, git, precreg, repository, started, with_suite

SUITE = """\
suite: s
subject: {torch: "k:Net", dtype: $dtype}
matrix: {dtype: [float32, bfloat16]}
inputs:
  x: {shape: [32, 48], dtype: $dtype, normal: {}}
tolerance: none
"""
KERNEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(48, 64)
        self.norm = nn.LayerNorm(64)
        self.outer = nn.Linear(64, 32)

    def forward(self, x):
        hidden = self.norm(torch.relu(self.inner(x)))
        return self.outer(hidden)
"""
LOSS = "self.outer(hidden.to(torch.float8_e4m3fn).to(x.dtype))"
REWRITE = "self.outer(1.0 * hidden)"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    folder = repository(with_suite(tmp_path_factory.mktemp("accepted"), SUITE, KERNEL))
    (folder / "suites/unit/other.yaml").write_text(
        "suite: other\nsubject: numpy:exp\nreference: numpy:exp\n"
        "inputs: {x: {shape: [9], dtype: float32, normal: {}}}\n"
    )
    return accept_on_main(folder)


@pytest.fixture
def project(accepted, tmp_path):
    """A repository whose results are accepted on main."""
    return shutil.copytree(accepted, tmp_path / "project")


def results(folder):
    cases = json.loads((folder / "reports/record.json").read_text())["results"]
    return {case["id"]: case["verdict"]["reason"] for case in cases}


def test_accepted_results_are_identical_again(project):
    done = started(project, "run", "--jobs", "2")
    assert done.returncode == 0, done.stdout
    assert set(results(project).values()) == {"identical"}
    assert "left" not in done.stdout


def test_commands_without_a_run_know_the_environment_that_accepted(project):
    for command in ("explain", "power"):
        done = precreg(project, command, "unit/s")
        assert (done.returncode, "accepted in another environment" in done.stdout) == (0, False), done.stdout


@pytest.mark.parametrize("pair", [(), ("--pair", "HEAD")])
def test_a_planted_loss_is_found_and_a_rewrite_passes(project, pair):
    kernel = project / "suites/unit/k.py"
    change(kernel, "self.outer(hidden)", REWRITE)
    done = started(project, "run", "unit/s", "--jobs", "2", *pair)
    assert done.returncode == 0, done.stdout
    change(kernel, REWRITE, LOSS)
    done = started(project, "run", "unit/s", "--jobs", "2", *pair)
    assert done.returncode == 1, done.stdout
    assert results(project) == {"unit/s/float32": "regressed", "unit/s/bfloat16": "regressed"}


def test_a_change_of_the_module_selects_its_cases(project):
    (project / "suites/unit/k.py").write_text(KERNEL + "\n\n# changed\n")
    done = precreg(project, "list", "--changed-since", "HEAD")
    assert done.stdout.split() == ["unit/s/float32", "unit/s/bfloat16"]
    (project / "suites/unit/k.py").write_text(KERNEL)
    assert precreg(project, "list", "--changed-since", "HEAD").stdout.split() == []


def test_a_change_of_the_weights_selects_its_cases(project):
    import torch

    torch.manual_seed(1)
    (project / "suites/unit/w").mkdir()
    torch.save({"weight": torch.ones(2, 48), "bias": torch.zeros(2)}, project / "suites/unit/w/a.pt")
    text = SUITE.replace("k:Net", "k:plain").replace("suite: s", "suite: w")
    text = text.replace("dtype: $dtype}\nm", "dtype: $dtype, arguments: {}, weights: w/a.pt}\nm").replace(
        "  x:", "  input:"
    )
    (project / "suites/unit/w.yaml").write_text(text)
    (project / "suites/unit/k.py").write_text(KERNEL + "\n\ndef plain():\n    return nn.Linear(48, 2)\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "weights")
    assert precreg(project, "run", "unit/w").returncode == 2
    assert set(results(project).values()) == {"new"}
    torch.save({"weight": torch.ones(2, 48) * 2, "bias": torch.zeros(2)}, project / "suites/unit/w/a.pt")
    done = precreg(project, "list", "--changed-since", "HEAD")
    assert done.stdout.split() == ["unit/w/float32", "unit/w/bfloat16"]


REFERENCES = """

def soft(x):
    return torch.softmax(x, -1)


def exact(x):
    assert x.dtype == torch.float64
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


def exact_numpy(x):
    import numpy as np

    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def same_dtype(x):
    assert x.dtype == torch.bfloat16
    return torch.softmax(x, -1)
"""


def test_an_explicit_reference_of_torch_of_numpy_and_a_golden(project):
    (project / "suites/unit/k.py").write_text(KERNEL + REFERENCES)
    suite = "suite: r{n}\nsubject: {{torch: 'k:soft'}}\n{role}\n"
    suite += "inputs:\n  x: {{shape: [4, 8], dtype: bfloat16, normal: {{}}}}\n"
    roles = ("reference: {torch: 'k:exact'}", "reference: k:exact_numpy", "golden: {torch: 'k:same_dtype'}")
    for n, role in enumerate(roles):
        (project / f"suites/unit/r{n}.yaml").write_text(suite.format(n=n, role=role))
    done = precreg(project, "run", "unit/r*")
    assert set(results(project).values()) == {"new"}, done.stdout
    record = json.loads((project / "reports/record.json").read_text())
    errors = [case["outcome"]["comparisons"][0]["metrics"]["max_abs_error"] for case in record["results"]]
    assert errors[0] == pytest.approx(errors[1], rel=1e-9)
    assert errors[0] > 0
    assert errors[2] == 0


BAD = {
    "cuda": ("k:Net", ", on: cuda", "unavailable", "needs cuda, but torch"),
    "import": ("broken:Net", "", "subject_error", "ModuleNotFoundError: No module named 'nowhere'"),
    "dtype": ("k:eight", "", "subject_error", 'torch says: "softmax_lastdim_kernel_impl" not implemented for'),
    "memory": (
        "k:memory",
        "",
        "subject_error",
        "expected memory for k:memory on cpu but got OutOfMemoryError: CUDA out of",
    ),
    "no tensor": ("k:text", "", "subject_error", "expected an array of numbers but got output 1 of dtype=<U4"),
    "object": ("k:thing", "", "subject_error", "expected an array of numbers but got output y of dtype=object"),
}
BAD_KERNEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x


def eight(x):
    return torch.softmax(x.to(torch.float8_e4m3fn), -1)


def memory(x):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of")


def text(x):
    return x, "text"[:4]


def thing(x):
    return {"y": nn.Linear(1, 1)}
"""


@pytest.mark.parametrize("mistake", BAD)
def test_one_message_for_each_mistake(tmp_path, mistake):
    target, options, reason, message = BAD[mistake]
    if mistake == "cuda":
        import torch

        assert not torch.cuda.is_available() or torch.cuda.device_count() < 900
        options = ", on: 'cuda:900'"
    suite = f"suite: s\nsubject: {{torch: '{target}'{options}}}\n"
    suite += "inputs: {x: {shape: [4, 8], dtype: float32, normal: {}}}\n"
    folder = with_suite(tmp_path, suite, BAD_KERNEL)
    (folder / "suites/unit/broken.py").write_text("import nowhere\n\nclass Net:\n    pass\n")
    done = precreg(repository(folder), "run")
    assert results(folder) == {"unit/s/default": reason}, done.stdout
    assert message.replace("needs cuda,", "needs cuda:900,") in done.stdout
    if reason == "unavailable":
        assert done.returncode == 0
        assert "needs cuda:900, but torch" in precreg(folder, "run", "--require").stdout
        assert results(folder) == {"unit/s/default": "unavailable"}


def test_float64_inputs_stay_float64_in_a_reference_of_torch(tmp_path):
    kernel = "import torch\n\n\ndef f(x):\n    assert x.dtype == torch.float64\n    return x.exp()\n"
    suite = "suite: s\nsubject: {torch: 'k:f'}\ninputs: {x: {shape: [9], dtype: float64, normal: {}}}\n"
    folder = repository(with_suite(tmp_path, suite, kernel))
    done = precreg(folder, "run")
    assert results(folder) == {"unit/s/default": "new"}, done.stdout


@pytest.mark.parametrize("option", ["gradients: [inputs, parameters], mode: train", "compile: true", "threads: 4"])
def test_a_case_leaves_nothing_and_spoils_nobody(tmp_path, option):
    suite = SUITE.replace("dtype: $dtype}", f"dtype: $dtype, {option}}}", 1)
    folder = repository(with_suite(tmp_path, suite, KERNEL))
    (folder / "suites/unit/other.yaml").write_text(
        "suite: a\nsubject: k2:f\nreference: k2:f\ninputs: {x: {shape: [9], dtype: float32, normal: {}}}\n"
    )
    (folder / "suites/unit/k2.py").write_text("import numpy as np\n\ndef f(x):\n    return np.exp(x)\n")
    done = started(folder, "run", "--jobs", "1")
    assert done.returncode == 2, done.stdout
    record = json.loads((folder / "reports/record.json").read_text())
    assert [case["outcome"]["execution"].get("left", []) for case in record["results"]] == [[]] * 3
    assert set(results(folder).values()) == {"new"}
