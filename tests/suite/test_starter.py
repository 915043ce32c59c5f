"""The first suite of a project: guesses from what a function says of itself, and bounds from figures."""

import pytest
import yaml

from precreg.subject.inspection import Argument, GraphInput, TargetFacts, TorchLayer
from precreg.suite.starter.guesses import guess_calls, unguessable
from precreg.suite.starter.writing import MARGIN, StarterSuite, first_bounds, render_suite, round_up
from precreg.types import Comparison


def facts(*names, doc="", **others):
    return TargetFacts(arguments=tuple(Argument(name) for name in names), doc=doc, **others)


def first(facts):
    return guess_calls(facts)[0][0]


@pytest.mark.parametrize(
    "doc",
    [
        "x : array of shape (N, D)\nweight : array of shape (D,)",
        "Args:\n    x: an array (N x D).\n    weight: an array (D,).",
        ":param x: shape [n, d]\n:param weight: shape [d]",
        "Parameters\n----------\nx : ndarray\n    Rows, of shape (N, D).\nweight : ndarray\n    Of shape (D,).",
    ],
)
def test_a_docstring_gives_the_shapes(doc):
    guess = first(facts("x", "weight", doc=doc))
    assert guess.source == "docstring"
    assert {name: each.shape for name, each in guess.inputs.items()} == {"x": ("n", "d"), "weight": ("d",)}
    assert guess.varied == "n"
    assert guess.sizes["d"][0] == guess.sizes["d"][1]


def test_words_in_brackets_are_no_shape():
    assert first(facts("x", doc="x : array (optional)")).source == "tried"


@pytest.mark.parametrize(
    ("annotation", "name", "value"),
    [
        ("int", "axis", -1),
        ("float", "eps", 1e-5),
        ("float", "strength", 1.0),
        ("int", "strength", 2),
        ("bool", "keep_it", False),
        ("Literal['same', 'valid']", "mode", "same"),
        ("", "eps", 1e-5),
    ],
)
def test_an_annotation_or_a_name_gives_a_number(annotation, name, value):
    found = TargetFacts(arguments=(Argument("x"), Argument(name, annotation), Argument("far", "float", False, "3.0")))
    guess = first(found)
    assert guess.params == {name: value}
    assert [*guess.inputs] == ["x"], "arguments with a default keep it"


def test_an_array_with_the_name_of_a_number_is_an_array():
    assert [*first(TargetFacts(arguments=(Argument("scale", "np.ndarray"),))).inputs] == ["scale"]


def test_a_documented_shape_makes_an_array_of_the_name_of_a_number():
    guess = first(facts("q", "k", "v", doc="q: (n, d); k: (m, d); v: (m, e)"))
    assert {name: each.shape for name, each in guess.inputs.items()} == {
        "q": ("n", "d"),
        "k": ("m", "d"),
        "v": ("m", "e"),
    }
    assert guess.params == {}


def test_the_last_guesses_take_numbers_by_name_for_arrays():
    rounds = guess_calls(facts("q", "k", "v"))
    assert first(facts("q", "k", "v")).params == {"k": 2}
    assert all([*guess.inputs] == ["q", "k", "v"] and not guess.params for guess in rounds[-1])
    annotated = TargetFacts(arguments=(Argument("x"), Argument("k", "int")))
    assert all(guess.params == {"k": 2} for guesses in guess_calls(annotated) for guess in guesses)


def test_weights_of_an_average_are_positive():
    inputs = first(facts("x", "w")).inputs
    assert [next(iter(each.values)) for each in inputs.values()] == ["normal", "uniform"]


def test_texts_and_functions_cannot_be_guessed():
    given = [Argument("x", "np.ndarray"), Argument("mode", "str"), Argument("f", "collections.abc.Callable[..., int]")]
    assert unguessable(given) == ["mode", "f"]
    assert unguessable([Argument("mode", "str", required=False)]) == []


def test_layers_of_a_module_and_a_graph_give_the_shapes():
    convolution = TorchLayer("Conv2d", {"in_channels": [3]})
    assert first(facts("x", kind="module", layers=(convolution,))).inputs["x"].shape == ("batch", 3, "height", "width")
    words = first(facts("x", kind="module", layers=(TorchLayer("Embedding", {"num_embeddings": [11]}),)))
    assert words.inputs["x"].values == {"integers": {"low": 0, "high": 11}}
    graph = (GraphInput("ids", "int64", ("batch", "sequence.length")), GraphInput("x", "float32", (1, "")))
    guess = first(TargetFacts("onnx", graph=graph))
    assert guess.inputs["ids"].shape == ("batch", "sequence_length")
    assert guess.inputs["x"].dtype == "float32"
    assert not guess.has_dtype


def test_guesses_are_distinct():
    for guesses in guess_calls(facts("x", "weight", "bias")):
        assert len({repr((guess.inputs, guess.sizes, guess.params)) for guess in guesses}) == len(guesses)


@pytest.mark.parametrize(
    ("value", "rounded"), [(1.0, 1.0), (1.01, 2.0), (0.00123, 0.002), (9.1e-7, 1e-6), (3e-30, 3e-30), (450.0, 500.0)]
)
def test_a_bound_is_rounded_up_to_one_digit(value, rounded):
    assert round_up(value) == pytest.approx(rounded, rel=1e-12)
    assert round_up(value) >= value * (1 - 1e-12)


def compared(dtype, **metrics):
    return Comparison("out", 0, dtype, (4,), "float64", (4,), metrics=metrics)


def test_bounds_are_a_multiple_of_the_largest_error():
    figures = [
        compared("float32", max_rel_error=2e-7, max_abs_error=1e-7, max_magnitude=1.0),
        compared("float32", max_rel_error=5e-7, max_abs_error=2e-7, max_magnitude=1.0),
        compared("int64", max_rel_error=0.0, max_abs_error=0.0),
    ]
    bounds = first_bounds(figures)
    assert set(bounds) == {"float32"}, "integers have to be equal"
    rtol, atol = bounds["float32"]
    assert MARGIN * 5e-7 <= rtol <= 2 * MARGIN * 5e-7
    assert 0 < atol < 1e-10


def test_a_large_relative_error_gets_an_absolute_bound():
    """A result near zero: cancellation makes its relative error as large as one likes."""
    rtol, atol = first_bounds([compared("float32", max_rel_error=0.3, max_abs_error=1e-6)])["float32"]
    assert rtol < 1e-6
    assert atol >= MARGIN * 1e-6


def test_a_suite_quotes_what_a_docstring_brings():
    text = 'a: b # {c}\n"d"'
    guess = first(facts("x"))
    suite = StarterSuite("s", text.splitlines()[0], "k:s", guess, ("float32",), reference="k:s", bounds={})
    read = yaml.safe_load(render_suite(suite))
    assert read["about"] == "a: b # {c}"
    assert read["inputs"] == {"x": {"shape": ["$rows", 64], "dtype": "$dtype", "normal": {"mean": 0, "std": 1}}}


def test_a_dimension_and_an_argument_may_have_one_name():
    suite = StarterSuite("s", "", "k:s", first(facts("rows")), ("float32",), reference="k:s")
    read = yaml.safe_load(render_suite(suite))
    assert read["inputs"]["rows"]["shape"] == ["$rows_size", 64]
    assert read["matrix"]["rows_size"] == [48, 5]
