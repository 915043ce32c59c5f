"""Options of a trace reach both engines, and values that pass from one front end to the other are named."""

import numpy as np
import pytest
import torch

from precreg.shadow.engines import RunningEngines
from precreg.shadow.recorder import Recorder


@pytest.mark.parametrize("shares", [True, False])
def test_no_engine_keeps_a_tape_without_shares(shares):
    with RunningEngines(Recorder(), shares=shares) as engines:
        result = {"a": np.tanh(engines.wrap(np.float32([0.1, 0.3]))), "t": torch.tensor([0.1, 0.3]).tanh()}
        sums = engines.shares(result)
    assert sums == (pytest.approx({"a": 1, "t": 1}, abs=0.01) if shares else {})
    tapes = [engine.tape if hasattr(engine, "tape") else engine._mode.tape for engine in engines._engines]
    assert [tape is not None for tape in tapes] == [shares, shares]
