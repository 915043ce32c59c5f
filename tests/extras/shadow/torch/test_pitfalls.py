"""What a shadow gets wrong unless it knows it: draws, choices, values that leave, code that it cannot see."""

import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from precreg.shadow.recorder import Detail
from tests.extras.shadow.torch.conftest import relative
from tests.extras.shadow.torch.networks import transformer


def test_a_dropout_has_the_same_mask(trace, draw):
    def drop(x):
        torch.manual_seed(3)
        return functional.dropout(torch.tanh(x), 0.4) * 3

    x = draw(50, 20)
    traced = trace(drop, x)
    mask = drop(x) != 0
    assert torch.equal(traced.result, drop(x))
    assert relative(traced.twin(traced.result), torch.tanh(x.double()) * mask / 0.6 * 3) < 1e-15


def test_random_numbers_are_taken_as_drawn(trace, draw):
    def noisy(x):
        torch.manual_seed(3)
        y = x.sigmoid()
        return y + torch.rand_like(y) + torch.empty(4, 4).normal_()

    traced = trace(noisy, draw(4, 4))
    assert torch.equal(traced.result, noisy(draw(4, 4)))
    torch.manual_seed(3)
    expected = draw(4, 4).double().sigmoid() + torch.rand(4, 4).double() + torch.empty(4, 4).normal_().double()
    assert relative(traced.twin(traced.result), expected) < 1e-15
    assert {each.note for each in traced.operations} == {"", "random"}


def test_a_draw_from_inexact_values_is_a_cut(trace, draw):
    traced = trace(lambda x: torch.bernoulli(x.sigmoid()), draw(4, 4))
    assert [(each.name, each.detail) for each in traced.events("cut")] == [("bernoulli", "random")]


def test_attention_without_dropout_draws_nothing(trace, draw):
    x = draw(1, 2, 6, 8, dtype=torch.bfloat16)
    traced = trace(lambda x: functional.scaled_dot_product_attention(x, x.exp(), x.sin()), x)
    wide = x.double()
    assert (
        relative(traced.twin(traced.result), functional.scaled_dot_product_attention(wide, wide.exp(), wide.sin()))
        < 1e-14
    )
    assert "random" not in {each.note for each in traced.operations}


CHOICES = {
    "topk": lambda x: x.topk(3),
    "sort": lambda x: x.sort(dim=0, descending=True),
    "max": lambda x: x.max(dim=0),
    "min": lambda x: x.min(1, keepdim=True),
    "kthvalue": lambda x: x.kthvalue(4, dim=0),
    "median": lambda x: x.median(dim=1),
    "cummax": lambda x: x.cummax(0),
}


@pytest.mark.parametrize("name", CHOICES)
def test_values_belong_to_the_indices_of_the_low_precision_run(trace, draw, name):
    """Values that nearly tie in bfloat16: the exact choice is another one."""
    base = draw(16, 64).mul(0.01).add(1)

    def choose(x):
        values, indices = CHOICES[name](x.bfloat16())
        return values, indices

    traced = trace(choose, base)
    values, indices = traced.result
    source = base.double()
    axis = {"topk": 1, "min": 1, "median": 1}.get(name, 0)
    if indices.dim() == 2:
        expected = source.gather(axis, indices)
    else:
        expected = source.gather(axis, indices.unsqueeze(axis)).squeeze(axis)
    assert torch.equal(traced.twin(values), expected.view(values.shape))
    flip = traced.events("flip")[0]
    assert 0 < flip.changed <= flip.elements == indices.numel()


def test_decisions_that_differ_are_flips(trace, draw):
    x = torch.tensor([1.0, 1.0 + 2**-9, 3.0])

    def decide(x):
        low = x.bfloat16()
        return low.argmax(), low[0] < low[1], low.round(), torch.equal(low[0], low[1])

    traced = trace(decide, x)
    assert [(each.name, each.changed) for each in traced.events("flip")] == [("lt", 1), ("equal", 1)]
    traced = trace(lambda x: (x * 0.1).bfloat16().floor(), torch.tensor([9.99, 20.0]))
    assert [(each.name, each.changed, each.elements) for each in traced.events("flip")] == [("floor", 1, 2)]


