"""Stored tensors beside the values of a trace: names, errors, and the first that is not explained."""

import numpy as np
import pytest

from precreg.shadow.dumps import DumpReader, StoredTensor, layer_names

EXACT = np.random.default_rng(0).standard_normal((64, 64))
HERE = EXACT.astype(np.float32)


def read(stored, taken):
    """Return the comparison of stored arrays with values (names, actual, shadow)."""
    tensors = {name: StoredTensor(f"dumps/{name}.npy", lambda array=array: array) for name, array in stored.items()}
    reader = DumpReader("dumps", tensors)
    for names, actual, shadow in taken:
        reader.take(names, lambda actual=actual, shadow=shadow: (actual, shadow))
    return reader.finish()


def first_unexplained(layers):
    return next((layer for layer in layers if layer.unexplained), None)


def test_the_first_layer_with_an_error_that_this_run_does_not_have_is_named():
    wrong = (EXACT * (1 + 1e-4 * np.sin(np.arange(64)))).astype(np.float32)
    found = read(
        {"layers.0": HERE, "layers.1": wrong, "layers.2": wrong},
        [([f"layers.{layer}"], HERE, EXACT) for layer in range(3)],
    )
    assert [(layer.name, layer.unexplained) for layer in found.layers] == [
        ("layers.0", False),
        ("layers.1", True),
        ("layers.2", True),
    ]
    assert first_unexplained(found.layers).name == "layers.1"
    assert found.layers[1].dumped.relative == pytest.approx(7e-5, rel=0.1)
    assert found.layers[1].here.relative < 4e-8


def test_another_order_of_additions_is_explained():
    """Two sums of float32 in two orders, against float64: random data of eight shapes."""
    for size in (64, 512, 4096):
        terms = np.random.default_rng(size).standard_normal((32, size)).astype(np.float32)
        exact = terms.astype(np.float64).sum(-1)
        one = np.add.accumulate(terms, axis=-1)[:, -1]
        other = np.add.accumulate(terms[:, ::-1], axis=-1)[:, -1]
        assert first_unexplained(read({"sum": one}, [(["sum"], other, exact)]).layers) is None


def test_a_dump_in_a_coarser_dtype_has_the_rounding_of_that_dtype():
    found = read({"layers.0": EXACT.astype(np.float16)}, [(["layers.0"], HERE, EXACT)])
    assert first_unexplained(found.layers) is None


def test_a_dump_with_nan_is_not_explained():
    broken = HERE.copy()
    broken[3, 4] = np.nan
    assert first_unexplained(read({"x": broken}, [(["x"], HERE, EXACT)]).layers).name == "x"


def test_names_without_a_counterpart_and_other_shapes_are_counted():
    found = read(
        {"a": HERE, "b": HERE[:3], "c": HERE, "e": HERE},
        [(["a"], HERE, EXACT), (["b"], HERE, EXACT), (["d"], HERE, EXACT), (["e"], HERE, None)],
    )
    assert [layer.name for layer in found.layers] == ["a"]
    assert (found.only_dumped, found.only_traced, found.other_shapes) == (("c",), ("d",), ("b", "e"))


def test_a_dump_may_have_another_shape_of_the_same_size():
    assert len(read({"a": HERE.reshape(-1)}, [(["a"], HERE, EXACT)]).layers) == 1


@pytest.mark.parametrize(
    ("stored", "names"),
    [
        ("layers/3/norm", layer_names("layers.3.norm", 0, "out", 0)),
        ("layers.3.norm", layer_names("layers.3.norm", 0, "out", 0)),
        ("layers.3.norm.1", layer_names("layers.3.norm", 1, "out", 0)),
        ("layers.3.norm.hidden", layer_names("layers.3.norm", 0, "hidden", 1)),
        ("Module.layers.3.norm.LayerNorm.forward.0.output.0", layer_names("layers.3.norm", 0, "out", 0)),
        ("step0/rank/dump.json:Module.fc.Linear.forward.2.output.1", layer_names("fc", 2, "1", 1)),
    ],
)
def test_the_names_of_layers_in_dumps(stored, names):
    assert len(read({stored: HERE}, [(names, HERE, EXACT)]).layers) == 1


def test_a_second_call_of_a_layer_does_not_take_the_dump_of_the_first():
    taken = [(layer_names("fc", call, "out", 0), HERE * (call + 1), EXACT) for call in range(2)]
    (layer,) = read({"fc": HERE}, taken).layers
    assert layer.here.relative < 1e-6
