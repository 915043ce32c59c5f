"""A monitor against independent float64 runs; it changes no bit, and leaves modules as they were."""

import copy
import gc
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils.checkpoint import checkpoint

import precreg
from precreg.errors import UserError

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
    "adam_fused": lambda parameters: torch.optim.Adam(parameters, lr=1e-2, fused=True),
    "adam_loop": lambda parameters: torch.optim.Adam(parameters, lr=1e-2, foreach=False),
}


class Net(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.first = nn.Linear(24, 40)
        self.norm = nn.BatchNorm1d(40)
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(40, 40), nn.GELU()) for _ in range(2))
        self.last = nn.Linear(40, 6)

    def forward(self, x):
        x = self.drop(self.act(self.norm(self.first(x))))
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


def made(dtype=torch.float32, **options):
    torch.manual_seed(3)
    return Net(**options).to(dtype)


def batches(count, dtype=torch.float32):
    generator = torch.Generator().manual_seed(5)
    for _ in range(count):
        yield (
            torch.randn(32, 24, generator=generator).to(dtype),
            torch.randn(32, 6, generator=generator).to(dtype),
        )


def train(net, optimizer, data, clip=None):
    for x, y in data:
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()


def relative(low, exact):
    return float((low.double() - exact).norm() / exact.norm())


def figures(record, role, layer, step=-1):
    (found,) = [each for each in record.steps[step].layers if (each.role, each.layer) == (role, layer)]
    return found


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_keeps_its_bits_and_its_random_numbers(optimizer, dtype):
    states, random = [], []
    for monitored in (False, True):
        net = made(dtype, dropout=0.3)
        update = OPTIMIZERS[optimizer](net.parameters())
        torch.manual_seed(9)
        if monitored:
            with precreg.monitor(net, ["*"], every=2) as monitor:
                train(net, update, batches(5, dtype), clip=0.5)
        else:
            train(net, update, batches(5, dtype), clip=0.5)
        states.append(net.state_dict())
        random.append(torch.get_rng_state())
    assert all(torch.equal(one, other) for one, other in zip(*(each.values() for each in states), strict=True))
    assert torch.equal(*random)
    assert [step.step for step in monitor.record.steps] == [0, 2, 4]
    assert all(step.has_backward for step in monitor.record.steps)
    assert _get_current_dispatch_mode() is None


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_total_errors_are_those_of_an_independent_float64_run(optimizer, dtype):
    net = made(dtype)
    exact = copy.deepcopy(net).double()
    update, exact_update = (OPTIMIZERS[optimizer](each.parameters()) for each in (net, exact))
    data = list(batches(1, dtype))
    outputs = {}
    for name, module in exact.named_modules():
        if name == "blocks.1":
            module.register_forward_hook(lambda _m, _i, output: outputs.update(exact=output.detach()))
    for name, module in net.named_modules():
        if name == "blocks.1":
            module.register_forward_hook(lambda _m, _i, output: outputs.update(low=output.detach().clone()))
    with precreg.monitor(net, ["blocks.*", "last"], every=1) as monitor:
        train(net, update, data)
    train(exact, exact_update, [(x.double(), y.double()) for x, y in data])
    record = monitor.record
    for layer in ("blocks.1", "last"):
        low, wide = (each.get_submodule(layer) for each in (net, exact))
        pairs = {
            "gradient": [
                (one.grad, other.grad) for one, other in zip(low.parameters(), wide.parameters(), strict=True)
            ],
            "weight": list(zip(low.parameters(), wide.parameters(), strict=True)),
        }
        for role, both in pairs.items():
            one, other = (
                torch.cat([each.detach().double().flatten() for each in side]) for side in zip(*both, strict=True)
            )
            assert figures(record, role, layer).total.relative == pytest.approx(relative(one, other), rel=1e-6), role
    assert figures(record, "activation", "blocks.1").total.relative == pytest.approx(
        relative(outputs["low"], outputs["exact"]), rel=1e-6
    )


