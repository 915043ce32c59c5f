from typing import NamedTuple

import pytest
import torch

from precreg.shadow.recorder import Detail, Recorder
from precreg.shadow.torch import TorchEngine


class Traced(NamedTuple):
    """The result of a traced call, its records and its engine."""

    result: object
    recorder: Recorder
    engine: TorchEngine

    @property
    def operations(self):
        return self.recorder.operations

    def named(self, name):
        return [each for each in self.operations if each.name == name]

    def events(self, kind):
        return [each for each in self.recorder.events if each.kind == kind]

    def twin(self, tensor):
        return self.engine.twins.of(tensor)


@pytest.fixture
def trace():
    """Call a function under the engine."""

    def call(function, *inputs, module=None, detail=Detail.OWN):
        recorder = Recorder(detail)
        engine = TorchEngine(recorder, module)
        with engine:
            result = function(*inputs)
        return Traced(result, recorder, engine)

    return call


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def draw():
    """Return normal numbers of a seed, in a dtype."""

    def normal(*shape, dtype=torch.float32, seed=1):
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)

    return normal


def relative(actual, expected):
    """Return the relative difference of two tensors in float64."""
    return float((actual - expected).norm() / expected.norm())
