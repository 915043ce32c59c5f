"""What a subject of torch computes, in which state, and what it leaves."""

import copy
import random
import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from precreg.errors import UserError
from precreg.subject.kind import kind_named
from precreg.subject.surroundings import describe_failure
from precreg.subject.torch.compilation import begin_compilation
from precreg.subject.torch.run import run_torch
from precreg.types import Reason

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        self.first = nn.Linear(4, width)
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 2)
        self.cache = []

    def forward(self, x, scale=1.0):
        self.cache.append(x)
        hidden = torch.relu(self.norm(self.first(x)))
        return {"hidden": hidden * len(self.cache), "y": self.last(hidden) * scale}


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.randn(x.shape).to(x.dtype)


def wide(width=7):
    return Net(width)


def double(x, factor=2.0):
    return x * factor


def no_module():
    return 3


made = nn.Linear(4, 3)
"""


@pytest.fixture
def run(write, call):
    write("suites/unit/net.py", NET)

    def run(name, inputs=None, params=None, **options):
        given = {"x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)} if inputs is None else inputs
        return run_torch({"torch": name, **options}, call(given, params)).arrays

    return run


def test_a_function_gets_tensors_by_keyword(run):
    assert run("net:double", {"x": np.ones(2, np.float32)}, {"factor": 3.0})["out"].tolist() == [3, 3]
    got = run("torch:softmax", {"input": np.zeros((1, 4), np.float16)}, {"dim": 1})["out"]
    assert (got.dtype, got.tolist()) == (np.float16, [[0.25] * 4])


def test_a_class_a_factory_and_a_module_are_called_with_the_inputs(run):
    assert run("net:Net")["hidden"].shape == (3, 5)
    assert run("net:Net", arguments={"width": 6})["hidden"].shape == (3, 6)
    assert run("net:wide")["hidden"].shape == (3, 7)
    assert run("net:wide", arguments={})["hidden"].shape == (3, 7)
    assert run("net:made", {"input": np.ones((1, 4), np.float32)})["out"].shape == (1, 3)
    assert run("net:Net", params={"scale": 0.0})["y"].tolist() == [[0, 0]] * 3


def plain_net(write, project, seed=0):
    """Return the module of NET, built as a user builds it."""
    space = {}
    exec(NET, space)
    torch.manual_seed(seed)
    return space["Net"]()


def test_the_seed_decides_the_weights_and_evaluation_is_the_default(run, write, project):
    x = torch.from_numpy(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)).clone()
    for seed in (0, 7):
        state = torch.get_rng_state()
        net = plain_net(write, project, seed)
        torch.set_rng_state(state)
        with torch.no_grad():
            evaluated, trained = copy.deepcopy(net).eval()(x), copy.deepcopy(net).train()(x)
        assert run("net:Net", seed=seed)["y"].tobytes() == evaluated["y"].numpy().tobytes()
        assert run("net:Net", seed=seed, mode="train")["y"].tobytes() == trained["y"].numpy().tobytes()


def test_each_call_finds_the_same_state(run):
    first, second = (run("net:Net", mode="train") for _ in range(2))
    assert first["hidden"].tobytes() == second["hidden"].tobytes(), "neither statistics nor the cache of a call stay"
    assert run("net:Noisy")["out"].tobytes() == run("net:Noisy")["out"].tobytes()
    assert run("net:Noisy", seed=1)["out"].tobytes() != run("net:Noisy")["out"].tobytes()


def test_the_default_reference_has_the_same_weights_in_float64(run, write, project):
    spec = kind_named("torch").reference({"torch": "net:Net", "dtype": "bfloat16", "autocast": "bfloat16", "seed": 3})
    assert spec == {"torch": "net:Net", "dtype": "bfloat16", "seed": 3, "widened": "float64"}
    x = np.linspace(-1, 1, 12).reshape(3, 4)
    got = run(spec.pop("torch"), {"x": x}, **spec)["y"]
    net = plain_net(write, project, 3).to(torch.bfloat16).eval()
    weights = {name: each.double().numpy() for name, each in net.state_dict().items()}
    # In numpy, from the formulas of the layers.
    hidden = x @ weights["first.weight"].T + weights["first.bias"]
    hidden = (hidden - weights["norm.running_mean"]) / np.sqrt(weights["norm.running_var"] + net.norm.eps)
    hidden = np.maximum(hidden * weights["norm.weight"] + weights["norm.bias"], 0)
    expected = hidden @ weights["last.weight"].T + weights["last.bias"]
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-15)


def test_dtype_and_autocast(run):
    x = np.linspace(-1, 1, 12).reshape(3, 4)
    assert run("net:Net", {"x": x}, dtype="float64")["y"].dtype == np.float64
    assert run("net:made", {"input": x.astype(np.float32)}, autocast="bfloat16")["out"].dtype.name == "bfloat16"


def state():
    return (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.get_num_threads(),
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
        torch.get_default_device(),
        torch.get_rng_state().tolist(),
        random.getstate(),
        np.random.get_state()[1].tolist(),
    )


SETTER = """\
import random
import numpy as np
import torch


def show(x):
    return {
        "threads": torch.tensor(torch.get_num_threads()),
        "deterministic": torch.tensor(torch.are_deterministic_algorithms_enabled()),
        "precision": torch.tensor(["highest", "high", "medium"].index(torch.get_float32_matmul_precision())),
        "tf32": torch.tensor(torch.backends.cudnn.allow_tf32),
    }


