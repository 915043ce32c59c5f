"""`precreg diagnose` of cases that compute with torch: one change of a module, and the cause that is named for it."""

import json

import pytest

from tests.e2e.command import accept_on_main, change, git, repository, started

NETS = """\
import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(48, 32) for _ in range(3))
        self.out = nn.Linear(32, 48)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k.transpose(-1, -2) / 5.6
        weights = torch.softmax(scores, -1)
        spread = 1 + x.abs().mean(-1, keepdim=True)
        return self.out((weights * 1.1) / spread @ v)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(48, eps=1e-5)
        self.attention = Attention()
        self.up, self.down = nn.Linear(48, 64), nn.Linear(64, 48)
        self.mix = nn.Parameter(torch.randn(48, 48) / 7)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        hidden = functional.gelu(self.up(x), approximate="none")
        x = x + self.down(hidden)
        return x @ self.mix


def rms_norm(x, w):
    import torch
    x, w = torch.from_numpy(x), torch.from_numpy(w)
    mean = (x * x).mean(-1, keepdim=True)
    return (x * torch.rsqrt(mean + 1e-6) * w).numpy()
"""
SUITE = """\
suite: {name}
subject: {subject}
{oracle}
inputs:
  x: {{shape: [20, 48], dtype: {dtype}, normal: {{}}}}
{more}
tolerance: none
"""
SUITES = {
    "block": ("{torch: 'nets:Block'}", "float32"),
    "half": ("{torch: 'nets:Block', dtype: float16}", "float16"),
    "bfloat": ("{torch: 'nets:Block', dtype: bfloat16}", "bfloat16"),
    "autocast": ("{torch: 'nets:Block', autocast: bfloat16}", "float32"),
    "compiled": ("{torch: 'nets:Block', compile: true}", "float32"),
    "gradients": ("{torch: 'nets:Block', gradients: [parameters]}", "float32"),
}


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """Return a repository with accepted baselines of all suites."""
    folder = tmp_path_factory.mktemp("accepted") / "project"
    (folder / "suites/unit").mkdir(parents=True)
    (folder / "suites/unit/nets.py").write_text(NETS)
    for name, (subject, dtype) in SUITES.items():
        text = SUITE.format(name=name, subject=subject, dtype=dtype, oracle="", more="")
        (folder / f"suites/unit/{name}.yaml").write_text(text)
    weights = "  w: {shape: [48], dtype: float32, normal: {}}"
    text = SUITE.format(
        name="python", subject="nets:rms_norm", dtype="float32", oracle="reference: nets:rms_norm", more=weights
    )
    (folder / "suites/unit/python.yaml").write_text(text)
    return accept_on_main(repository(folder))


def diagnosed(accepted, tmp_path, changes, case, *options):
    """Change the modules, and return the finished command and its diagnosis."""
    project = tmp_path / "project"
    git(tmp_path, "clone", "-q", str(accepted), str(project))
    for old, new in changes:
        change(project / "suites/unit/nets.py", old, new)
    done = started(project, "diagnose", f"unit/{case}", "--json", "-", "--seconds", "120", *options)
    assert "Traceback" not in done.stderr, done.stderr
    return done, json.loads(done.stdout)


CHANGES = {
    "epsilon": ([("eps=1e-5", "eps=1e-3")], "block", ("other_constant", "self.norm(x)")),
    "cast of k": (
        [("        scores = q", "        k = k.to(torch.float16).to(k.dtype)\n        scores = q")],
        "block",
        ("hop_result", "self.key(x)"),
    ),
    "scale": ([("/ 5.6", "/ 5.7")], "block", ("other_constant", "q @ k.transpose(-1, -2) / 5.6")),
    "order": (
        [("(weights * 1.1) / spread @ v", "(weights / spread) * 1.1 @ v")],
        "block",
        ("swapped_order", "(weights * 1.1) / spread"),
    ),
    "gelu": (
        [('"none"', '"tanh"')],
        "block",
        ("other_option", 'functional.gelu(self.up(x), approximate="none")'),
    ),
    "dropped residual": (
        [("x = x + self.down(hidden)", "x = self.down(hidden)")],
        "block",
        ("only_operand", "x + self.down(hidden)"),
    ),
    "transposed weight": ([("x @ self.mix", "x @ self.mix.T")], "block", ("transposed", "x @ self.mix")),
    "bias twice": (
        [("self.up(x), ", "self.up(x) + self.up.bias, ")],
        "block",
        ("operand_twice", "self.up(x)"),
    ),
    "half": ([("eps=1e-5", "eps=1e-3")], "half", ("other_constant", "self.norm(x)")),
    "bfloat16": ([('"none"', '"tanh"')], "bfloat", ("other_option", None)),
    "autocast": ([('"none"', '"tanh"')], "autocast", ("other_option", None)),
    "autocast, order": (
        [("(weights * 1.1) / spread @ v", "(weights / spread) * 1.1 @ v")],
        "autocast",
        ("swapped_order", "(weights * 1.1) / spread"),
    ),
    "gradients": ([("eps=1e-5", "eps=1e-3")], "gradients", ("other_constant", "self.norm(x)")),
    "python function": (
        [("rsqrt(mean + 1e-6)", "rsqrt(mean + 1e-4)")],
        "python",
        ("other_constant", "mean + 1e-6"),
    ),
    "python function, cast": (
        [("(x * x).mean(", "(x * x).half().float().mean(")],
        "python",
        ("hop_result", "x * x"),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_change_is_named_with_its_place(accepted, tmp_path, name):
    changes, case, (rewrite, expression) = CHANGES[name]
    done, found = diagnosed(accepted, tmp_path, changes, case)
    assert found["status"] == "found", found
    cause = found["causes"][0]
    assert cause["rewrite"] == rewrite, found
    if expression is not None:
        assert cause["place"]["expression"] == expression
    assert cause["place"]["site"]["file"] == "suites/unit/nets.py"
    assert cause["evidence"]["reproduced"] == cause["evidence"]["elements"], cause
    assert done.returncode == 0


def test_a_compiled_module_without_an_error_passes(accepted, tmp_path):
    done, found = diagnosed(
        accepted,
        tmp_path,
        [("import torch\nfrom torch import nn\n", "import torch  # fast\nfrom torch import nn\n")],
        "compiled",
    )
    assert (done.returncode, found["status"]) == (0, "passed"), found


def test_a_change_of_a_compiled_module_is_named(accepted, tmp_path):
    done, found = diagnosed(accepted, tmp_path, CHANGES["epsilon"][0], "compiled")
    (cause,) = found["causes"]
    assert (found["status"], done.returncode) == ("found", 0), found
    assert cause["rewrite"] in ("other_constant", "changed_constant"), found


def test_a_cast_in_a_module_without_an_accepted_version_is_named(accepted, tmp_path):
    changes = [("        scores = q", "        k = k.to(torch.float16).to(k.dtype)\n        scores = q")]
    project = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(accepted), str(project))
    git(project, "rm", "-rq", "baselines")
    git(project, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "new")
    _, found = diagnosed(project, tmp_path, changes, "gradients")
    cause = found["causes"][0]
    assert (cause["rewrite"], cause["base"], cause["place"]["site"]["code"]) == (
        "cast_removed",
        "subject",
        "k = k.to(torch.float16).to(k.dtype)",
    )
