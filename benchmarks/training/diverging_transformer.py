"""A small transformer in torch whose runs part: by another order of the same operations, or by lost precision.

No threshold of `precreg divergence` was chosen with it. Its activation is smooth, its optimizer keeps moments, and its
layers are normalized: the networks of suites/networks/diverging_trainings.py are otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS, LENGTH, BATCH, WIDTH, HEADS = 16, 12, 16, 32, 2
# The loss times this is as small as those of a large vocabulary and a large batch.
SHRINK = 2.0**-14


@dataclass(frozen=True)
class Changes:
    """The settings in which two runs may differ. The first five only change the order of the same operations."""

    reverse: bool = False  # the sums of linear layers, from the last input to the first
    fused: bool = False  # the attention of torch in place of the written one
    swapped: bool = False  # the last multiplication and division of Adam
    halves: bool = False  # the gradients of both halves of a batch, added
    nudge: int = 0  # the seed of last-bit changes to the initial weights
    scale: float = 0.0  # of float16 gradients; 0 keeps float32
    bfloat16_weights: bool = False
    bfloat16_norms: bool = False  # the gradients of the norms alone
    truncate: bool = False  # the last bit of half of the weights, after each step
    fault_at: int = 0  # the step from which the gradients of the last layer are 0.1 % too large


class Linear(nn.Linear):
    """A linear layer that adds its terms from the first input or from the last one."""

    reverse = False

    def forward(self, x: Tensor) -> Tensor:
        """Return the product in the chosen order."""
        if self.reverse:
            return functional.linear(x.flip(-1), self.weight.flip(-1), self.bias)
        return functional.linear(x, self.weight, self.bias)


class Block(nn.Module):
    """Attention and two linear layers, each after a norm."""

    def __init__(self, *, fused: bool, attention_bias: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.into, self.out = Linear(WIDTH, 3 * WIDTH, bias=attention_bias), Linear(WIDTH, WIDTH)
        self.up, self.down = Linear(WIDTH, 2 * WIDTH), Linear(2 * WIDTH, WIDTH)
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        """Return the input with what both parts add to it."""
        parts = self.into(self.norms[0](x)).view(*x.shape[:2], 3, HEADS, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if self.fused:
            seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
            future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
            seen = scores.masked_fill(future, -torch.inf).softmax(-1) @ value
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Adam(torch.optim.Optimizer):
    """Adam with its last step in either order: rate * (m / root), or (rate * m) / root."""

    def __init__(self, parameters: Any, lr: float, *, swapped: bool) -> None:
        super().__init__(parameters, {"lr": lr})
        self.swapped = swapped

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update all weights."""
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            if not state:
                state.update(step=0, m=torch.zeros_like(parameter), v=torch.zeros_like(parameter))
            state["step"] += 1
            m = state["m"].mul_(0.9).add_(parameter.grad, alpha=0.1)
            v = state["v"].mul_(0.999).addcmul_(parameter.grad, parameter.grad, value=0.001)
            age = state["step"]
            rate = self.param_groups[0]["lr"] * (1 - 0.999**age) ** 0.5 / (1 - 0.9**age)
            root = v.sqrt() + 1e-8
            parameter -= rate * m / root if self.swapped else rate * (m / root)