def test_constants_in_python_are_rounded(trace):
    traced = trace(lambda: (torch.full((3,), 0.1, dtype=torch.float16), torch.linspace(0, 1, 7)))
    assert {each.note for each in traced.operations} == {"created"}
    assert [each.own.relative > 0 for each in traced.operations] == [True, True]
    tenth = traced.twin(traced.result[0])
    assert tenth.tolist() == [0.1] * 3
    exact = trace(lambda: torch.arange(4.0) + torch.full((4,), 0.5))
    assert len(exact.engine.twins) == 0


@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_values_that_leave_are_cuts_at_their_lines(trace, draw):
    def leave(x):
        y = x.exp()
        scale = y.max().item()
        array = y.numpy() * 2
        listed = y.tolist()
        bits = y.view(torch.int32) >> 1
        return torch.from_numpy(array) * scale + torch.tensor(listed) + bits

    traced = trace(leave, draw(2, 2))
    cuts = {each.name: each.site.code for each in traced.events("cut")}
    assert cuts == {
        "item": "scale = y.max().item()",
        "tolist": "listed = y.tolist()",
        "view": "bits = y.view(torch.int32) >> 1",
        "numpy": "array = y.numpy() * 2",
    }


def test_exact_values_may_leave(trace, draw):
    traced = trace(lambda x: x * x.max().item() + float(x.numpy()[0, 0]), draw(2, 2))
    assert traced.events("cut") == []


def test_exact_elements_of_inexact_tensors_may_leave(trace, draw):
    def leave(x):
        y = x.exp()
        y[0] = 2.0
        return y[0, 0].item(), y[0].tolist(), (y[1] * 0 + 1).sum().item()

    assert trace(leave, draw(2, 2)).events("cut") == []


def test_integers_that_an_operation_writes_are_written_once(trace, draw):
    """The exact form of an operation must not write the results of the run again."""

    def choose(x):
        values, indices = torch.empty(2, 3), torch.empty(2, 3, dtype=torch.long)
        torch.topk((1 + x * 2**-9).bfloat16().float(), 3, out=(values, indices))
        return values, indices

    def count():
        scale, tracker = torch.tensor(4.0), torch.tensor(0, dtype=torch.int32)
        torch._amp_update_scale_(scale, tracker, torch.tensor(0.0), 2.0, 0.5, 9)
        return tracker

    x = draw(2, 40)
    traced, plain = trace(choose, x), choose(x)
    assert torch.equal(traced.result[1], plain[1])
    assert traced.events("flip")
    assert int(trace(count).result) == int(count()) == 1


def test_an_array_of_a_tensor_that_is_an_output_is_no_cut(trace, draw):
    from precreg.shadow.recorder import Recorder
    from precreg.shadow.torch import TorchEngine

    recorder, x = Recorder(), draw(3, 3)
    expected = x.double().exp().numpy()
    with TorchEngine(recorder) as engine:
        array = x.exp().numpy()
        np.testing.assert_array_equal(engine.shadow_of(array), expected)
        assert engine.shadow_of(array.copy()) is None
    assert recorder.events == ()


def test_bits_that_are_written_as_integers_end_the_shadow(trace, draw):
    def patch(x):
        y = x.exp()
        y.view(torch.int32).bitwise_and_(-256)
        return y * 1

    traced = trace(patch, draw(2, 2))
    assert torch.equal(traced.twin(traced.result), traced.result.double())
    assert {each.name for each in traced.events("cut")} == {"view", "bitwise_and_"}


def test_threads_are_not_traced(trace, draw):
    def run(x):
        thread = threading.Thread(target=x.exp)
        thread.start()
        thread.join()
        return x * 2

    traced = trace(run, draw(2, 2))
    assert [each.site.code for each in traced.events("untraced")] == ["thread.start()"]
    assert [each.name for each in traced.operations] == ["aten.mul"]


