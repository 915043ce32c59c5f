"""The shadow of a computation against an independent run of it in float64, whose bits it has."""

import copy
import importlib
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from precreg.shadow.torch.twins import HAS_LONG
from tests.extras.shadow.torch.conftest import relative
from tests.extras.shadow.torch.networks import residual, transformer

SUITES = Path(__file__).parents[4] / "suites"
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("grad", [True, False])
def test_a_transformer(trace, draw, dtype, grad):
    module, x = transformer().to(dtype), draw(2, 8, 32, dtype=dtype)
    with torch.set_grad_enabled(grad):
        plain = module(x)
        traced = trace(module, x, module=module)
    assert torch.equal(traced.result, plain)
    assert torch.equal(traced.twin(traced.result), copy.deepcopy(module).double()(x.double()))
    assert 0 < relative(traced.result.double(), traced.twin(traced.result)) < 100 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_convolutions_and_pools(trace, draw, dtype):
    module, x = residual().eval().to(dtype), draw(2, 3, 12, 12, dtype=dtype)
    wide = copy.deepcopy(module).double()(x.double())
    traced = trace(module, x, module=module)
    assert torch.equal(traced.result, module(x))
    # Where a maximum has two candidates, the shadow follows the low-precision choice.
    tolerance = 0 if not traced.events("flip") else torch.finfo(dtype).eps
    assert relative(traced.twin(traced.result), wide) <= tolerance


@pytest.mark.parametrize("options", [(1, 1, 1), (2, 1, 1), (1, 2, 2), (1, 0, 1)])
@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
def test_convolutions_of_many_channels_and_few_places(trace, draw, options, memory):
    x, weight, bias = draw(3, 96, 5, 5), draw(80, 96, 3, 3, seed=2), draw(80, seed=3)
    x = x.to(memory_format=memory)
    traced = trace(lambda: functional.conv2d(x, weight, bias, *options))
    assert torch.equal(traced.result, functional.conv2d(x, weight, bias, *options))
    wide = functional.conv2d(x.double(), weight.double(), bias.double(), *options)
    assert relative(traced.twin(traced.result), wide) < 1e-15


def test_running_statistics_of_batches_stay_shadowed(trace, draw):
    module, x = residual().train(), draw(4, 3, 6, 6)
    wide = copy.deepcopy(module).double()
    low = copy.deepcopy(module)
    traced = trace(lambda: [module(x), module(2 * x), module.eval()(x)][-1], module=module)
    low(x), low(2 * x)
    wide(x.double()), wide(2 * x.double())
    assert torch.equal(traced.result, low.eval()(x))
    assert relative(traced.twin(module.bn2.running_var), wide.bn2.running_var) < 1e-14
    assert relative(traced.twin(traced.result), wide.eval()(x.double())) < 1e-14


def test_gradients(trace, draw):
    module, x = transformer().to(torch.bfloat16), draw(2, 8, 32, dtype=torch.bfloat16)
    wide, plain = copy.deepcopy(module).double(), copy.deepcopy(module)
    wide(x.double()).square().mean().backward()
    plain(x).square().mean().backward()
    traced = trace(lambda: module(x).square().mean().backward(), module=module)
    for own, low, high in zip(module.parameters(), plain.parameters(), wide.parameters(), strict=True):
        assert torch.equal(own.grad, low.grad)
        assert relative(traced.twin(own.grad), high.grad) < 1e-14


@pytest.mark.parametrize("options", [{"foreach": True}, {"foreach": False}, {"fused": True}])
def test_five_steps_of_adamw(trace, draw, options):
    module, x = transformer(layers=1), draw(2, 8, 32)
    wide, plain = copy.deepcopy(module).double(), copy.deepcopy(module)

    def train(module, x):
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, **options)
        for _ in range(5):
            optimizer.zero_grad()
            module(x).square().mean().backward()
            optimizer.step()

    train(wide, x.double())
    train(plain, x)
    traced = trace(train, module, x, module=module)
    assert {each.phase for each in traced.operations} == {"forward", "backward", "optimizer"}
    for own, low, high in zip(module.parameters(), plain.parameters(), wide.parameters(), strict=True):
        assert torch.equal(own, low)
        assert relative(traced.twin(own), high.detach()) < 1e-13


