"""Shares of an output's error, against runs in which one operation alone makes its error."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from precreg.shadow.recorder import Recorder
from precreg.shadow.torch import TorchEngine
from tests.extras.shadow.torch.networks import residual, transformer


def shares_of(function, *inputs, module=None):
    """Return the shares of the result, and the records."""
    recorder = Recorder()
    with TorchEngine(recorder, module) as engine:
        result = function(*inputs)
        found = engine.shares({"out": result})
    return found["out"], recorder


class OneError(TorchDispatchMode):
    """Run everything in float64, and add the error of one operation to its result."""

    def __init__(self, number, errors):
        super().__init__()
        self.number, self.errors, self.count = number, errors, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.replace("::", ".")
        if name in {name for name, _ in self.errors} and not func.is_view:
            if self.count == self.number:
                assert self.errors[self.number][0] == name
                first = result[0] if isinstance(result, tuple) else result
                first += self.errors[self.number][1]
            self.count += 1
        return result


class KeepOwn:
    """Keep the own error of each operation."""

    def __init__(self):
        self.errors = []

    def see(self, observed):
        own = observed.actual.double() - observed.actual.double()
        if observed.own_exact is not None:
            own = observed.actual.detach().double() - observed.own_exact
        self.errors.append((observed.operation.name, own.clone()))


def test_shares_are_the_errors_of_single_operations(draw):
    """12 layers in bfloat16: the share of each operation is the error that it alone makes, projected."""
    module, x = transformer(layers=12).bfloat16().eval(), draw(1, 6, 32).bfloat16()
    keeper = KeepOwn()
    recorder = Recorder(listeners=[keeper])
    with torch.no_grad(), TorchEngine(recorder, module) as engine:
        result = module(x)
        shares = engine.shares({"out": result})["out"]
    exact = engine.twins.of(result)
    error = result.double() - exact
    wide, wide_x, alone = copy.deepcopy(module).double(), x.double(), []
    for number in range(len(keeper.errors)):
        with torch.no_grad(), OneError(number, keeper.errors):
            alone.append(wide(wide_x))
    direction = error / error.norm() ** 2
    expected = torch.stack([((each - exact) * direction).sum() for each in alone])
    actual = torch.tensor([shares[number + 1] for number in range(len(alone))], dtype=torch.float64)
    errs = torch.tensor([bool(own.any()) for _, own in keeper.errors])
    assert not actual[~errs].any()
    actual, expected = actual[errs], expected[errs]
    ranks = torch.stack([actual.argsort().argsort().double(), expected.argsort().argsort().double()])
    assert torch.corrcoef(ranks)[0, 1] > 0.99
    assert torch.allclose(actual, expected, rtol=0.1, atol=2e-3)
    assert actual.sum() == pytest.approx(1, abs=0.02)


NETWORKS = {
    "transformer": (transformer, (2, 8, 32)),
    "residual": (lambda: residual().eval(), (2, 3, 12, 12)),
    "gru": (lambda: nn.Sequential(nn.GRU(8, 16), First()), (5, 2, 8)),
    "lstm": (lambda: nn.Sequential(nn.LSTM(8, 16), First()), (5, 2, 8)),
}


class First(nn.Module):
    def forward(self, results):
        return results[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_ledger_adds_up(draw, name, grad, dtype):
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    module = make().to(dtype)
    with torch.set_grad_enabled(grad):
        shares, recorder = shares_of(module, draw(*shape, dtype=dtype), module=module)
    assert {*shares} >= {each.number for each in recorder.operations if each.own is not None and each.own.relative > 0}
    assert sum(shares.values()) == pytest.approx(1, abs=0.05)


def test_views_and_writes_in_place_pass_errors_on(draw):
    def mixed(x):
        y = torch.tanh(x)
        y[:, 1:3] += x[:, :2].flip(1).sin()
        y.mul_(0.7)
        y[torch.tensor([0, 2])] = x[1].exp() * y[3]
        z = torch.zeros(4, 8)
        z.scatter_add_(1, torch.arange(8).expand(4, 8) % 3, y)
        z = z + y.mean(0).expand(4, 8)
        steps = z.unfold(1, 4, 1) * y[:, :5].unsqueeze(-1)
        return functional.softmax(torch.cat([steps.sum(-1), z.sqrt().nan_to_num()], 1), -1)

    shares, recorder = shares_of(mixed, draw(4, 8).abs())
    assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    assert not [each for each in recorder.events if each.kind == "shares_cut"]


def test_inputs_that_are_written_later_are_kept(draw):
    def run(x):
        y = x.exp()
        weight = torch.full((3, 3), 2.0)
        z = y @ weight
        weight.zero_()
        y.zero_()
        return z * z

    shares, _ = shares_of(run, draw(3, 3))
    assert sum(shares.values()) == pytest.approx(1, abs=1e-4)


def test_a_dropout_passes_what_its_mask_lets_through(draw):
    def run(x):
        return functional.dropout(x.exp(), 0.5).sin()

    torch.manual_seed(0)
    shares, _ = shares_of(run, draw(20, 20))
    assert sum(shares.values()) == pytest.approx(1, abs=1e-4)


def test_gradients_have_shares_of_forward_and_backward_operations(draw):
    module, x = transformer(layers=2).bfloat16(), draw(2, 8, 32).bfloat16().requires_grad_()
    shares, recorder = shares_of(lambda: torch.autograd.grad(module(x).square().sum(), x)[0], module=module)
    assert sum(shares.values()) == pytest.approx(1, abs=0.05)
    phases = {recorder.operations[number - 1].phase for number, share in shares.items() if abs(share) > 1e-3}
    assert phases == {"forward", "backward"}


@pytest.mark.parametrize("is_causal", [True, False])
def test_gradients_of_attention_have_shares(draw, is_causal):
    x = draw(1, 2, 6, 8).requires_grad_()

    def run():
        y = functional.scaled_dot_product_attention(x.sin(), x.cos(), x.exp(), is_causal=is_causal)
        return torch.autograd.grad(functional.layer_norm(y, (8,)).pow(3).sum(), x)[0]

    shares, recorder = shares_of(run)
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert "aten._scaled_dot_product_flash_attention_for_cpu_backward" in {each.name for each in recorder.operations}
    assert not [each for each in recorder.events if each.kind == "shares_cut"]


def trained_twice(module, x, optimizer):
    """Take two steps of an optimizer, and return the weight."""
    for _ in range(2):
        optimizer.zero_grad()
        module(x).square().mean().backward()
        optimizer.step()
    return module.weight


def test_a_step_of_an_optimizer_has_shares(draw):
    torch.manual_seed(0)
    module, x = nn.Linear(6, 6), draw(4, 6)
    shares, recorder = shares_of(
        lambda: trained_twice(module, x, torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)), module=module
    )
    assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    assert {recorder.operations[number - 1].phase for number in shares} == {"forward", "backward", "optimizer"}


@pytest.mark.parametrize("training", [True, False])
def test_gradients_of_batch_norm_have_shares(draw, training):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.BatchNorm2d(4, affine=False))
    module.train(training)
    x = draw(3, 2, 6, 6).requires_grad_()

    def run():
        module(x.detach() * 1.1)
        return torch.autograd.grad(module(x * 1.1).pow(3).sum(), x)[0]

    shares, recorder = shares_of(run, module=module)
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert "aten.native_batch_norm_backward" in {each.name for each in recorder.operations}
    assert not [each for each in recorder.events if each.kind == "shares_cut"]


@pytest.mark.parametrize("affine", [True, False])
def test_an_evaluation_with_inexact_statistics_passes_errors_on(draw, affine):
    torch.manual_seed(0)
    convolution, norm, x = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, affine=affine), draw(4, 3, 6, 6)

    def train_and_evaluate():
        norm(convolution(x) * 1.3), norm(convolution(2 * x))
        return norm.eval()(convolution(x))

    with torch.no_grad():
        shares, recorder = shares_of(train_and_evaluate)
    assert recorder.events == ()
    assert sum(shares.values()) == pytest.approx(1, abs=1e-4)
    # The statistics of the first batch are a part of the result.
    assert abs(shares[1]) > 1e-3


def test_running_statistics_have_shares(draw):
    torch.manual_seed(0)
    module, x = nn.BatchNorm1d(5), draw(16, 5)
    shares, recorder = shares_of(
        lambda: [module(x.exp()), module(x.cos()), module.running_var * 1.1][-1], module=module
    )
    assert sum(shares.values()) == pytest.approx(1, abs=0.01)
    assert not [each for each in recorder.events if each.kind == "shares_cut"]


@pytest.mark.parametrize("name", ["Adamax", "Rprop", "RMSprop", "NAdam"])
def test_steps_of_other_optimizers_have_shares(draw, name):
    torch.manual_seed(0)
    module, x = nn.Linear(6, 6), draw(4, 6)
    shares, recorder = shares_of(
        lambda: trained_twice(module, x, getattr(torch.optim, name)(module.parameters(), lr=0.1)), module=module
    )
    assert sum(shares.values()) == pytest.approx(1, abs=1e-2)
    assert not [each for each in recorder.events if each.kind == "shares_cut"]


def test_an_infinite_derivative_is_left_out_and_named(draw):
    """The root of an exact 0 in an inexact tensor: its error is none, and its derivative infinite."""
    shares, recorder = shares_of(lambda x: (x.exp() * (x > 0)).sqrt() * 1.1, draw(4, 4))
    assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    (cut,) = [each for each in recorder.events if each.kind == "shares_cut"]
    assert (cut.name, cut.detail.split(" of ")[0]) == ("aten.sqrt", "infinite derivative")


WAYS = [
    lambda a, b: torch.addmm(a[:1], a, b, beta=0.5, alpha=2),
    lambda a, b: torch.baddbmm(a[None], a[None], b[None], beta=0.5),
    lambda a, b: torch.bmm(a[None], b[None]),
    lambda a, b: a @ b,
    lambda a, b: a.add(b[:1], alpha=3).add_(b[:, :1]),
    lambda a, b: a[0].sub(b, alpha=3) * 0.7,
    lambda a, b: a * a * b[:1],
    lambda a, b: a[:, :1] / (b + 3) / 7,
    lambda a, b: functional.gelu(a - b, approximate="tanh"),
    lambda a, b: torch.relu_(b - a * 3).mul_(b),
    lambda a, b: functional.conv1d(a[None], b[:, :, None], b[0], padding=1),
    lambda a, b: functional.batch_norm(a.cos(), torch.ones(6), torch.full((6,), 0.25), eps=0.1),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("way", WAYS)
def test_each_formula_of_a_way_back_lets_the_ledger_add_up(draw, way, dtype):
    shares, recorder = shares_of(lambda x, y: way(x.sin(), y.exp()), draw(6, 6, dtype=dtype), draw(6, 6, dtype=dtype))
    assert sum(shares.values()) == pytest.approx(1, abs=2e-3 if dtype is torch.float32 else 0.02)
    assert not [each for each in recorder.events if each.kind == "shares_cut"]


def test_an_operation_without_derivative_cuts_the_way(draw):
    shares, recorder = shares_of(lambda x: torch.igamma(x.exp(), torch.ones(3, 3)) * 3 + x.cos(), draw(3, 3))
    names = {recorder.operations[number - 1].name for number in shares}
    assert names == {"aten.igamma", "aten.mul", "aten.cos", "aten.add"}
    (cut,) = [each for each in recorder.events if each.kind == "shares_cut"]
    assert cut.name == "aten.igamma"
    assert "not implemented" in cut.detail


def test_an_exact_output_has_no_shares(draw):
    recorder = Recorder()
    with TorchEngine(recorder) as engine:
        result = draw(3, 3).t() * 2
        assert engine.shares({"out": result}) == {}
