"""What is kept of a case: the metrics of analyzers with their descriptions, and nothing more where there are none."""

import msgspec
from msgspec.structs import replace

from precreg.history.state import State, decoded, kept
from precreg.measure.metrics import described
from precreg.types.metric import Metric, learn
from tests.history.made import result

GAIN = Metric("told.gain", "dB", "gain", "higher", "ours")


def with_gain(value):
    one = result("unit/s/a", 1.0)
    comparison = replace(one.outcome.comparisons[0], metrics={"told.gain": value}, described=(GAIN,))
    return replace(one, outcome=replace(one.outcome, comparisons=(comparison,)))


def test_a_history_keeps_what_analyzers_measure_and_tells_what_it_is():
    text = State.of(kept(with_gain(12.0))).text
    learn([GAIN._replace(better="lower")])
    found = decoded(text)
    assert found.outputs["out"]["told.gain"] == (12.0, None)
    assert found.described == (GAIN,)
    assert described("told.gain").better == "higher"


def test_without_analyzers_states_are_as_they_were_before_there_were_any():
    assert list(msgspec.json.decode(State.of(kept(result("unit/s/a", 1.0))).text)) == [
        "definition",
        "reason",
        "outputs",
    ]
