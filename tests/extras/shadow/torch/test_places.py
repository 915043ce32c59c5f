"""Lines, modules and phases of operations."""

import torch
from torch import nn

from tests.extras.shadow.torch.networks import transformer


def test_operations_have_their_line_and_module(trace, draw):
    module = transformer(layers=2)
    traced = trace(module, draw(2, 4, 32), module=module)
    norm = traced.named("aten.native_layer_norm")[2]
    assert (norm.site.module, norm.site.code) == (
        "1.n1",
        "q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 4, d // 4).permute(2, 0, 3, 1, 4)",
    )
    assert norm.site.file.endswith("networks.py")
    assert norm.phase == "forward"
    assert [each.number for each in traced.operations] == list(range(1, len(traced.operations) + 1))


def test_a_module_that_a_function_makes_is_named_by_its_class(trace, draw):
    def run(x):
        return nn.Sequential(nn.Linear(4, 4), nn.Tanh())(x)

    torch.manual_seed(0)
    traced = trace(run, draw(2, 4))
    assert traced.named("aten.addmm")[0].site.module == "Sequential.0"
    assert traced.named("aten.tanh")[0].site.module == "Sequential.1"


def test_backward_operations_have_the_line_and_module_of_the_forward_one(trace, draw):
    module = transformer(layers=2)

    def train(x):
        loss = module(x).square().mean()
        loss.backward()

    traced = trace(train, draw(2, 4, 32), module=module)
    backward = [each for each in traced.operations if each.phase == "backward"]
    assert len(backward) > 30
    at_call = [each for each in backward if each.site.code == "loss.backward()"]
    assert len(at_call) <= 1, "the gradient of the loss itself may have this line"
    gelu = traced.named("aten.gelu_backward")
    assert [each.site.module for each in gelu] == ["1", "0"]
    assert {each.site.code for each in gelu} == {"return x + self.down(functional.gelu(self.up(self.n2(x))))"}
    norms = traced.named("aten.native_layer_norm_backward")
    assert [each.site.module for each in norms] == ["1.n2", "1.n1", "0.n2", "0.n1"]


def test_steps_of_optimizers_have_their_line(trace, draw):
    module = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(module.parameters())

    def train(x):
        module(x).sum().backward()
        optimizer.step()

    traced = trace(train, draw(2, 4), module=module)
    steps = [each for each in traced.operations if each.phase == "optimizer"]
    assert {each.site.code for each in steps} == {"optimizer.step()"}
    assert len(steps) > 5


def test_a_failure_inside_a_module_leaves_no_hooks_and_no_patches(trace, draw):
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("on purpose")

    usual = torch.Tensor.numpy, torch.Tensor.tolist
    module = nn.Sequential(nn.Linear(4, 4), Failing())

    def run(x):
        try:
            module(x)
        except ValueError:
            return module[0](x)

    traced = trace(run, draw(2, 4), module=module)
    assert [each.site.module for each in traced.named("aten.addmm")] == ["0", "0"]
    assert (torch.Tensor.numpy, torch.Tensor.tolist) == usual
    assert "numpy" not in vars(torch.Tensor)
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_operations_know_the_makers_of_their_inputs(trace, draw):
    def run(x):
        y = x.exp()
        z = y.t() + x
        z.mul_(y)
        return z.sum()

    operations = trace(run, draw(3, 3)).operations
    assert [each.sources for each in operations] == [(0,), (1, 0), (2, 1), (3,)]