def test_compiled_code_runs_operation_by_operation_and_says_so(trace, draw):
    compiled = torch.compile(lambda x: torch.sin(x) + 1, backend="eager")
    traced = trace(lambda x: compiled(x) * 2, draw(2, 2))
    (eager,) = traced.events("eager")
    assert eager.site.code == "traced = trace(lambda x: compiled(x) * 2, draw(2, 2))"
    assert [each.name for each in traced.operations] == ["aten.sin", "aten.add", "aten.mul"]
    assert eager.times == 2


def test_scripts_are_seen_inside(trace, draw):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    scripted = torch.jit.trace(module, draw(2, 4))
    traced = trace(scripted, draw(2, 4))
    assert torch.equal(traced.result, scripted(draw(2, 4)))
    assert [each.name for each in traced.operations] == ["aten.addmm", "aten.tanh"]


@pytest.mark.filterwarnings("ignore")
def test_a_layer_of_eight_bits(trace, draw):
    torch.manual_seed(0)
    module = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 8)), {nn.Linear}, torch.qint8)
    x = draw(4, 8)
    traced = trace(module, x)
    layer = module[0]
    expected = functional.linear(x.double(), layer.weight().dequantize().double(), layer.bias().double())
    assert relative(traced.twin(traced.result), expected) < 1e-15
    assert traced.operations[-1].own.relative > 1e-3


@pytest.mark.filterwarnings("ignore")
def test_quantized_and_sparse_tensors_are_named(trace, draw):
    def quantized(x):
        return torch.quantize_per_tensor(x.exp(), 0.1, 0, torch.quint8).dequantize() * 1.1

    traced = trace(quantized, draw(3, 3))
    assert torch.equal(traced.result, quantized(draw(3, 3)))
    assert {each.name for each in traced.events("cut")} == {"quantize_per_tensor"}
    assert {each.name for each in traced.events("not_shadowed")} >= {"dequantize"}
    assert traced.named("aten.dequantize")[0].note == "not_shadowed"

    def sparse(x):
        return torch.sparse.mm(x.exp().to_sparse(), x)

    traced = trace(sparse, draw(3, 3))
    assert torch.equal(traced.result, sparse(draw(3, 3)))
    assert any(each.detail.startswith("sparse_coo") for each in traced.events("cut"))
    assert traced.events("not_shadowed")


@pytest.mark.filterwarnings("ignore")
def test_nested_tensors_are_named(trace, draw):
    def nested(x):
        rows = torch.nested.nested_tensor([x[0, :2].exp(), x[1].exp()])
        return torch.nested.to_padded_tensor(rows, 0.0) * 1.1

    traced = trace(nested, draw(2, 3))
    assert torch.equal(traced.result, nested(draw(2, 3)))
    assert traced.events("cut")
    assert "to_padded_tensor" in {each.name for each in traced.events("not_shadowed")}


def test_an_operation_without_a_float64_kernel_runs_on_rounded_values(trace, draw):
    library = torch.library.Library("precreg_test", "FRAGMENT")
    library.define("only_float(Tensor x) -> Tensor")

    def only_float(x):
        if x.dtype != torch.float32:
            raise TypeError("expects float32")
        return torch.sin(x)

    library.impl("only_float", only_float, "CPU")
    x = draw(3, 3)
    traced = trace(lambda x: torch.ops.precreg_test.only_float(x.exp()) * 2, x)
    (event,) = traced.events("not_shadowed")
    assert (event.name, event.detail) == ("precreg_test::only_float", "expects float32")
    custom = traced.named("precreg_test.only_float")[0]
    assert (custom.note, custom.own, custom.inherited) == ("not_shadowed", None, None)
    assert relative(traced.twin(traced.result), torch.sin(x.double().exp().float()).double() * 2) < 1e-7