def test_an_own_error_is_that_of_the_layer_on_its_own_inputs():
    net = made(torch.bfloat16).eval()
    seen = {}
    net.blocks[1].register_forward_hook(lambda _m, given, output: seen.update(x=given[0].clone(), y=output.clone()))
    (x, _), *_ = batches(1, torch.bfloat16)
    with torch.no_grad(), precreg.monitor(net, ["blocks.?", "blocks.1.0"], every=1) as monitor:
        net(x)
    found = figures(monitor.record, "activation", "blocks.1")
    x, y = seen["x"], seen["y"]
    # Below the hook, which the copy has, too.
    exact = x.double()
    for layer in copy.deepcopy(net.blocks[1]).double():
        exact = layer(exact).detach()
    assert found.own.relative == pytest.approx(relative(y, exact), rel=1e-9)
    assert found.own.max_abs == pytest.approx(float((y.double() - exact).abs().max()), rel=1e-9)
    assert found.total.relative > found.own.relative
    assert not monitor.record.steps[0].has_backward


def test_figures_are_those_of_numpy():
    net = nn.Sequential(nn.Identity())
    x = torch.tensor([[1.0, -2.0, 0.0, 1e-40], [torch.nan, torch.inf, -torch.inf, 5.0]])
    with torch.no_grad(), precreg.monitor(net, ["0"], every=1) as monitor:
        net(x)
    found = figures(monitor.record, "activation", "0").figures
    finite = x.numpy()[np.isfinite(x.numpy())].astype(np.float64)
    assert (found.elements, found.nan, found.inf) == (8, 1, 2)
    assert (found.subnormal, found.zeros) == (1 / 8, 1 / 8)
    assert found.mean == pytest.approx(finite.mean())
    assert found.std == pytest.approx(finite.std())
    assert (found.least, found.greatest) == (finite.min(), finite.max())


def test_a_layer_in_a_narrower_format_has_the_largest_own_error():
    class Narrow(nn.LayerNorm):
        def forward(self, x):
            low = torch.bfloat16
            return nn.functional.layer_norm(x.to(low), self.normalized_shape, self.weight.to(low)).to(x.dtype)

    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32)) for _ in range(4)))
    net[2][1] = Narrow(32)
    with torch.no_grad(), precreg.monitor(net, every=1) as monitor:
        net(torch.randn(8, 32))
    found = monitor.error_map("own")
    assert found.layers[int(found.values[:, 0].argmax())] == "2.1"
    assert found.values[:, 0].max() > 1e-3
    assert np.sort(found.values[:, 0])[-2] < 1e-6


def test_layers_and_tensors_that_change_in_place_or_choose_keep_the_shadow():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(16, 16)

        def forward(self, x):
            x = self.inner(x)
            view = x[:, :8]
            view.mul_(3).add_(1)
            values, _ = x.topk(5, -1)
            x[:, 8:] = torch.sort(x[:, 8:], -1).values
            best = x.max(-1).values
            return {"values": values, "x": x.clone(), "best": best}

    torch.manual_seed(1)
    net, x = Mixed().half(), torch.randn(6, 16).half()
    wide = copy.deepcopy(net).double()
    with torch.no_grad(), precreg.monitor(nn.Sequential(net), ["0"], every=1) as monitor:
        outputs = monitor._model(x)
        exact = wide(x.double())
    for each in monitor.record.steps[0].layers:
        assert each.total.relative == pytest.approx(relative(outputs[each.output], exact[each.output]), rel=1e-6)
    assert {each.output for each in monitor.record.steps[0].layers} == {"values", "x", "best"}
    assert monitor.record.events == ()