def test_autocast(trace, draw):
    module, x = transformer(), draw(2, 8, 32)

    def run(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return module(x)

    traced = trace(run, x, module=module)
    assert torch.equal(traced.result, run(x))
    assert relative(traced.twin(traced.result), copy.deepcopy(module).double()(x.double())) < 1e-13
    cast = next(each for each in traced.named("aten._to_copy") if each.dtype == "bfloat16")
    assert cast.own.relative > 1e-4


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(trace, draw, reentrant):
    module, x = transformer(), draw(2, 8, 32).requires_grad_()
    wide, y = copy.deepcopy(module).double(), x.detach().double().requires_grad_()
    wide(y).square().mean().backward()

    def run():
        h = x
        for block in module:
            h = checkpoint(block, h, use_reentrant=reentrant)
        h.square().mean().backward()

    traced = trace(run, module=module)
    assert relative(traced.twin(x.grad), y.grad) < 1e-13
    again = [each for each in traced.named("aten.gelu") if each.phase == "backward"]
    assert {each.site.code for each in again} == {"return x + self.down(functional.gelu(self.up(self.n2(x))))"}
    assert {each.site.module for each in again} == {"0", "1", "2"}


def mixed(x):
    """Views, writes in place and through indices, masks and scattered sums."""
    y = x * 1.5
    y[:, 1:3] += x[:, :2].flip(1)
    y.mul_(0.7).clamp_(-2, 2)
    y[:, ::2].sub_(y[:, 1::2] * 0.3)
    y[torch.tensor([0, 2])] = x[1] * y[3]
    y.index_put_((torch.tensor([1, 1]),), x[:2] * 0.1, accumulate=True)
    z = torch.zeros(4, 8, dtype=x.dtype)
    z.scatter_add_(1, torch.arange(8).expand(4, 8) % 3, y)
    z = torch.where(z > 0, z.sqrt(), z * 3)
    out = torch.empty(4, 8, dtype=x.dtype)
    torch.mul(z, y.roll(1, 0), out=out)
    out.masked_fill_(out > 5, 0.5)
    a, b = out.chunk(2, dim=1)
    a.copy_(b.t().contiguous().t() + a)
    return torch.cat([out, functional.pad(a, (1, 1))], 1).cumsum(0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_and_writes_in_place(trace, draw, dtype):
    x = draw(4, 8, dtype=dtype)
    traced = trace(mixed, x.clone())
    assert torch.equal(traced.result, mixed(x.clone()))
    assert not traced.events("flip")
    assert relative(traced.twin(traced.result), mixed(x.double())) < 1e-15


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": True, "num_layers": 2, "batch_first": True}, {"bias": False}]
)
def test_recurrent_layers(trace, draw, kind, options):
    torch.manual_seed(0)
    module, x = kind(4, 6, **options).eval(), draw(3, 5, 4)
    wide = copy.deepcopy(module).double()(x.double())[0]
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            traced = trace(lambda: module(x)[0], module=module)
            assert torch.equal(traced.result, module(x)[0])
        assert relative(traced.twin(traced.result), wide) < 1e-14
        assert not traced.events("not_shadowed")


@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": True, "num_layers": 2, "batch_first": True}, {"bias": False}]
)
def test_gradients_of_an_lstm(trace, draw, options):
    torch.manual_seed(0)
    module, x = nn.LSTM(4, 6, **options), draw(3, 5, 4)
    wide, plain = copy.deepcopy(module).double(), copy.deepcopy(module)

    def train(module, x):
        x = x.clone().requires_grad_()
        out, (h, c) = module(x * 2)
        (out.square().mean() + h.sum() + c.exp().sum()).backward()
        return x.grad

    expected, low = train(wide, x.double()), train(plain, x)
    traced = trace(train, module, x, module=module)
    assert torch.equal(traced.result, low)
    assert relative(traced.twin(traced.result), expected) < 1e-14
    for own, high in zip(module.parameters(), wide.parameters(), strict=True):
        assert relative(traced.twin(own.grad), high.grad) < 1e-14
    assert not traced.events("not_shadowed")
    assert not traced.events("flip")
    assert all(each.own is not None and each.own.relative < 1e-5 for each in traced.named("aten.mkldnn_rnn_layer"))


def scaled_training(module, x, steps, scale=2.0**8):
    """Train with a dynamic scale of the loss that grows at every second good step."""
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        scaler.scale(module(x).float().square().mean()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale(), [each.detach().clone() for each in module.parameters()]


def test_a_dynamic_scale_of_the_loss(trace, draw):
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)), draw(3, 4)
    wide, plain = copy.deepcopy(module).double(), copy.deepcopy(module)
    _, expected = scaled_training(wide, x.double(), 5)
    scale, low = scaled_training(plain, x, 5)
    traced = trace(scaled_training, module, x, 5, module=module)
    assert traced.result[0] == scale == 2.0**10
    for own, same, high in zip(traced.result[1], low, expected, strict=True):
        assert torch.equal(own, same)
        assert 0 < relative(own.double(), traced.twin(own)) < 1e-5
        # The loss itself is cast to float32 in the run in float64.
        assert relative(traced.twin(own), high) < 1e-6
    # torch computes the reciprocal of the scale in float64, which has a form in longdouble.
    assert not [each for each in traced.events("not_shadowed") if HAS_LONG]
    assert not traced.events("flip")
    assert not traced.events("cut")


class HalfLinear(nn.Linear):
    def forward(self, x):
        return functional.linear(x.half(), self.weight.half(), self.bias.half())