def test_custom_functions_are_seen_operation_by_operation_both_ways(trace, draw):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(context, gradient):
            (x,) = context.saved_tensors
            return gradient * 2 * x

    x = draw(3, 3).requires_grad_()
    traced = trace(lambda: Square.apply(x.exp()).sum().backward())
    assert relative(traced.twin(x.grad), 2 * (2 * x.detach().double()).exp()) < 1e-15
    inside = [each.site.code for each in traced.operations if each.phase == "backward"]
    assert "return gradient * 2 * x" in inside


def test_hooks_of_modules_and_gradients_are_seen(trace, draw):
    torch.manual_seed(0)
    layer, x = nn.Linear(4, 4), draw(2, 4).requires_grad_()
    layer.register_forward_hook(lambda _module, _inputs, output: output * 3)
    x.register_hook(lambda gradient: gradient / 7)
    traced = trace(lambda: layer(x).sum().backward())
    assert relative(traced.twin(x.grad), 3 / 7 * layer.weight.detach().double().sum(0).expand(2, 4)) < 1e-15


def test_overflow_is_an_event(trace):
    traced = trace(lambda x: x * x, torch.tensor([300.0, 2.0], dtype=torch.float16))
    assert [(each.name, each.changed, each.elements) for each in traced.events("overflow")] == [("mul", 1, 2)]


def test_masks_do_not_swamp_errors(trace, draw):
    def masked(x):
        scores = x @ x.t()
        return scores.masked_fill(torch.ones(6, 6).triu(1).bool(), torch.finfo(torch.float32).min) + 0.1

    added = trace(masked, draw(6, 6)).operations[-1]
    assert 1e-9 < added.total.relative < 1e-6


def test_a_shadow_in_float64_measures_no_rounding_of_float64(trace, draw):
    mixed = trace(lambda x: x.exp().double() * 2, draw(3, 3))
    assert mixed.operations[-1].own is None
    assert mixed.operations[-1].total.relative > 1e-9
    assert [(each.name, each.times) for each in mixed.events("not_shadowed")] == [("float64", 1)]
    assert mixed.engine.shadow_of(mixed.result).dtype == np.float64


def test_weights_and_inputs_have_no_twins(trace, draw):
    module, x = transformer(layers=8).eval(), draw(2, 8, 32)
    with torch.no_grad():
        traced = trace(module, x, module=module)
    assert not any(traced.engine.twins.has(each) for each in (*module.parameters(), x))
    # The result of each layer but the last is gone.
    assert len(traced.engine.twins) == 1
    with torch.no_grad():
        assert trace(transformer(layers=2), x).engine.twins.peak_bytes == traced.engine.twins.peak_bytes


@pytest.mark.parametrize("detail", Detail)
def test_each_level_keeps_bits_and_shadows(trace, draw, detail):
    module, x = transformer(), draw(2, 8, 32)
    traced = trace(module, x, module=module, detail=detail)
    assert torch.equal(traced.result, module(x))
    full = trace(module, x, module=module)
    assert torch.equal(traced.twin(traced.result), full.twin(full.result))
    known = [(each.own is not None, each.total is not None) for each in traced.operations]
    assert set(known) == {Detail.OUTPUTS: set(), Detail.TOTALS: {(False, True)}}.get(detail, {(True, True)})
    ulps = [each.own.max_ulp for each in traced.operations if each.own is not None]
    assert all((each is not None) == (detail == Detail.ELEMENTS) for each in ulps)


def test_an_addition_of_infinities_has_no_lost_bits(trace, draw):
    mask = torch.tensor([0.0, -torch.inf])
    (masked,) = trace(lambda x: x + mask, draw(3, 2)).named("aten.add")
    assert masked.lost_bits is None
    (plain,) = trace(lambda x: x + (1e-3 - x), torch.full((2,), 1.024)).named("aten.add")
    assert plain.lost_bits == pytest.approx(10, abs=0.1)