class Network(nn.Module):
    """Words in, scores of the next words out."""

    def __init__(self, changes: Changes, *, attention_bias: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        made = [Block(fused=changes.fused, attention_bias=attention_bias) for _ in range(2)]
        self.blocks = nn.Sequential(*made)
        self.norm, self.head = nn.LayerNorm(WIDTH), Linear(WIDTH, WORDS)
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reverse = changes.reverse

    def forward(self, x: Tensor) -> Tensor:
        """Return scores by place and word."""
        return self.head(self.norm(self.blocks(self.words(x) + self.places)))


def train(
    *, seed: int = 0, lr: float = 3e-3, autocast: str | None = None, attention_bias: bool = True, **settings: Any
) -> dict[str, Any]:
    """Return a training on texts whose next word follows from the last two; one in eight words is random.

    The exact gradient of a bias of keys is zero, because softmax ignores a constant. Adam divides its rounding noise by
    the size of the noise, so such a bias takes steps as large as those of other weights. Without `attention_bias` no
    weight does.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    known = {field.name for field in fields(Changes)}
    if unknown := settings.keys() - known:
        raise ValueError(f"expected settings of {sorted(known)} but got {sorted(unknown)}")
    changes = Changes(**settings)
    model = Network(changes, attention_bias=attention_bias)
    data = [batch() for _ in range(8)]
    with torch.no_grad():
        # Numbers of bfloat16 in every run, so that no run of a pair starts elsewhere.
        for weight in model.parameters():
            weight.copy_(weight.bfloat16().float())
        if changes.nudge:
            nudge_weights(model, changes.nudge)
    optimizer = Adam(model.parameters(), lr, swapped=changes.swapped)
    made = {"model": model, "optimizer": optimizer, "data": data, "loss": cross_entropy, "autocast": autocast}
    return made | {"step": Stepper(changes)}


def batch() -> tuple[Tensor, Tensor]:
    """Draw texts, and the same texts one word further."""
    text = torch.randint(WORDS, (BATCH, LENGTH + 1))
    for place in range(2, LENGTH + 1):
        follows = (3 * text[:, place - 1] + text[:, place - 2]) % WORDS
        text[:, place] = torch.where(torch.rand(BATCH) < 1 / 8, text[:, place], follows)
    return text[:, :-1], text[:, 1:]


def cross_entropy(scores: Tensor, target: Tensor) -> Tensor:
    """Return the mean over all places."""
    return functional.cross_entropy(scores.float().flatten(0, 1), target.flatten())


def nudge_weights(model: nn.Module, seed: int) -> None:
    """Move one in a hundred weights to its next number."""
    draws = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        chosen = torch.rand(weight.shape, generator=draws) < 0.01
        weight.copy_(torch.where(chosen, torch.nextafter(weight, torch.tensor(torch.inf)), weight))


class Stepper:
    """Run the steps of a training with its changes."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.age = 0

    def __call__(self, recipe: Any, taken: tuple[Tensor, Tensor]) -> float:
        """Run one step, and return its loss."""
        self.age += 1
        recipe.optimizer.zero_grad()
        halves = [each.chunk(2) for each in taken] if self.changes.halves else [(each,) for each in taken]
        total = 0.0
        for x, target in zip(*halves, strict=True):
            kind = torch.bfloat16 if recipe.autocast == "bfloat16" else None
            with torch.autocast("cpu", kind, enabled=kind is not None):
                scores = recipe.model(x)
            loss = recipe.loss(scores, target) / len(halves[0])
            loss.backward()
            total += float(loss.detach())
        with torch.no_grad():
            self.change_gradients(recipe.model)
            recipe.optimizer.step()
            self.change_weights(recipe.model)
        return total

    def change_gradients(self, model: nn.Module) -> None:
        """Round gradients, or plant the fault."""
        changes = self.changes
        for name, weight in model.named_parameters():
            if changes.scale:
                factor = SHRINK * changes.scale
                weight.grad = (weight.grad * factor).half().float() / factor
            if changes.bfloat16_norms and "norm" in name:
                weight.grad = weight.grad.bfloat16().float()
            if changes.fault_at and self.age >= changes.fault_at and name.startswith("head"):
                # Adam divides a constant factor away; the moments from before the fault keep this one.
                weight.grad = weight.grad * 1.001

    def change_weights(self, model: nn.Module) -> None:
        """Round or truncate the weights after the update."""
        draws = torch.Generator().manual_seed(self.age)
        for weight in model.parameters():
            if self.changes.bfloat16_weights:
                weight.copy_(weight.bfloat16().float())
            if self.changes.truncate:
                chosen = torch.rand(weight.shape, generator=draws) < 0.5
                weight.copy_(torch.where(chosen, torch.nextafter(weight, torch.zeros(())), weight))
