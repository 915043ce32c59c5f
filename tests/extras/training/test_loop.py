"""The loop of a recipe equals the loop that a user writes, and mistakes in a recipe are messages."""

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from precreg.errors import UserError
from precreg.training.observing import check_optimizer, start_observer, train_recipe
from precreg.training.recipe import Recipe, read_recipe


def made(count=6, **more):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = [(torch.randn(5, 4), torch.randn(5, 2)) for _ in range(count)]
    return Recipe(model=model, optimizer=optimizer, data=data, loss=mse_loss, **more)


def test_a_plain_recipe_is_the_usual_loop_and_starts_its_data_again():
    mine, usual = made(), made()
    losses = list(train_recipe(mine, 9))
    expected = []
    for step in range(9):
        x, y = usual.data[step % 6]
        usual.optimizer.zero_grad()
        loss = mse_loss(usual.model(x), y)
        loss.backward()
        usual.optimizer.step()
        expected.append(loss.item())
    assert losses == expected
    for one, other in zip(mine.model.parameters(), usual.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_accumulation_scaling_and_clipping_run_in_the_documented_order():
    mine = made(scaler=torch.amp.GradScaler("cpu", init_scale=64.0), clip=0.01, accumulate=3)
    with start_observer(mine.model, mine.optimizer, mine.scaler, every=1, keep=9, elements=None) as observer:
        losses = list(train_recipe(mine, 4, observer))
    record = observer.record
    assert [point.loss for point in record.losses] == pytest.approx(losses, rel=1e-6)
    assert not any(clip.is_scaled for clip in record.clips)
    assert record.noise[0].source == "micro_batches"
    usual = made()
    for step in range(4):
        usual.optimizer.zero_grad()
        for place in range(3):
            x, y = usual.data[(3 * step + place) % 6]
            (mse_loss(usual.model(x), y) / 3).backward()
        torch.nn.utils.clip_grad_norm_(usual.model.parameters(), 0.01)
        usual.optimizer.step()
    for one, other in zip(mine.model.parameters(), usual.model.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-6, atol=1e-8)


def test_an_iterator_ends_the_training_and_the_event_counts():
    mine = made(count=4)
    mine.data = iter(mine.data)
    with start_observer(mine.model, mine.optimizer, None, every=1, keep=9, elements=None) as observer:
        assert len(list(train_recipe(mine, 9, observer))) == 4
    (event,) = observer.record.events
    assert (event.kind, event.step, event.detail) == ("data_ended", 4, "4 of 9")


def test_a_step_of_the_user_runs_instead():
    def step(recipe, batch):
        recipe.optimizer.zero_grad()
        loss = recipe.model(batch[0]).square().mean()
        loss.backward()
        recipe.optimizer.step()
        return loss

    mine = made(step=step)
    with start_observer(mine.model, mine.optimizer, None, every=2, keep=9, elements=None) as observer:
        losses = list(train_recipe(mine, 5, observer))
    record = observer.record
    assert [point.loss for point in record.losses] == losses
    assert [each.loss for each in record.steps] == losses[::2]


@pytest.mark.parametrize(
    ("change", "printed"),
    [
        ({"model": 3}, "expected a torch Module as model but got int"),
        ({"optimizer": None}, "expected a torch Optimizer as optimizer but got NoneType"),
        ({"loss": "mse"}, "expected a function of (output, target) as loss but got str"),
        ({"data": 4}, "expected data with batches but got int"),
        ({"data": []}, "expected data with batches of (inputs, target) but it has too few for a step"),
        ({"data": [torch.ones(3)]}, "expected batches of (inputs, target) but the data gave Tensor"),
        ({"data": [(1, 2, 3)]}, "expected batches of (inputs, target) but the data gave 3 values"),
        ({"accumulate": 0}, "expected a whole number from 1 but got accumulate=0"),
        ({"clip": "1.0"}, "expected a positive norm but got clip='1.0'"),
        ({"clip": -1.0}, "expected a positive norm but got clip=-1.0"),
        ({"autocast": "float61"}, "expected a floating dtype of torch but got autocast='float61'"),
        ({"loss": lambda output, _: output}, "expected a loss of one element but got a tensor of shape (5, 2)"),
        ({"loss": lambda *_: 1.0}, "expected a loss of one element but got float"),
    ],
)
def test_mistakes_in_a_recipe_are_messages(change, printed):
    recipe = made()
    for name, value in change.items():
        setattr(recipe, name, value)
    with pytest.raises(UserError) as caught:
        list(train_recipe(recipe, 3))
    assert printed in str(caught.value)
    assert caught.value.slug == "bad-outputs"
    assert caught.value.hint


def test_a_recipe_may_be_a_tuple_a_dict_or_an_object():
    recipe = made()
    members = {name: getattr(recipe, name) for name in ("model", "optimizer", "data", "loss")}
    for given in (tuple(members.values()), members, recipe):
        found = read_recipe(given, "train:make")
        assert all(getattr(found, name) is value for name, value in members.items())
    with pytest.raises(UserError, match="but it lacks loss"):
        read_recipe({name: value for name, value in members.items() if name != "loss"}, "train:make")
    with pytest.raises(UserError, match="but got 3 values"):
        read_recipe((1, 2, 3), "train:make")
    with pytest.raises(UserError, match="but it has scalar"):
        read_recipe({**members, "scalar": 1}, "train:make")


def test_a_misspelt_member_of_a_recipe_is_named_with_the_one_that_it_means():
    recipe = made()
    members = {name: getattr(recipe, name) for name in ("model", "optimizer", "data", "loss")}
    with pytest.raises(UserError, match=r'lacks optimizer; it has optimiser, .*; did you mean "optimizer"') as caught:
        read_recipe({"optimiser" if name == "optimizer" else name: each for name, each in members.items()}, "t:make")
    with pytest.raises(UserError, match=r'it has acumulate, .*; did you mean "accumulate"') as caught:
        read_recipe({**members, "acumulate": 4}, "t:make")
    assert caught.value.hint.startswith("leave acumulate out; optional members are scaler, clip, autocast, accumulate")


def test_a_loss_without_a_gradient_and_an_optimizer_of_another_model_are_messages():
    recipe = made()
    recipe.model.requires_grad_(False)
    with pytest.raises(UserError, match="expected a loss with a gradient but it depends on no parameter") as caught:
        list(train_recipe(recipe, 3))
    assert caught.value.slug == "no-gradients"
    recipe = made()
    recipe.optimizer = made().optimizer
    with pytest.raises(UserError, match="none of its 4 parameters is in the model"):
        check_optimizer(recipe)
    recipe.step = lambda *_: None  # it may copy the optimizer's weights to the model
    check_optimizer(recipe)
