"""Bounds of monitored layers: those that name them, by name or by pattern."""

from precreg.tolerance import TRAINING_OUTPUTS, free_monitored_layers, resolve_tolerance, unmatched_outputs
from precreg.tolerance.pyramid import SHIPPED_LAYERS
from precreg.types import Layer, Location

HERE = Location("suites/unit/s.yaml", 3)


def bounds(layers, output):
    tolerance = resolve_tolerance(layers, output, "float32", ("generic",))
    return {bound.metric: bound.limit for bound in tolerance.bounds}


def test_only_bounds_that_name_a_monitored_output_apply_to_it():
    own = Layer("suite", HERE, {"max_abs_error": 1e-6}, output="own.*")
    one = Layer("suite", HERE, {"max_abs_error": 1e-3}, output="own.a")
    general = Layer("case", HERE, {"rtol": 1e-2, "max_abs_error": 0.5})
    layers = free_monitored_layers((*SHIPPED_LAYERS, own, one, general), HERE)
    assert bounds(layers, "out") == {"match_ratio": 1.0, "max_abs_error": 0.5}
    assert bounds(layers, "own.b") == {"max_abs_error": 1e-6}
    assert bounds(layers, "own.a") == {"max_abs_error": 1e-3}
    assert bounds(layers, "layer.a") == {}
    assert free_monitored_layers(layers, HERE) == layers


def test_the_outputs_of_a_training_have_the_bounds_that_name_them():
    lost = Layer("suite", HERE, {"max_abs_error": 0.05}, output="lost.*")
    loss = Layer("suite", HERE, {"rms_error": 0.01}, output="loss")
    general = Layer("case", HERE, {"max_abs_error": 0.5})
    layers = free_monitored_layers((*SHIPPED_LAYERS, lost, loss, general), HERE, TRAINING_OUTPUTS)
    assert bounds(layers, "lost.0.weight") == {"max_abs_error": 0.05}
    assert bounds(layers, "loss") == {"rms_error": 0.01}
    assert [bounds(layers, name) for name in ("underflow.0.weight", "overflow.a", "scale", "skipped")] == [{}] * 4


def test_a_pattern_without_an_output_is_named():
    layers = (Layer("suite", HERE, {}, output="own.*"), Layer("suite", HERE, {}, output="layer.x*"))
    assert [each.output for each in unmatched_outputs(layers, ["out", "own.a", "layer.a"])] == ["layer.x*"]