def test_what_leaves_the_shadow_is_named():
    class Leaving(nn.Module):
        def forward(self, x):
            return x * x.sum().item() + x.view(torch.int32).view(torch.float32)

    net = nn.Sequential(Leaving())
    with torch.no_grad(), precreg.monitor(net, every=1) as monitor:
        net(torch.tensor([0.1, 0.2, 0.7]))
    assert {(event.kind, event.name) for event in monitor.record.events} == {
        ("cut", "aten._local_scalar_dense"),
        ("cut", "aten.view"),
    }


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_that_computes_again_counts_its_layers_once(reentrant):
    class Saving(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return self.b(checkpoint(self.a, x, use_reentrant=reentrant))

    net = Saving()
    x = torch.randn(4, 8, requires_grad=True)
    with precreg.monitor(net, every=1) as monitor:
        net(x).sum().backward()
    roles = sorted((each.role, each.layer, each.call) for each in monitor.record.steps[0].layers)
    assert roles == [(role, layer, 0) for role in ("activation", "gradient") for layer in "ab"]
    exact = copy.deepcopy(net).double()
    exact.zero_grad()
    exact(x.detach().double().requires_grad_()).sum().backward()
    low, wide = (torch.cat([net.a.weight.grad.flatten(), net.a.bias.grad]), None)
    wide = torch.cat([exact.a.weight.grad.flatten(), exact.a.bias.grad])
    assert figures(monitor.record, "gradient", "a").total.relative == pytest.approx(relative(low, wide), rel=1e-6)


def test_an_accumulated_gradient_has_one_step_for_each_forward_pass():
    net = made()
    update = torch.optim.SGD(net.parameters(), lr=0.1)
    with precreg.monitor(net, ["last"], every=2) as monitor:
        for place, (x, y) in enumerate(batches(4)):
            (net(x) - y).square().mean().backward()
            if place % 2:
                update.step()
                update.zero_grad()
    roles = [[each.role for each in step.layers] for step in monitor.record.steps]
    assert monitor.record.begun == 4
    # The update belongs to the second pass of each pair, which is not sampled.
    assert roles == [["activation", "gradient"]] * 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_in_a_sampled_step_harms_neither_the_module_nor_later_steps(error):
    class Failing(nn.Module):
        fails = True

        def forward(self, x):
            if self.fails:
                raise error
            return x * 2

    inner = Failing()
    net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(inner))
    monitor = precreg.monitor(net, ["*"], every=1).start()
    with pytest.raises(error):
        net(torch.ones(2, 3))
    inner.fails = False
    expected = net[1](net[0](torch.ones(2, 3)))
    assert torch.equal(net(torch.ones(2, 3)), expected)
    monitor.stop()
    assert _get_current_dispatch_mode() is None
    complete = {each.layer for each in monitor.record.steps[-1].layers if each.role == "activation"}
    assert complete == {"0", "1", "1.0"}
    assert [event.kind for event in monitor.record.events] == (["interrupted"] if error is ValueError else [])


def test_a_monitor_leaves_no_hook_and_no_copy_of_itself():
    net = made()
    before = {name: len(each._forward_hooks) + len(each._forward_pre_hooks) for name, each in net.named_modules()}
    with precreg.monitor(net, every=1) as monitor:
        copied, stored = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
        for other in (copied, stored):
            other(next(batches(1))[0])
        assert monitor.record.begun == 0
        net(next(batches(1))[0])
    after = {name: len(each._forward_hooks) + len(each._forward_pre_hooks) for name, each in net.named_modules()}
    assert after == before
    assert not any(each._post_accumulate_grad_hooks for each in net.parameters())
    net(next(batches(1))[0])
    assert monitor.record.begun == 1


def test_a_dropped_monitor_samples_nothing():
    net = made()
    precreg.monitor(net, every=1).start()
    gc.collect()
    assert torch.isfinite(net(next(batches(1))[0])).all()
    assert _get_current_dispatch_mode() is None


def test_the_oldest_steps_make_room():
    net = made().eval()
    (x, _), *_ = batches(1)
    with torch.no_grad(), precreg.monitor(net, ["last"], every=2, keep=3) as monitor:
        for _ in range(11):
            net(x)
    record = monitor.record
    assert [step.step for step in record.steps] == [6, 8, 10]
    assert (record.begun, record.dropped) == (11, 3)
    assert (record.overhead.sampled, record.overhead.others) == (5, 5)
    assert record.overhead.sampled_s > record.overhead.others_s > 0


def test_no_shadow_outlives_its_step():
    net = made()
    update = torch.optim.AdamW(net.parameters())
    with precreg.monitor(net, ["*"], every=1) as monitor:
        counts = []
        for x, y in batches(4):
            train(net, update, [(x, y)])
            gc.collect()
            counts.append(
                sum(1 for each in gc.get_objects() if isinstance(each, torch.Tensor) and each.dtype is torch.float64)
            )
    assert counts == [counts[0]] * 4
    assert monitor.record.begun == 4


