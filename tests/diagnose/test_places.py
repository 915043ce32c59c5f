"""Places: each operation of the source has one key, in a loop, in an expression and inside numpy."""

import numpy as np

from precreg.arithmetic.devices import NumpyArithmetic, simulate_array
from precreg.diagnose.places import PlacedLayer, PlaceRecorder, expression_at
from precreg.diagnose.rewrites.alterations import scaled_result
from precreg.diagnose.rewrites.hypothesis import AlteredOperation
from tests.diagnose.bases import normal


def recorded(function, **inputs):
    recorder = PlaceRecorder(NumpyArithmetic())
    result = function(**{name: simulate_array(array, recorder) for name, array in inputs.items()})
    return np.asarray(result), list(recorder.places.values())


def chain(x, y):
    return (x * y) / (x + y) * y


def test_each_operator_of_an_expression_has_a_place_of_its_own():
    _, places = recorded(chain, x=normal(5), y=normal(5, seed=1))
    assert [(place.key.name, expression_at(place.key)) for place in places] == [
        ("multiply", "x * y"),
        ("add", "x + y"),
        ("divide", "(x * y) / (x + y)"),
        ("multiply", "(x * y) / (x + y) * y"),
    ]


def loop(x):
    total = x[0]
    for row in x[1:]:
        total = total + row
    return total


def test_a_loop_executes_one_place_many_times():
    _, (place,) = recorded(loop, x=normal(7, 3))
    assert (place.key.name, place.executions) == ("add", 6)


def variance(x):
    return np.var(x, axis=0) + np.var(x, axis=0)


def test_operations_inside_numpy_have_places_by_the_lines_of_numpy():
    _, places = recorded(variance, x=normal(7, 3))
    names = [place.key.name for place in places]
    assert names.count("subtract") == 2
    assert len({place.key for place in places}) == len(places)
    assert {expression_at(place.key) for place in places if place.key.name == "subtract"} == {"np.var(x, axis=0)"}


def test_a_name_with_letters_of_several_bytes_does_not_shift_the_expression():
    def greek(α, β):
        return "αβγ" and α * β + α

    _, places = recorded(greek, α=normal(3), β=normal(3))
    assert [expression_at(place.key) for place in places] == ["α * β", "α * β + α"]


def test_an_expression_on_several_lines_is_shown_on_one():
    def wrapped(x):
        return np.add(
            x,
            x,
        )

    _, (place,) = recorded(wrapped, x=normal(3))
    assert expression_at(place.key) == "np.add( x, x, )"


def test_a_layer_alters_the_operations_of_its_places_alone():
    x, y = normal(50), normal(50, seed=1)
    _, places = recorded(chain, x=x, y=y)

    def doubled(inner):
        return AlteredOperation(inner, lambda executed: scaled_result(executed, factor=2.0))

    for place, expected in zip(places, (2, 1 / 2, 2, 2), strict=True):
        layer = PlacedLayer(NumpyArithmetic(), doubled, frozenset({place.key}))
        altered = chain(simulate_array(x, layer), simulate_array(y, layer))
        # Powers of two are exact, so the product with them is.
        assert (np.asarray(altered) == expected * chain(x, y)).all()


def test_scalars_dtypes_and_casts_are_noted():
    def mixed(x):
        return (x * 0.5).astype(np.float16)

    _, (product, cast) = recorded(mixed, x=normal(4))
    assert product.scalars == {1: 0.5}
    assert product.operands == {0: np.dtype(np.float32)}
    assert (cast.key.name, cast.function) == ("astype(float16)", None)
