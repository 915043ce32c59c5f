"""Do both methods of `precreg quantization --sensitivity` rank two planted fragile layers first and second?

Three networks of suites/networks: a ResNet-50, a BERT encoder and a GPT decoder. Each gets two fragile layers that int8
weights (a scale for each channel) and int8 activations (one scale) cost most of their bits:

- weights: a channel of the layer's inputs is always zero, and its weights are 64 times the largest other weight. The
  float network does not use them, and the scale of each channel has to hold them.
- activations: one channel of the layer's inputs is 64 times larger, and its weights are 64 times smaller. The float
  network is the same, and the one scale of the inputs has to hold the channel.

Prints the ranks by first order and alone, Spearman's coefficient, and the largest difference between the figures of
single layers and a direct computation: a copy of the network with the planted layer's weights and inputs replaced.

python benchmarks/quantization/fragile.py [resnet|bert|gpt ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2] / "suites"))

from networks.bert import bert
from networks.gpt import gpt
from networks.resnet import resnet50
from networks.scores import WORDS, zipf_tokens

from precreg.quantization import make_quantizer, spearman
from precreg.quantization.torch import estimate_first_order, simulate_module

FACTOR = 64.0
IMAGES, SIDE = 16, 32
TEXTS, PLACES = 16, 24


class Network(NamedTuple):
    """Hold a network with planted layers, their names, and batches of inputs."""

    module: nn.Module
    fragile: tuple[str, str]
    batches: list[Any]


class Decoder(nn.Module):
    """The decoder's logits of a text read at once."""

    def __init__(self) -> None:
        super().__init__()
        self.net = gpt()

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the logits (texts, places, vocabulary)."""
        return self.net.logits(zipf_tokens(words, self.net.tokens.num_embeddings))[0]


@torch.no_grad()
def resnet() -> Network:
    """Return a ResNet-50 whose layer2.1.conv2 and layer3.2.conv3 are fragile."""
    net = resnet50()
    block = net.layer2[1]
    # The norm before this ReLU gives the channel no value above zero.
    block.bn1.weight[5], block.bn1.bias[5] = 0.0, -1.0
    block.conv2.weight[:, 5] = FACTOR * block.conv2.weight.abs().max()
    block = net.layer3[2]
    block.bn2.weight[7] *= FACTOR
    block.bn2.bias[7] *= FACTOR
    block.conv3.weight[:, 7] /= FACTOR
    generator = torch.Generator().manual_seed(0)
    return Network(net, ("layer2.1.conv2", "layer3.2.conv3"), [torch.randn(IMAGES, 3, SIDE, SIDE, generator=generator)])


@torch.no_grad()
def plant_transformer(blocks: Any) -> None:
    """Make the last layer of the second block and the attention's result of the third block fragile."""
    # gelu(-30) is zero.
    blocks[1].up.weight[9] = 0.0
    blocks[1].up.bias[9] = -30.0
    blocks[1].down.weight[:, 9] = FACTOR * blocks[1].down.weight.abs().max()
    attention = blocks[2].attention
    attention.value.weight[11] *= FACTOR
    attention.value.bias[11] *= FACTOR
    attention.output.weight[:, 11] /= FACTOR


def encoder() -> Network:
    """Return a BERT encoder with two fragile layers."""
    net = bert()
    plant_transformer(net.blocks)
    words, lengths = random_words(), torch.full((TEXTS,), PLACES)
    return Network(net, ("blocks.1.down", "blocks.2.attention.output"), [(words, lengths)])


def decoder() -> Network:
    """Return a GPT decoder with two fragile layers."""
    net = Decoder()
    plant_transformer(net.net.blocks)
    return Network(net, ("net.blocks.1.down", "net.blocks.2.attention.output"), [random_words()])


def random_words() -> torch.Tensor:
    """Return random words (texts, places), which networks.scores turns into tokens."""
    generator = np.random.default_rng(0)
    return torch.from_numpy(generator.integers(0, WORDS, (TEXTS, PLACES), dtype=np.int64))


