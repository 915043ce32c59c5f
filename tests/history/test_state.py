"""What is kept of a case: the metrics of analyzers with their descriptions, and nothing more where there are none."""

import msgspec
from msgspec.structs import replace

from precreg.history.states import CaseState, decode_state, keep_case
from precreg.measure.metrics import metric_named
from precreg.types.metric import MetricDescription
from tests.history.made import result

GAIN = MetricDescription("told.gain", "dB", "gain", "higher", "ours")


def with_gain(value):
    one = result("unit/s/a", 1.0)
    comparison = replace(one.outcome.comparisons[0], metrics={"told.gain": value}, described=(GAIN,))
    return replace(one, outcome=replace(one.outcome, comparisons=(comparison,)))


def test_a_history_keeps_what_analyzers_measure_and_tells_what_it_is():
    text = CaseState.of(keep_case(with_gain(12.0))).text
    found = decode_state(text)
    assert found.outputs["out"]["told.gain"] == (12.0, None)
    assert found.described == (GAIN,)
    assert metric_named("told.gain", found.described).better == "higher"


def test_without_analyzers_states_are_as_they_were_before_there_were_any():
    assert list(msgspec.json.decode(CaseState.of(keep_case(result("unit/s/a", 1.0))).text)) == [
        "definition",
        "reason",
        "outputs",
    ]