def live_tensors():
    gc.collect()
    return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())


def test_the_number_of_live_tensors_stays_the_same_over_200_steps():
    net = made()
    optimizer = torch.optim.AdamW(net.parameters())
    counts = []
    with precreg.monitor(net, every=2, keep=20) as monitor:
        for _ in range(4):
            train(net, optimizer, batches(50))
            counts.append(live_tensors())
    assert len(set(counts)) == 1
    assert (monitor.record.begun, len(monitor.record.steps), monitor.record.dropped) == (200, 20, 80)


def test_a_layer_that_runs_often_is_cut_and_counted():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.Linear(4, 4)

        def forward(self, x):
            for _ in range(20):
                x = torch.tanh(self.cell(x))
            return x

    net = Loop()
    with torch.no_grad(), precreg.monitor(net, every=1) as monitor:
        net(torch.ones(2, 4))
    (step,) = monitor.record.steps
    assert [each.call for each in step.layers] == list(range(16))
    (event,) = monitor.record.events
    assert (event.kind, event.name, event.times) == ("calls_left_out", "cell", 4)


def test_a_module_that_calls_itself_is_one_step():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x, again=True):
            return self(self.inner(x), again=False) if again else self.inner(x)

    net = Twice()
    with torch.no_grad(), precreg.monitor(net, every=1) as monitor:
        net(torch.ones(2, 4))
        net(torch.ones(2, 4))
    assert monitor.record.begun == 2
    assert [each.call for each in monitor.record.steps[0].layers] == [0, 1]


class Other(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_inside_another_mode_the_shadow_ends_with_the_forward_pass():
    net = made()
    with precreg.monitor(net, ["last"], every=1) as monitor:
        with Other():
            loss = net(next(batches(1))[0]).sum()
        loss.backward()
    assert [event.kind for event in monitor.record.events] == ["forward_only"]
    assert [each.role for each in monitor.record.steps[0].layers] == ["activation"]
    assert _get_current_dispatch_mode() is None


def test_a_step_that_another_thread_ends_is_named_and_left_later():
    net = made()
    x = next(batches(1))[0]
    with precreg.monitor(net, ["last"], every=1) as monitor:
        net(x)
        other = threading.Thread(target=lambda: net(x).sum().backward())
        other.start()
        other.join()
        with torch.no_grad():
            net(x)
    assert "other_thread" in [event.kind for event in monitor.record.events]
    assert _get_current_dispatch_mode() is None


def test_the_page_and_the_json_have_the_figures(tmp_path):
    import msgspec

    from precreg.types import MonitorRecord

    net = made()
    update = torch.optim.SGD(net.parameters(), lr=0.1)
    with precreg.monitor(net, every=2) as monitor:
        train(net, update, batches(6))
    monitor.write_html(tmp_path / "m.html")
    monitor.write_json(tmp_path / "m.json")
    page = (tmp_path / "m.html").read_text()
    for name in ("Own error of the layer, layers by step", "Total error of gradients, layers by step", "blocks.1.0"):
        assert name in page
    stored = msgspec.json.decode((tmp_path / "m.json").read_bytes(), type=MonitorRecord)
    assert stored.steps == monitor.record.steps


BAD = {
    "pattern": (lambda: (made(), ["lst"]), {}, "unknown-node", 'did you mean "last"?'),
    "container": (lambda: (made(), ["blocks"]), {}, "unknown-node", "try 'blocks.*'"),
    "text": (lambda: (made(), "last"), {}, "bad-value", "expected a list of patterns"),
    "every": (lambda: (made(), None), {"every": 0}, "bad-value", "every=0"),
    "keep": (lambda: (made(), None), {"keep": 1.5}, "bad-value", "keep=1.5"),
    "function": (lambda: (torch.relu, None), {}, "bad-value", "expected a torch.nn.Module"),
    "compiled": (lambda: (torch.compile(made()), None), {}, "bad-value", "OptimizedModule: it is compiled"),
    "script": (
        lambda: (nn.Sequential(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))), None),
        {},
        "bad-value",
        "layer 0: it is a ScriptModule",
    ),
    "parallel": (lambda: (nn.DataParallel(made()), None), {}, "bad-value", "use model.module"),
}


