"""An observer changes no bit of a training, restores everything, and keeps the facts of its steps."""

import copy
import gc
import io
import json
import math
import pickle
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad, clip_grad_norm_

import precreg
from precreg.errors import UserError

OPTIMIZERS = {
    "sgd": lambda each: torch.optim.SGD(each, lr=0.05, momentum=0.9),
    "adam": lambda each: torch.optim.AdamW(each, lr=1e-3),
    "foreach": lambda each: torch.optim.AdamW(each, lr=1e-3, foreach=True),
    "fused": lambda each: torch.optim.AdamW(each, lr=1e-3, fused=True),
    "adafactor": lambda each: torch.optim.Adafactor(each, lr=1e-2),
}


class Tied(nn.Module):
    """Two layers that share a weight, a frozen one, one in place, and one that never runs."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.frozen = nn.Linear(8, 8)
        self.frozen.requires_grad_(False)
        self.norm, self.relu, self.idle = nn.LayerNorm(8), nn.ReLU(inplace=True), nn.Linear(2, 2)

    def forward(self, x):
        return self.second(self.relu(self.frozen(self.norm(self.relu(self.first(x))))))


def train(make_optimizer, observed, *, dtype=torch.float32, scaled=False, batches=1, steps=9, clip=None, every=2):
    torch.manual_seed(7)
    model = Tied().to(dtype)
    optimizer = make_optimizer(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=3) if scaled else None
    data = torch.randn(steps * batches, 4, 8).to(dtype)
    observer = precreg.observe(model, optimizer, scaler, every=every) if observed else None
    if observer is not None:
        observer.start()
    for step in range(steps):
        optimizer.zero_grad()
        for x in data[step * batches : (step + 1) * batches]:
            with torch.autocast("cpu", torch.float16, enabled=scaled):
                loss = model(x).square().mean() / batches
            (loss if scaler is None else scaler.scale(loss)).backward()
        if clip is not None:
            if scaler is not None and clip == "after":
                scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 0.01)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
    if observer is not None:
        observer.stop()
    return model, optimizer, scaler, observer


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    "options",
    [{}, {"dtype": torch.bfloat16}, {"scaled": True}, {"scaled": True, "clip": "after"}, {"batches": 3, "clip": "all"}],
    ids=["float32", "bfloat16", "scaled", "clipped", "accumulated"],
)
def test_the_bits_of_a_training_do_not_change(name, options):
    seen, seen_optimizer, seen_scaler, observer = train(OPTIMIZERS[name], True, **options)
    model, optimizer, scaler, _ = train(OPTIMIZERS[name], False, **options)
    assert len(observer.record.steps) == 5
    for mine, other in zip(seen.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, other)
    for mine, other in zip(seen_optimizer.state.values(), optimizer.state.values(), strict=True):
        assert all(not torch.is_tensor(value) or torch.equal(value, other[key]) for key, value in mine.items())
    if scaler is not None:
        assert seen_scaler.state_dict() == scaler.state_dict()


def test_everything_is_restored():
    usual = clip_grad._clip_grads_with_norm_
    model, optimizer, scaler, _ = train(OPTIMIZERS["adam"], True, scaled=True, clip="after")
    assert clip_grad._clip_grads_with_norm_ is usual
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    assert not {"unscale_", "update", "scale"} & vars(scaler).keys()
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert not any(each._backward_hooks for each in model.parameters())


def test_observers_may_start_and_stop_in_any_order():
    usual = clip_grad._clip_grads_with_norm_
    one, other = (train(OPTIMIZERS["sgd"], False) for _ in range(2))
    first, second = (precreg.observe(each[0], each[1], every=1) for each in (one, other))
    first.start()
    second.start()
    first.stop()
    one[0](torch.randn(4, 8)).square().mean().backward()
    clip_grad_norm_(one[0].parameters(), 1.0)
    second.stop()
    assert first.record.clips == ()
    assert clip_grad._clip_grads_with_norm_.__module__ in (usual.__module__, "precreg.training.observing.observer")


def test_a_copy_and_a_file_of_the_model_have_no_observer():
    model, optimizer, _, _ = train(OPTIMIZERS["sgd"], False)
    with precreg.observe(model, optimizer, every=1) as observer:
        twin = copy.deepcopy(model)
        file = io.BytesIO()
        torch.save(model, file)
        loaded = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
        for each in (twin, loaded):
            each(torch.randn(4, 8)).square().mean().backward()
        copy.deepcopy(optimizer)
    assert observer.record.steps == ()


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_and_a_file_of_the_scaler_have_no_observer(copied):
    model, optimizer, _, _ = train(OPTIMIZERS["sgd"], False)
    scaler = torch.amp.GradScaler("cpu")
    unwatched = vars(scaler).keys()
    with precreg.observe(model, optimizer, scaler, every=1) as observer:
        twin = copied(scaler)
        twin.scale(torch.ones(()))
        twin.update(8.0)
    assert vars(twin).keys() == unwatched == vars(scaler).keys()
    assert (twin.get_scale(), scaler.get_scale()) == (8.0, 65536.0)
    assert (observer.record.losses, observer.record.scales) == ((), ())


def test_a_scaler_does_not_keep_its_observer():
    model, optimizer, _, _ = train(OPTIMIZERS["sgd"], False)
    scaler = torch.amp.GradScaler("cpu")
    observer = weakref.ref(precreg.observe(model, optimizer, scaler).start())
    for step in range(2):
        scaler.scale(model(torch.randn(4, 8)).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        gc.collect()
        # The hooks of the first step, which is sampled, needed it.
        assert observer() is None, step


class Float8(nn.Module):
    def forward(self, x):
        return x.to(torch.float8_e4m3fn)


class Mixed(nn.Module):
    """Adds a layer's output and its rounding to float8."""

    def __init__(self):
        super().__init__()
        self.layer, self.narrow = nn.Linear(3, 3), Float8()

    def forward(self, x):
        h = self.layer(x)
        return h + self.narrow(h.detach()).float()


