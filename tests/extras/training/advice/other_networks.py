"""Small trainings of a transformer and of a convolutional network. The rules were chosen on others.

One rule came from these: a symptom that only bfloat16 removes comes after an equal one (convolutional_narrow_pool)."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils import clip_grad_norm_


class Scale(nn.Module):
    """A root mean square norm of large values."""

    def forward(self, x):
        x = 3000 * x
        return x / (x * x).mean(-1, keepdim=True).sqrt()


class Transformer(nn.Module):
    def __init__(self, norm=None):
        super().__init__()
        self.embed = nn.Embedding(12, 32)
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.norm = nn.LayerNorm(32) if norm is None else norm
        self.up, self.down, self.head = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 12)

    def forward(self, words):
        x = self.embed(words)
        h = self.norm(x.half() if isinstance(self.norm, Scale) else x)
        scores = self.query(h) @ self.key(h).transpose(1, 2) / 32**0.5
        x = x + torch.softmax(scores, -1) @ self.value(h)
        return self.head(x + self.down(F.gelu(self.up(x)))).transpose(1, 2)


def words():
    generator = torch.Generator().manual_seed(3)
    found = [torch.randint(0, 12, (16, 8), generator=generator) for _ in range(12)]
    return [(each, (each + each.roll(1, 1)) % 12) for each in found]


def entropy(output, target):
    return F.cross_entropy(output.float(), target)


def language(model, optimizer, **more):
    return {"model": model, "optimizer": optimizer, "data": words(), "loss": entropy, **more}


def adam(model, lr=3e-3, **more):
    return torch.optim.Adam(model.parameters(), lr=lr, **more)


def small(output, target):
    return 3e-7 * F.cross_entropy(output.float(), target)


def transformer_scale_too_low():
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    return language(model := Transformer(), adam(model, eps=1e-14), loss=small, autocast="float16", scaler=scaler)


def step(recipe, batch):
    inputs, target = batch
    recipe.optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = entropy(recipe.model(inputs), target)
    recipe.scaler.scale(loss).backward()
    clip_grad_norm_(recipe.model.parameters(), max_norm=0.5)
    recipe.scaler.step(recipe.optimizer)
    recipe.scaler.update()
    return loss.item()


def transformer_clipped_before_unscale():
    model = Transformer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    return language(model, optimizer, scaler=torch.amp.GradScaler("cpu", init_scale=2.0**13), step=step)


def transformer_epsilon_below_format():
    return language(model := Transformer().half(), adam(model))


def transformer_lost_updates():
    model = Transformer().bfloat16()
    return language(model, torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9))


def transformer_narrow_norm():
    model = Transformer(Scale())
    return language(model, adam(model), autocast="float16", scaler=torch.amp.GradScaler("cpu"))


class Pool(nn.Module):
    """The energy of each channel."""

    def forward(self, x):
        return (x * x).sum((2, 3)).sqrt() / 1000


class Convolutional(nn.Module):
    def __init__(self, gain=1.0, pool=None):
        super().__init__()
        self.gain = gain
        self.first, self.norm = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3)
        self.pool = pool or nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        h = torch.relu(self.norm(self.first(x)))
        return self.head(self.pool(self.gain * torch.relu(self.second(h))))


def images(dtype=torch.float32):
    generator = torch.Generator().manual_seed(7)
    shapes = torch.randn(4, 1, 8, 8, generator=generator)
    targets = [torch.randint(0, 4, (16,), generator=generator) for _ in range(12)]
    return [((shapes[each] + 0.3 * torch.randn(16, 1, 8, 8, generator=generator)).to(dtype), each) for each in targets]


def picture(model, lr, **more):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    return {"model": model, "optimizer": optimizer, "data": images(), "loss": entropy, **more}


def convolutional_scale_too_high():
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22, backoff_factor=0.95)
    return picture(Convolutional(), 0.1, autocast="float16", scaler=scaler)


def convolutional_lost_updates():
    return picture(Convolutional().bfloat16(), 5e-4, data=images(torch.bfloat16))


def convolutional_narrow_pool():
    return picture(
        Convolutional(gain=5000.0, pool=Pool()), 0.01, autocast="float16", scaler=torch.amp.GradScaler("cpu")
    )


def summed(output, target):
    return F.cross_entropy(output, target, reduction="sum")


def convolutional_summed_batch():
    return picture(Convolutional(), 0.2, loss=summed)


def convolutional_narrow_accumulation():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 4)).bfloat16()
    nn.init.zeros_(model[1].weight)
    nn.init.zeros_(model[1].bias)
    data = [(inputs[:2], target[:2]) for inputs, target in images(torch.bfloat16)[:1]]
    return picture(model, 0.01, data=data, accumulate=1500)


FAULTS = {
    "transformer_scale_too_low": ("scale_too_low", "set_scale", 40),
    "transformer_clipped_before_unscale": ("clipped_before_unscale", "clip_after_unscale", 40),
    "transformer_epsilon_below_format": ("epsilon_below_format", "larger_epsilon", 40),
    "transformer_lost_updates": ("lost_updates", "master_weights", 40),
    "transformer_narrow_norm": ("narrow_layer", "float32_layers", 40),
    "convolutional_scale_too_high": ("scale_too_high", "set_scale", 40),
    "convolutional_lost_updates": ("lost_updates", "master_weights", 40),
    "convolutional_narrow_pool": ("narrow_layer", "float32_layers", 40),
    "convolutional_summed_batch": ("loss_not_averaged", "average_loss", 40),
    "convolutional_narrow_accumulation": ("narrow_accumulation", "float32_accumulation", 5),
}


def healthy_transformer():
    model = Transformer()
    return model, adam(model), words(), entropy


def healthy_transformer_bfloat16():
    return language(model := Transformer(), adam(model), autocast="bfloat16")


def healthy_transformer_float16():
    scaler = torch.amp.GradScaler("cpu")
    return language(model := Transformer(), adam(model), autocast="float16", scaler=scaler, clip=1.0)


def healthy_convolutional():
    return picture(Convolutional(), 0.1)


def healthy_convolutional_float16():
    return picture(Convolutional(), 0.1, autocast="float16", scaler=torch.amp.GradScaler("cpu", init_scale=2.0**14))


def healthy_convolutional_sum():
    return picture(Convolutional(), 0.1 / 16, loss=summed)


HEALTHY = (
    "healthy_transformer",
    "healthy_transformer_bfloat16",
    "healthy_transformer_float16",
    "healthy_convolutional",
    "healthy_convolutional_float16",
    "healthy_convolutional_sum",
)