@pytest.mark.parametrize("mistake", BAD)
def test_one_message_for_each_mistake(mistake):
    make, options, slug, words = BAD[mistake]
    model, layers = make()
    with pytest.raises(UserError) as caught:
        precreg.monitor(model, layers, **options)
    assert caught.value.slug == slug
    assert words in caught.value.message


class Leaves(nn.Module):
    """Leave torch between two layers, in a way of the test."""

    def __init__(self, way):
        super().__init__()
        self.first, self.last, self.way = nn.Linear(8, 8), nn.Linear(8, 4), way

    def forward(self, x):
        return self.last(self.way(self.first, x))


def in_a_thread(layer, x):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(layer, x).result()


WAYS = {
    "numpy": (lambda layer, x: torch.from_numpy(layer(x).detach().numpy() * 2), {("cut", "numpy")}),
    "tolist": (lambda layer, x: torch.tensor(layer(x).tolist()), {("cut", "tolist")}),
    "thread": (in_a_thread, {("other_thread", "thread"), ("other_thread", "first")}),
    "vmap": (lambda layer, x: torch.vmap(lambda row: layer(row).tanh())(x), {("transformed", "first")}),
    "compile": (
        lambda layer, x: torch.compile(lambda value: value * 2, backend="eager")(layer(x)),
        {("eager", "torch.compile")},
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_out_of_the_shadow_is_an_event_and_keeps_the_bits(way):
    leave, events = WAYS[way]
    torch.manual_seed(0)
    net, x = Leaves(leave), torch.randn(4, 8)
    plain = net(x)
    with precreg.monitor(net, every=1) as monitor:
        assert torch.equal(net(x), plain)
        monitor.stop()
    record = monitor.record
    assert {(event.kind, event.name) for event in record.events} == events
    # A layer that the monitor cannot see has no error of 0, but none.
    seen = {each.layer for each in record.steps[0].layers if each.role == "activation"}
    assert seen == ({"last"} if way in ("thread", "vmap") else {"first", "last"})


def test_the_ways_out_are_those_of_torch_again_after_a_step():
    before = torch.Tensor.numpy, torch.Tensor.tolist, threading.Thread.start
    net = made()
    with precreg.monitor(net, every=1):
        net(next(batches(1))[0])
    assert (torch.Tensor.numpy, torch.Tensor.tolist, threading.Thread.start) == before


def test_float64_has_no_errors_of_its_own_precision():
    net = made(torch.float64)
    with torch.no_grad(), precreg.monitor(net, ["first", "last"], every=1) as monitor:
        net(next(batches(1, torch.float64))[0])
    assert all(each.own is None and each.total is None for each in monitor.record.steps[0].layers)
    assert {(event.kind, event.name) for event in monitor.record.events} == {
        ("same_precision", "first"),
        ("same_precision", "last"),
    }


def test_a_counter_that_an_optimizer_reads_is_no_cut():
    net = made()
    optimizer = OPTIMIZERS["adam_loop"](net.parameters())
    with precreg.monitor(net, every=1) as monitor:
        train(net, optimizer, batches(3))
    assert monitor.record.events == ()


def test_an_index_that_float64_would_choose_otherwise_is_a_flip():
    class Router(nn.Module):
        def forward(self, x):
            # 1 + 2**-12 rounds to 1 in float16, so both are equal and the first one wins.
            return (x + torch.tensor([0.0, 2.0**-12], dtype=x.dtype)).argmax(-1)

    net = nn.Sequential(Router())
    with torch.no_grad(), precreg.monitor(net, every=1) as monitor:
        assert net(torch.ones(3, 2, dtype=torch.float16)).tolist() == [0, 0, 0]
    assert [(event.kind, event.name) for event in monitor.record.events] == [("flip", "aten.argmax")]


def test_a_parallel_module_inside_is_refused():
    with pytest.raises(UserError, match="layer 0: it runs copies in other threads"):
        precreg.monitor(nn.Sequential(nn.DataParallel(nn.Linear(2, 2))))
