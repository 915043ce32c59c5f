"""Small trainings of a mixer and of a gated recurrent network, run once: no rule and no plant was changed after it."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils import clip_grad_norm_


class Mixer(nn.Module):
    """Mix the patches of an image, then the channels of each patch."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.patches_up, self.patches_down = nn.Linear(6, 12), nn.Linear(12, 6)
        self.channels_up, self.channels_down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.patches_down(F.gelu(self.patches_up(x.transpose(1, 2)))).transpose(1, 2)
        x = x + self.channels_down(F.gelu(self.channels_up(self.norm(x))))
        return self.head(x.mean(1))


class Energies(nn.Module):
    """Divide by the root of a sum of squares; its inputs are some 1000."""

    def forward(self, h):
        h = 1000 * h
        return 4 * h / (h * h).sum(-1, keepdim=True).sqrt()


class Gated(nn.Module):
    """A gated recurrent unit of linear layers, whose last state is read."""

    def __init__(self, readout=None):
        super().__init__()
        self.update, self.reset, self.new = (nn.Linear(6 + 16, 16) for _ in range(3))
        self.readout = readout
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        h = torch.zeros(len(x), 16, dtype=x.dtype)
        for each in x.unbind(1):
            both = torch.cat([each, h.to(each.dtype)], -1)
            update, reset = torch.sigmoid(self.update(both)), torch.sigmoid(self.reset(both))
            new = torch.tanh(self.new(torch.cat([each, (reset * h).to(each.dtype)], -1)))
            h = (1 - update) * h + update * new
        # Under autocast the last state is a sum with the float32 zeros.
        return self.head(h if self.readout is None else self.readout(h.to(self.head(h).dtype)))


def patches(dtype=torch.float32):
    generator = torch.Generator().manual_seed(11)
    shapes = torch.randn(4, 6, 8, generator=generator)
    targets = [torch.randint(0, 4, (16,), generator=generator) for _ in range(10)]
    return [((shapes[each] + 0.5 * torch.randn(16, 6, 8, generator=generator)).to(dtype), each) for each in targets]


def sequences(dtype=torch.float32):
    generator = torch.Generator().manual_seed(13)
    inputs = [torch.randn(16, 7, 6, generator=generator) for _ in range(10)]
    return [(each.to(dtype), each[:, :, :4].sum(1).argmax(-1)) for each in inputs]


def entropy(output, target):
    return F.cross_entropy(output.float(), target)


def tiny(output, target):
    return 1e-7 * F.cross_entropy(output.float(), target)


def summed(output, target):
    return F.cross_entropy(output.float(), target, reduction="sum")


def scaler(scale=2.0**16, **more):
    return torch.amp.GradScaler("cpu", init_scale=scale, **more)


def adam(model, lr=5e-3, **more):
    return torch.optim.Adam(model.parameters(), lr=lr, **more)


def sgd(model, lr):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


def mixed(model, optimizer, **more):
    return {"model": model, "optimizer": optimizer, "data": patches(), "loss": entropy, **more}


def gated(model, optimizer, **more):
    return {"model": model, "optimizer": optimizer, "data": sequences(), "loss": entropy, **more}


def mixer_scale_too_low():
    model = Mixer()
    return mixed(model, adam(model, eps=1e-15), loss=tiny, autocast="float16", scaler=scaler(2.0))


def mixer_scale_too_high():
    model = Mixer()
    return mixed(model, sgd(model, 0.1), autocast="float16", scaler=scaler(2.0**23, backoff_factor=0.93))


def clipping_step(recipe, batch):
    inputs, target = batch
    recipe.optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = entropy(recipe.model(inputs), target)
    recipe.scaler.scale(loss).backward()
    clip_grad_norm_(recipe.model.parameters(), max_norm=1.0)
    recipe.scaler.step(recipe.optimizer)
    recipe.scaler.update()
    return loss.item()


def gated_clipped_before_unscale():
    model = Gated()
    return gated(model, sgd(model, 0.2), scaler=scaler(2.0**12), step=clipping_step)


def gated_lost_updates():
    model = Gated().bfloat16()
    return gated(model, sgd(model, 1e-3), data=sequences(torch.bfloat16))


def mixer_epsilon_below_format():
    model = Mixer().half()
    return mixed(model, adam(model), data=patches(torch.float16))


def gated_narrow_readout():
    model = Gated(Energies())
    return gated(model, adam(model), autocast="float16", scaler=scaler())


def mixer_summed_batch():
    model = Mixer()
    return mixed(model, sgd(model, 0.2), loss=summed)


def gated_narrow_accumulation():
    model = Gated().bfloat16()
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    data = [(inputs[:2], target[:2]) for inputs, target in sequences(torch.bfloat16)[:1]]
    return gated(model, sgd(model, 0.02), data=data, accumulate=800)


# The symptom to find first, the remedy to rank first, and the steps.
FAULTS = {
    "mixer_scale_too_low": ("scale_too_low", "set_scale", 40),
    "mixer_scale_too_high": ("scale_too_high", "set_scale", 40),
    "gated_clipped_before_unscale": ("clipped_before_unscale", "clip_after_unscale", 40),
    "gated_lost_updates": ("lost_updates", "master_weights", 40),
    "mixer_epsilon_below_format": ("epsilon_below_format", "larger_epsilon", 40),
    "gated_narrow_readout": ("narrow_layer", "float32_layers", 40),
    "mixer_summed_batch": ("loss_not_averaged", "average_loss", 40),
    "gated_narrow_accumulation": ("narrow_accumulation", "float32_accumulation", 5),
}


def healthy_mixer():
    return mixed(model := Mixer(), adam(model))


def healthy_mixer_bfloat16():
    return mixed(model := Mixer(), adam(model), autocast="bfloat16")


def healthy_gated():
    return gated(model := Gated(), adam(model))


def healthy_gated_float16():
    return gated(model := Gated(), adam(model), autocast="float16", scaler=scaler(), clip=1.0)


HEALTHY = ("healthy_mixer", "healthy_mixer_bfloat16", "healthy_gated", "healthy_gated_float16")
