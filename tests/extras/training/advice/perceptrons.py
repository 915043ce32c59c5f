"""Small trainings of perceptrons, healthy or with one fault. The rules of the advice were chosen on these."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


def regression(dtype=torch.float32):
    generator = torch.Generator().manual_seed(5)
    weights = torch.randn(16, 4, generator=generator)
    inputs = [torch.randn(32, 16, generator=generator) for _ in range(20)]
    return [(each.to(dtype), torch.tanh(each @ weights).to(dtype)) for each in inputs]


def classes(dtype=torch.float32):
    return [(inputs.to(dtype), target.argmax(1)) for inputs, target in regression()]


def perceptron():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def sgd(model, lr=0.1):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


def entropy(output, target):
    return F.cross_entropy(output.float(), target)


def recipe(model, optimizer, **more):
    return {"model": model, "optimizer": optimizer, "data": classes(), "loss": F.cross_entropy, **more}


def scale_too_high():
    # It falls by 1 % for each skipped step, so that 40 steps do not reach a scale that fits.
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, backoff_factor=0.99)
    return recipe(model := perceptron(), sgd(model), autocast="float16", scaler=scaler)


def small_loss(output, target):
    return 1e-6 * F.mse_loss(output, target)


def scale_too_low():
    model = perceptron()
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return recipe(model, optimizer, data=regression(), loss=small_loss, autocast="float16", scaler=scaler)


def no_scaling():
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-12)
    return recipe(model, optimizer, data=regression(), loss=small_loss, autocast="float16")


def clipping_step(recipe, batch):
    inputs, target = batch
    recipe.optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = recipe.loss(recipe.model(inputs), target)
    recipe.scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(recipe.model.parameters(), 1.0)
    recipe.scaler.step(recipe.optimizer)
    recipe.scaler.update()
    return loss


def clipped_before_unscale():
    return recipe(model := perceptron(), sgd(model), scaler=torch.amp.GradScaler("cpu"), step=clipping_step)


def lost_updates():
    model = perceptron().bfloat16()
    return recipe(model, sgd(model, 1e-3), data=classes(torch.bfloat16), loss=entropy)


def epsilon_below_format():
    model = perceptron().half()
    return recipe(model, torch.optim.Adam(model.parameters(), lr=1e-2), data=classes(torch.float16), loss=entropy)


class Norm(nn.Module):
    def forward(self, x):
        return 4 * x / (x * x).sum(-1, keepdim=True).sqrt()


class WithNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(16, 32), Norm()
        self.second, self.head = nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x):
        h = self.norm(torch.relu(self.first(1000 * x)))
        return self.head(torch.relu(self.second(h)))


def narrow_norm():
    return recipe(model := WithNorm(), sgd(model), autocast="float16", scaler=torch.amp.GradScaler("cpu"))


class WithGate(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.gate = nn.Linear(16, 32), nn.Linear(32, 32).half()
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x):
        h = 20000 * torch.relu(self.first(x))
        h = self.gate(h.to(self.gate.weight.dtype)).float()
        return self.head(torch.relu(self.norm(h)))


def narrow_gate():
    return recipe(model := WithGate(), sgd(model, 0.05))


def narrow_accumulation():
    model = nn.Linear(16, 4).bfloat16()
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    generator = torch.Generator().manual_seed(1)
    batch = torch.randn(2, 16, generator=generator).bfloat16(), torch.tensor([1, 2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    return recipe(model, optimizer, data=[batch], loss=entropy, accumulate=1024)


def summed(output, target):
    return F.cross_entropy(output, target, reduction="sum")


def summed_batch():
    return recipe(model := perceptron(), sgd(model), loss=summed)


def splitting_step(recipe, batch):
    recipe.optimizer.zero_grad()
    total = 0.0
    for inputs, target in zip(*(each.chunk(recipe.accumulate) for each in batch), strict=True):
        loss = recipe.loss(recipe.model(inputs), target)
        loss.backward()
        total += loss.item()
    recipe.optimizer.step()
    return total


def summed_micro_batches():
    return recipe(model := perceptron(), sgd(model, 0.3), step=splitting_step, accumulate=8)


# By plant: the symptom to name first, the remedy that helps, and the steps of a run.
FAULTS = {
    "scale_too_high": ("scale_too_high", "set_scale", 40),
    "scale_too_low": ("scale_too_low", "set_scale", 40),
    "no_scaling": ("scale_too_low", "set_scale", 40),
    "clipped_before_unscale": ("clipped_before_unscale", "clip_after_unscale", 40),
    "lost_updates": ("lost_updates", "master_weights", 40),
    "epsilon_below_format": ("epsilon_below_format", "larger_epsilon", 40),
    "narrow_norm": ("narrow_layer", "float32_layers", 40),
    "narrow_gate": ("narrow_layer", "float32_layers", 40),
    "narrow_accumulation": ("narrow_accumulation", "float32_accumulation", 6),
    "summed_batch": ("loss_not_averaged", "average_loss", 40),
    "summed_micro_batches": ("loss_not_averaged", "average_loss", 40),
}


def healthy_float32():
    model = perceptron()
    return model, sgd(model), classes(), F.cross_entropy


def healthy_adam():
    model = perceptron()
    return model, torch.optim.Adam(model.parameters(), lr=1e-2), classes(), F.cross_entropy


def healthy_bfloat16():
    model = perceptron()
    return recipe(model, torch.optim.Adam(model.parameters(), lr=1e-2), autocast="bfloat16")


def healthy_float16():
    model = perceptron()
    scaler = torch.amp.GradScaler("cpu")
    return recipe(model, torch.optim.AdamW(model.parameters(), lr=1e-2), autocast="float16", scaler=scaler, clip=1.0)


HEALTHY = ("healthy_float32", "healthy_adam", "healthy_bfloat16", "healthy_float16")