NETWORKS: dict[str, Callable[[], Network]] = {"resnet": resnet, "bert": encoder, "gpt": decoder}


def relative(exact: Any, changed: Any) -> float:
    """Return the norm of the differences over the norm of the exact results."""
    return float(np.linalg.norm(changed - exact) / np.linalg.norm(exact))


def direct_error(network: Network, name: str) -> float:
    """Return the error with one layer quantized by plain torch: no code of precreg."""
    exact = results(network.module, network.batches)
    copy = deepcopy(network.module)
    layer = copy.get_submodule(name)
    seen: list[torch.Tensor] = []
    handle = layer.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    results(copy, network.batches)
    handle.remove()
    scale = torch.stack([each.abs().max() for each in seen]).max() / 127
    wide = layer.weight.double()
    scales = (wide.abs().flatten(1).amax(1) / 127).float().double().reshape(-1, *[1] * (wide.ndim - 1))
    layer.weight.data = (torch.round(wide / scales).clamp(-128, 127) * scales).float()

    def quantize(module: nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        x = given[0].double()
        return ((torch.round(x / scale.double()).clamp(-128, 127) * scale.double()).float(), *given[1:])

    layer.register_forward_pre_hook(quantize)
    return relative(exact, results(copy, network.batches))


@torch.no_grad()
def results(module: nn.Module, batches: list[Any]) -> Any:
    """Return the logits of all batches in float64."""
    found = [module(*each) if isinstance(each, tuple) else module(each) for each in batches]
    logits = [each["logits"] if isinstance(each, dict) else each for each in found]
    return np.concatenate([each.double().numpy() for each in logits])


def report(name: str) -> Iterator[str]:
    """Yield the lines of one network."""
    network = NETWORKS[name]()
    weights, inputs = make_quantizer("int8", granularity="channel"), make_quantizer("int8")
    start = time.perf_counter()
    model = simulate_module(network.module, network.batches, network.batches, weights, inputs, details=False)
    first = estimate_first_order(model)
    halfway = time.perf_counter()
    exact = np.concatenate(model.run(frozenset(), frozenset()).outputs)
    alone = {}
    for layer in model.layers:
        names = frozenset([layer.name])
        alone[layer.name] = relative(exact, np.concatenate(model.run(names, names).outputs))
    end = time.perf_counter()
    # The encoder's head for words has no part in the logits of texts.
    unused = [each for each in alone if each not in first]
    assert not any(alone[each] for each in unused)
    layers = [each for each in alone if each in first]
    coefficient = spearman([first[each] for each in layers], [alone[each] for each in layers])
    yield f"{name}: {len(layers)} layers ({len(unused)} without effect left out), Spearman first order to alone {coefficient:.3f}"
    yield f"  first order {halfway - start:.1f} s with the simulation's making, one layer at a time {end - halfway:.1f} s"
    for each in sorted(layers, key=lambda layer: -alone[layer])[:4]:
        ranks = [
            sorted(found.values(), reverse=True).index(found[each]) + 1
            for found in (first, {at: alone[at] for at in layers})
        ]
        planted = "planted" if each in network.fragile else ""
        yield f"  {each:28} first order {first[each]:.4g} ({ranks[0]})  alone {alone[each]:.4g} ({ranks[1]})  {planted}"
    for found, method in ((first, "first order"), (alone, "alone")):
        top = sorted(layers, key=lambda layer, found=found: -found[layer])[:2]
        yield f"  planted layers first and second by {method}: {set(top) == set(network.fragile)}"
    checked = [*network.fragile, layers[0], layers[-1]]
    differences = [abs(direct_error(network, each) / alone[each] - 1) for each in checked]
    yield f"  largest relative difference to a direct computation, {len(checked)} layers: {max(differences):.2g}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen in sys.argv[1:] or NETWORKS:
        for line in report(chosen):
            print(line, flush=True)