def test_a_scale_that_overflows_is_a_decision(trace, draw):
    torch.manual_seed(0)
    module, x = HalfLinear(4, 2), draw(3, 4)
    plain = copy.deepcopy(module)
    scale, _ = scaled_training(plain, x, 1, scale=2.0**20)
    traced = trace(scaled_training, module, x, 1, 2.0**20, module=module)
    assert traced.result[0] == scale == 2.0**19
    (flip,) = traced.events("flip")
    assert flip.name == "_amp_foreach_non_finite_check_and_unscale_"
    assert traced.events("overflow")
    # The step is left out in both computations.
    assert all(torch.equal(traced.twin(each), each.double()) for each in module.parameters())


def test_a_cache_of_keys_and_values(trace, draw):
    torch.manual_seed(0)
    layer, x = nn.Linear(8, 24), draw(1, 6, 8)

    def decode(layer, x):
        keys, values = x.new_zeros(1, 6, 8), x.new_zeros(1, 6, 8)
        token, steps = x[:, 0], []
        for step in range(6):
            q, k, v = layer(token).chunk(3, -1)
            keys[:, step], values[:, step] = k, v
            scores = (q.unsqueeze(1) @ keys[:, : step + 1].transpose(1, 2)).softmax(-1)
            token = torch.tanh((scores @ values[:, : step + 1]).squeeze(1))
            steps.append(token)
        return torch.stack(steps)

    traced = trace(decode, layer, x, module=layer)
    assert torch.equal(traced.result, decode(layer, x))
    assert relative(traced.twin(traced.result), decode(copy.deepcopy(layer).double(), x.double())) < 1e-15


def test_complex_numbers(trace, draw):
    def spectrum(x):
        y = torch.fft.rfft(x)
        return torch.fft.irfft(y * y.conj() * 0.5j.imag, n=x.shape[-1]) + torch.view_as_real(y).square().sum(-1).mean()

    traced = trace(spectrum, draw(3, 64))
    assert torch.equal(traced.result, spectrum(draw(3, 64)))
    assert relative(traced.twin(traced.result), spectrum(draw(3, 64).double())) < 1e-14


def test_transforms_of_functions(trace, draw):
    gradients = torch.func.vmap(torch.func.grad(lambda w, x: torch.tanh(x @ w).sum()), in_dims=(None, 0))
    w, x = draw(5), draw(7, 3, 5, seed=2)
    traced = trace(gradients, w, x)
    assert torch.equal(traced.result, gradients(w, x))
    assert relative(traced.twin(traced.result), gradients(w.double(), x.double())) < 1e-14


def test_casts_to_eight_bits(trace, draw):
    def product(x):
        return x.to(torch.float8_e4m3fn).to(torch.float32) @ x.t()

    traced = trace(product, draw(8, 8))
    assert torch.equal(traced.result, product(draw(8, 8)))
    assert relative(traced.twin(traced.result), draw(8, 8).double() @ draw(8, 8).double().t()) < 1e-15
    assert 1e-2 < traced.operations[0].own.relative < 5e-2


def test_the_fast_path_of_an_encoder_layer_is_one_operation(trace, draw):
    torch.manual_seed(0)
    layer, x = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), draw(2, 5, 16)
    with torch.no_grad():
        traced = trace(layer, x, module=layer)
        assert torch.equal(traced.result, layer(x))
        assert [each.name for each in traced.operations] == ["aten._transformer_encoder_layer_fwd"]
        assert relative(traced.twin(traced.result), copy.deepcopy(layer).double()(x.double())) < 1e-14


@pytest.fixture
def networks(monkeypatch):
    """Import modules of the shipped networks, and forget them: other tests change their files."""
    monkeypatch.syspath_prepend(str(SUITES))
    yield lambda name: importlib.import_module(f"networks.{name}")
    for name in [each for each in sys.modules if each.partition(".")[0] == "networks"]:
        del sys.modules[name]


def shipped(name, networks):
    """Return a network of the shipped suites, two texts, and their lengths if it takes them."""
    network, seeded = networks(name), networks("seeded")
    sizes = networks("transformer").Sizes(128, 16, 64, 4, 2)
    with torch.device("meta"):
        module = (network.Bert if name == "bert" else network.Gpt)(sizes)
    words = torch.randint(2**30, (2, 12), generator=torch.Generator().manual_seed(5))
    return seeded.initialized(module), [words, torch.tensor([12, 7])][: 2 if name == "bert" else 1]


@pytest.mark.parametrize("name", ["bert", "gpt"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_shipped_transformers(trace, networks, name, dtype):
    """An encoder with a mask of padding, and a decoder that reads a text at once and with a cache."""
    module, inputs = shipped(name, networks)
    module = module.to(dtype)
    with torch.no_grad():
        plain = module(*inputs)
        traced = trace(module, *inputs, module=module)
        wide = copy.deepcopy(module).double()(*inputs)
    assert not traced.events("cut")
    # The perplexity is computed in float64.
    assert {each.name for each in traced.events("not_shadowed")} <= {"float64"}
    for output, value in traced.result.items():
        assert torch.equal(value, plain[output])
        if value.is_floating_point():
            assert relative(traced.twin(value), wide[output]) < 1e-12
            assert relative(value.double(), traced.twin(value)) > 0
