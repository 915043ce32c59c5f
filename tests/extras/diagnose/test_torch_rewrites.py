"""Rewrites of torch's operators: a change of a module, and the cause that a search names."""

from time import monotonic

import numpy as np
import pytest
import torch

from precreg.diagnose.bases import hypotheses_of, prepare_base
from precreg.diagnose.search import Base, CauseSearch
from precreg.diagnose.torch import TorchRewriting
from precreg.subject import name_outputs
from tests.diagnose.bases import FOLDER, normal


class Block(torch.nn.Module):
    """A normalization, a product and a softmax, with a place for each planted change."""

    def __init__(self, eps=1e-5, hop=None, scale=8.0, order="divide"):
        super().__init__()
        torch.manual_seed(0)
        self.norm = torch.nn.LayerNorm(48, eps=eps)
        self.query, self.key = torch.nn.Linear(48, 32), torch.nn.Linear(48, 32)
        self.hop, self.scale, self.order = hop, scale, order

    def forward(self, x):
        x = self.norm(x)
        q, k = self.query(x), self.key(x)
        if self.hop is not None:
            k = k.to(self.hop).to(torch.float32)
        scores = q @ k.T
        weights = torch.softmax(scores / self.scale, -1)
        spread = x.abs().mean(-1, keepdim=True)
        if self.order == "multiply":
            return (weights * 0.3) / spread
        return 0.3 * (weights / spread)


def search(good, bad, x):
    def compute(module):
        def run(inputs, params, observer):
            observer.watch_module(module)
            with torch.no_grad():
                return name_outputs(observer.call(module, (torch.from_numpy(inputs["x"].copy()),), {}))

        return run

    with torch.no_grad():
        target = name_outputs(bad(torch.from_numpy(x.copy())))
    base = Base("accepted", TorchRewriting(compute(good)), {"x": x}, {}, FOLDER)
    prepared = prepare_base(base, target)
    return CauseSearch(base, prepared.error, prepared.places, hypotheses_of(prepared), monotonic() + 300).run()


CHANGES = {
    "epsilon": ({"eps": 1e-3}, "other_constant", "self.norm(x)"),
    # A cast between two operators is a cast of the first one's result, and of the second one's operand.
    "cast": ({"hop": torch.float16}, "hop_result", "self.key(x)"),
    "scale": ({"scale": 7.9}, "other_constant", "scores / self.scale"),
    "order": ({"order": "multiply"}, "swapped_order", "0.3 * (weights / spread)"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_module_is_named_with_all_bits(name):
    options, rewrite, expression = CHANGES[name]
    found = search(Block(), Block(**options), normal(20, 48))
    (cause,) = found.causes
    assert (cause.rewrite, cause.place.expression) == (rewrite, expression), cause
    assert cause.evidence.reproduced == cause.evidence.elements
    assert cause.place.site.file == "tests/extras/diagnose/test_torch_rewrites.py"


def test_no_rewrite_changes_the_unaltered_computation():
    module, x = Block(), normal(20, 48)
    with torch.no_grad():
        plain = module(torch.from_numpy(x)).numpy()

    def run(inputs, params, observer):
        with torch.no_grad():
            return name_outputs(observer.call(module, (torch.from_numpy(inputs["x"]),), {}))

    outputs, places = TorchRewriting(run).record({"x": x}, {})
    assert np.array_equal(outputs["out"], plain)
    assert len(places) > 8


def test_layers_of_torch_alone_have_places_by_their_names():
    module = torch.nn.Sequential(torch.nn.Linear(48, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))

    def run(inputs, params, observer):
        observer.watch_module(module)
        with torch.no_grad():
            return name_outputs(observer.call(module, (torch.from_numpy(inputs["x"]),), {}))

    _, places = TorchRewriting(run).record({"x": normal(5, 48)}, {})
    modules = [place.module for place in places.values()]
    assert modules == ["0", "1", "2"]