def leave(x):
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("medium")
    torch.set_num_threads(3)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.set_default_device("meta")
    torch.manual_seed(5), random.seed(5), np.random.seed(5)
    return x
"""


def test_settings_hold_for_the_call_and_are_put_back(write, run):
    write("suites/unit/setter.py", SETTER)
    before = state()
    usual = run("setter:show")
    assert {name: int(value) for name, value in usual.items()} == dict(threads=1, deterministic=0, precision=0, tf32=1)
    set_all = run("setter:show", threads=2, deterministic=True, matmul_precision="medium")
    assert {name: int(value) for name, value in set_all.items()} == dict(
        threads=2, deterministic=1, precision=2, tf32=1
    )
    assert {name: int(value) for name, value in run("setter:show", tf32=False).items()}["tf32"] == 0
    run("setter:leave")
    assert state() == before


def test_settings_of_a_module_on_import_reach_no_call(write, run):
    write(
        "suites/unit/importer.py",
        "import torch\ntorch.set_default_dtype(torch.float64)\ntorch.set_float32_matmul_precision('medium')\n"
        "def f(x):\n    return torch.ones(1) * (torch.get_float32_matmul_precision() == 'highest')\n",
    )
    for _ in range(2):
        got = run("importer:f")["out"]
        assert (got.dtype, got.tolist()) == (np.float32, [1])
    assert torch.get_default_dtype() == torch.float32


def test_facts_name_what_computed(write, call):
    write("suites/unit/net.py", NET)
    facts = run_torch({"torch": "net:double"}, call({"x": np.ones(2)})).facts
    assert facts == {"torch": torch.__version__, "device": "cpu", "torch_threads": "1"}
    facts = run_torch({"torch": "net:double", "deterministic": True, "threads": 2}, call({"x": np.ones(2)})).facts
    assert (facts["deterministic"], facts["torch_threads"]) == ("true", "2")


def test_a_compiled_module_is_compiled_once_for_its_shapes(write, call):
    write("suites/unit/net.py", NET)
    spec = {"torch": "net:Net", "compile": {"backend": "eager"}}
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    plain = run_torch({"torch": "net:Net"}, call({"x": x})).arrays
    for _ in range(2):
        outputs = run_torch(spec, call({"x": x}))
        assert {name: each.tobytes() for name, each in outputs.arrays.items()} == {
            name: each.tobytes() for name, each in plain.items()
        }, "the call that compiles leaves no trace in the measured one"
    assert outputs.facts["compile"] == "eager"
    assert not begin_compilation(spec, call({"x": x}))
    assert begin_compilation(spec, call({"x": x[:2]}))
    assert begin_compilation(spec, call({"x": x})), "the compiler forgot it, so that no case depends on another"


@dataclass
class Mistake:
    name: str
    options: dict
    slug: str
    message: str


@pytest.mark.parametrize(
    "mistake",
    [
        Mistake("net:no_module", {}, "bad-outputs", "net:no_module to return a torch.nn.Module.*but got int"),
        Mistake(
            "net:double", {"dtype": "float16"}, "bad-value", "expected a module beside dtype but net:double is a fu"
        ),
        Mistake("net:double", {"gradients": ["parameters"]}, "bad-value", "a module beside gradients"),
        Mistake("net:made", {"arguments": {}}, "bad-value", "net:made is a module already"),
    ],
    ids=lambda mistake: f"{mistake.name} {mistake.options}",
)
def test_options_that_do_not_fit_the_target(run, mistake):
    with pytest.raises(UserError, match=mistake.message) as caught:
        run(mistake.name, **mistake.options)
    assert caught.value.slug == mistake.slug


@pytest.mark.parametrize(
    ("name", "inputs", "options", "note"),
    [
        (
            "torch.nn:Linear",
            {"x": "f4"},
            {"arguments": {"in_features": 4, "out_features": 2}},
            "takes input, but gets x",
        ),
        ("net:double", {"y": "f4"}, {}, "net:double takes x, factor, but gets y by name"),
        ("net:Net", {"x": "f8"}, {}, "inputs are float64, weights are float32: write dtype: float64 beside"),
        ("net:fails", {"x": "f8"}, {"widened": "float64"}, "default reference, .* name a reference:"),
    ],
)
def test_an_error_of_a_call_has_a_remedy(run, write, name, inputs, options, note):
    write("suites/unit/net.py", NET + "\n\ndef fails(x):\n    return x.matrix_exp_of_nothing()\n")
    with pytest.raises((TypeError, RuntimeError, AttributeError)) as caught:
        run(name, {each: np.ones((3, 4), dtype) for each, dtype in inputs.items()}, **options)
    assert re.search(note, caught.value.__notes__[0])


@pytest.mark.parametrize("broken", ["raise RuntimeError('on import')", "class Net:\n    x = 1 / 0"])
def test_a_failing_import_shows_frames_of_the_user_alone(write, call, broken):
    write("suites/unit/broken.py", f"{broken}\n")
    with pytest.raises((RuntimeError, ZeroDivisionError)) as caught:
        run_torch({"torch": "broken:Net"}, call())
    # The first frame is that of this test.
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    detail = describe_failure(error, Reason.SUBJECT_ERROR).detail
    assert "broken.py" in detail.splitlines()[1]