def test_a_layer_with_float8_outputs_is_observed():
    model = Mixed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with precreg.observe(model, optimizer, every=1) as observer:
        model(torch.full((2, 3), 0.5)).sum().backward()
        optimizer.step()
    assert len(observer.record.steps) == 1
    assert observer.record.events == ()


class Fragile(torch.Tensor):
    """Refuses to be checked, as a tensor of another package may."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.Tensor.sum:
            raise NotImplementedError("no sum here")
        return super().__torch_function__(function, types, args, kwargs or {})


def fragile_training(observed):
    torch.manual_seed(3)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    observer = precreg.observe(model, optimizer, every=2) if observed else None
    with observer or nullcontext():
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(2, 3).as_subclass(Fragile)).as_subclass(torch.Tensor).mean().backward()
            optimizer.step()
    return model, observer


def test_an_error_of_the_observer_is_an_event_and_the_training_goes_on():
    model, observer = fragile_training(True)
    failed = [event for event in observer.record.events if event.kind == "failed"]
    assert [(each.name, each.detail, each.step, each.times) for each in failed] == [
        ("NotImplementedError", "no sum here", 0, 2)
    ]
    assert observer.record.begun == 4
    assert torch.equal(model.weight, fragile_training(False)[0].weight)


def test_an_error_of_a_listener_is_an_event_and_its_step_is_left_out():
    model, optimizer, _, _ = train(OPTIMIZERS["sgd"], False)

    def fail(gradients):
        if gradients.step == 1:
            raise KeyError("lost")

    observer = precreg.observe(model, optimizer, every=1)
    observer.listeners.append(fail)
    with observer:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
    assert [step.step for step in observer.record.steps] == [0, 2]
    (event,) = [event for event in observer.record.events if event.kind == "failed"]
    assert (event.name, event.step, event.times) == ("KeyError", 1, 1)
    assert observer.record.begun == 3


def test_bad_losses_and_norms_between_samples_are_events():
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with precreg.observe(model, optimizer, every=4) as observer:
        for step in range(8):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 3)).mean() * (float("inf") if step in (2, 3) else 1.0)
            observer.note_loss(loss)
            loss.backward()
            clip_grad_norm_(model.parameters(), 1.0)
            with torch.no_grad():
                for each in model.parameters():
                    each.grad.nan_to_num_(0.0, 0.0, 0.0)
            optimizer.step()
    found = [(event.kind, event.phase, event.step, event.times) for event in observer.record.events]
    assert found == [("not_located", "loss", 2, 2), ("not_located", "gradient", 2, 2)]


def test_an_overflow_that_the_scaler_skips_is_no_event():
    _, _, _, observer = train(OPTIMIZERS["adam"], True, scaled=True, clip="after", every=4)
    assert any(not math.isfinite(each.norm) for each in observer.record.clips)
    assert not [event for event in observer.record.events if event.kind == "not_located"]


def test_shared_frozen_and_idle_parameters():
    _, _, _, observer = train(OPTIMIZERS["adam"], True)
    record = observer.record
    assert [each.parameter for each in record.steps[0].parameters] == [
        "first.weight", "first.bias", "second.bias", "norm.weight", "norm.bias",
    ]  # fmt: skip
    missing = {event.name: event.times for event in record.events if event.kind == "no_gradient"}
    assert missing == {"idle.weight": 5, "idle.bias": 5}
    # The frozen layer passes gradients on, so its output has one.
    assert {"first", "norm", "relu", "frozen", "second"} == {each.layer for each in record.steps[0].outputs}


def test_figures_are_those_of_a_direct_computation():
    torch.manual_seed(0)
    model = nn.Linear(6, 3, dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-7)
    with precreg.observe(model, optimizer, every=1) as observer:
        model(torch.randn(4, 6, dtype=torch.bfloat16)).square().mean().backward()
        weight, gradient = model.weight.detach().clone(), model.weight.grad.clone()
        optimizer.step()
    (step,) = observer.record.steps
    figures, update = step.parameters[0].gradient, step.parameters[0].update
    wide = gradient.double()
    assert figures.mean == pytest.approx(float(wide.mean()), rel=1e-12)
    assert figures.std == pytest.approx(float(wide.std(correction=0)), rel=1e-9)
    assert (figures.least, figures.greatest) == (float(wide.min()), float(wide.max()))
    norms = [each.grad.double().square().sum() for each in model.parameters()]
    assert step.gradient_norm == pytest.approx(float(sum(norms).sqrt()), rel=1e-6)
    intended = weight.double() - 2.0**-7 * wide
    stayed = model.weight.detach() == weight
    assert update.lost == int((stayed & (intended != weight.double())).sum()) > 0
    assert update.intended == int((intended != weight.double()).sum())
    change = (intended - weight.double()).norm() / weight.double().norm()
    assert update.intended_relative == pytest.approx(float(change), rel=1e-12)


def test_a_scaled_training_keeps_scales_skips_and_unscaled_figures():
    _, _, _, observer = train(OPTIMIZERS["adam"], True, scaled=True, every=1)
    record = observer.record
    scales = [point.scale for point in record.scales]
    assert len(scales) == 9
    assert scales[0] == 2.0**18
    skipped = [point.is_skipped for point in record.scales]
    assert skipped[0]
    assert not skipped[-1]
    for here, there, was_skipped in zip(scales, scales[1:], skipped, strict=False):
        assert there == here / 2 if was_skipped else there in (here, here * 2)
    assert [step.is_skipped for step in record.steps] == skipped
    assert all((each.update is None) == step.is_skipped for step in record.steps for each in step.parameters)
    assert len(record.losses) == 9
    last = record.steps[-1]
    formats = {each.parameter: each.gradient.format for each in last.parameters}
    assert formats["first.weight"] == "float16"
    assert {each.layer: each.gradient.format for each in last.outputs}["second"] == "float16"
    assert last.loss == record.losses[-1].loss
    assert 0 < last.gradient_norm < 10


@pytest.mark.parametrize("name", ["adam", "fused"])
def test_the_order_of_clipping_and_unscaling_is_a_fact(name):
    _, _, _, before = train(OPTIMIZERS[name], True, scaled=True, clip="before")
    clips = before.record.clips
    assert len(clips) == 9
    assert all(clip.is_scaled and clip.scale > 1 and clip.limit == 0.01 for clip in clips)
    _, _, _, after = train(OPTIMIZERS[name], True, scaled=True, clip="after")
    assert not any(clip.is_scaled for clip in after.record.clips)
    assert after.record.clips[-1].norm == pytest.approx(after.record.steps[-1].gradient_norm, rel=1e-5)


def test_figures_are_of_gradients_before_clipping():
    _, _, _, observer = train(OPTIMIZERS["sgd"], True, clip="all", every=1)
    for step, clip in zip(observer.record.steps, observer.record.clips, strict=True):
        assert step.gradient_norm == pytest.approx(clip.norm, rel=1e-5)
        assert step.gradient_norm > clip.limit


def test_closures_sparse_gradients_and_own_optimizers():
    model = nn.Linear(3, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
    x, y = torch.randn(8, 3), torch.randn(8, 1)

    def closure():
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        return loss

    with precreg.observe(model, optimizer, every=1) as observer:
        optimizer.step(closure)
    (event,) = [event for event in observer.record.events if event.kind == "no_twin"]
    assert event.detail == "a closure computes the gradients"
    assert [each.parameter for each in observer.record.steps[0].parameters] == ["weight", "bias"]

    table = nn.Embedding(10, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    with precreg.observe(table, optimizer, every=1) as observer:
        table(torch.tensor([1, 2])).square().sum().backward()
        optimizer.step()
    assert {(event.kind, event.name) for event in observer.record.events} >= {("sparse", "weight")}
    assert observer.record.steps[0].parameters == ()


def test_masters_that_the_model_lacks_are_named():
    model = nn.Linear(4, 2, dtype=torch.bfloat16)
    masters = [each.detach().float().requires_grad_() for each in model.parameters()]
    optimizer = torch.optim.SGD(masters, lr=0.1)
    with precreg.observe(model, optimizer, every=1) as observer:
        model(torch.ones(2, 4, dtype=torch.bfloat16)).square().mean().backward()
        for master, each in zip(masters, model.parameters(), strict=True):
            master.grad = each.grad.float()
        optimizer.step()
    record = observer.record
    assert [event.name for event in record.events if event.kind == "unnamed"] == ["unnamed.0", "unnamed.1"]
    updates = {each.parameter: each.update for each in record.steps[0].parameters}
    assert updates["unnamed.0"].intended == 8
    assert updates["weight"] is None


class Broken(nn.Module):
    def __init__(self, where):
        super().__init__()
        self.one, self.two, self.where = nn.Linear(4, 4), nn.Tanh(), where

    def forward(self, x):
        if self.where == "forward":
            with torch.no_grad():
                self.one.bias.fill_(3e38)
            return self.two(self.one(x + 3e38))
        h = self.two(self.one(x))
        # The square root of 0 is finite, and its slope is not.
        return (h * 0).sqrt() if self.where == "backward" else h


@pytest.mark.parametrize("where", ["weight", "input", "forward", "loss", "backward"])
def test_the_first_bad_value_is_named(where):
    model = Broken(where)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(2, 4)
    if where == "weight":
        with torch.no_grad():
            model.one.weight[0, 0] = float("nan")
    if where == "input":
        x[0, 0] = float("inf")
    with precreg.observe(model, optimizer, every=1) as observer:
        for _ in range(2):
            loss = model(x).mean() * (float("nan") if where == "loss" else 1.0)
            observer.note_loss(loss)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    first = next(event for event in observer.record.events if event.kind == "nonfinite")
    names = {"weight": "one.weight", "input": "one", "forward": "one", "loss": "", "backward": "two"}
    assert (first.step, first.phase, first.name) == (0, where, names[where])


def test_large_parameters_are_sampled_and_counted():
    model = nn.Linear(300, 300)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with precreg.observe(model, optimizer, every=1, elements=1000) as observer:
        model(torch.randn(4, 300)).square().mean().backward()
        optimizer.step()
    weight, bias = observer.record.steps[0].parameters
    assert weight.gradient.elements == weight.update.elements == 90_000
    assert weight.gradient.measured == weight.update.measured <= 1000
    assert bias.gradient.measured == 300
    (event,) = [event for event in observer.record.events if event.name == "weight"]
    assert (event.kind, event.detail) == ("sampled", f"{weight.gradient.measured} of 90000")


def test_only_the_latest_steps_are_kept_and_written(tmp_path):
    _, _, _, observer = train(OPTIMIZERS["sgd"], True)
    model, optimizer, _, _ = train(OPTIMIZERS["sgd"], False)
    observer = precreg.observe(model, optimizer, every=2, keep=2)
    with observer:
        for _ in range(9):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
    record = observer.record
    assert ([step.step for step in record.steps], record.dropped, record.begun) == ([6, 8], 3, 9)
    assert record.overhead.sampled + record.overhead.others == 9
    observer.write_json(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["dropped"] == 3
    observer.write_html(tmp_path / "r.html")
    assert "<h2>Gradient flow by parameter and step</h2>" in (tmp_path / "r.html").read_text()


def test_an_observer_that_is_forgotten_lets_the_training_go_on():
    model, optimizer, _, _ = train(OPTIMIZERS["sgd"], False)
    precreg.observe(model, optimizer).start()
    gc.collect()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (lambda m, o: precreg.observe(m, [o, o]), "expected one optimizer but got 2"),
        (lambda m, o: precreg.observe(m, "sgd"), "expected a torch.optim.Optimizer but got optimizer of type str"),
        (lambda m, o: precreg.observe(3, o), "expected a torch.nn.Module but got model of type int"),
        (lambda m, o: precreg.observe(m, o, "scaler"), "expected a torch.amp.GradScaler but got scaler of type str"),
        (lambda m, o: precreg.observe(m, o, every=0), "expected a whole number from 1 but got every=0"),
        (lambda m, o: precreg.observe(m, o, elements=0), "expected a whole number from 1 but got elements=0"),
        (lambda m, o: precreg.observe(m, o, format="float61"), "expected the name of a format but got format=float61"),
    ],
)
def test_wrong_arguments_are_refused(given, printed):
    model = nn.Linear(2, 2)
    with pytest.raises(UserError) as caught:
        given(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert printed in str(caught.value)
    assert caught.value.hint
    assert "precreg.monitor" not in caught.value.hint


@pytest.mark.parametrize(
    ("loss", "printed"),
    [
        ("x", "expected a loss of one element but got 'x' of type str"),
        (torch.ones(3), "expected a loss of one element but got a tensor of torch.float32 and shape (3,)"),
        (
            torch.ones(1, dtype=torch.complex64),
            "expected a loss of one element but got a tensor of torch.complex64 and shape (1,)",
        ),
        (None, "expected a loss of one element but got None of type NoneType"),
    ],
)
def test_a_loss_that_is_no_number_is_a_message(loss, printed):
    model = nn.Linear(2, 2)
    with (
        precreg.observe(model, torch.optim.SGD(model.parameters(), lr=0.1)) as observer,
        pytest.raises(UserError) as bad,
    ):
        observer.note_loss(loss)
    assert printed in str(bad.value)


def test_an_observer_prints_the_answer_and_the_tables_of_the_command():
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=8.0)
    with precreg.observe(model, optimizer, scaler, every=1) as observer:
        for _ in range(2):
            scaler.scale(model(torch.ones(3, 4)).square().mean()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
    lines = str(observer).splitlines()
    assert lines[0] == "training Linear with SGD"
    assert lines[1].startswith("  clipped before unscaling: 2 of 2 clippings, first at step 0")
    assert [line.split()[0] for line in lines if line.startswith(("  weight ", "  bias "))] == ["weight", "bias"]
    assert "  the scaler skipped 0 of 2 steps" in lines
    assert any(line.startswith("  unscale first: scaler.unscale_(optimizer)") for line in lines)
    assert "--" not in str(observer), "options of the command do not help a loop"


def test_the_room_has_the_name_of_the_issue():
    import precreg.training

    assert precreg.training.observe is precreg.observe


def test_the_hint_for_a_compiled_module_names_the_observer_and_no_other_function():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(UserError, match="OptimizedModule: it is compiled") as raised:
        precreg.observe(torch.compile(model, backend="eager"), optimizer)
    assert "precreg.observe(model, optimizer)" in raised.value.hint
    assert "precreg.monitor" not in raised.value.hint


def test_tensors_of_another_models_optimizer_are_named_as_events():
    model, other = nn.Linear(4, 2), nn.Linear(3, 2)
    with precreg.observe(model, torch.optim.SGD(other.parameters(), lr=0.1)) as observer:
        pass
    assert [(each.kind, each.name) for each in observer.record.events] == [
        ("unnamed", "unnamed.0"),
        ("unnamed", "unnamed.1"),
    ]
