"""Checks of hand-written tests as cases: what they are called, what defines them, what is measured."""

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.pytest_plugin.test_cases import (
    TEST_DEFINITION,
    PrecisionCheck,
    SeedResults,
    case_of_check,
    input_arrays,
    measure_check,
    require_valid_check,
    role_of,
    seed_results,
    tolerance_settings,
)
from precreg.suite.expand import DEFINITION_VERSION
from precreg.tolerance.layers import read_layers
from precreg.tolerance.pyramid import SHIPPED_LAYERS
from precreg.types.case import Location
from precreg.types.record import is_test_defined

HERE = Location("tests/ops/test_sum.py", 12)
CHECK = PrecisionCheck("tests/ops/test_sum", "TestWide.test_sum[float16]", HERE, "reference")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def slug(call, *arguments):
    with pytest.raises(UserError) as raised:
        call(*arguments)
    assert (raised.value.file, raised.value.line) == (HERE.file, HERE.line)
    return raised.value.slug


def definition(check, **inputs):
    return case_of_check(check, inputs, SHIPPED_LAYERS).definition


def test_a_check_is_called_after_its_test():
    assert CHECK.id == "unit/tests.ops.test_sum/TestWide.test_sum[float16]"
    named = replace(CHECK, tier="model", name="mean")
    assert named.id == "model/tests.ops.test_sum/TestWide.test_sum[float16]-mean"
    case = case_of_check(named, {}, SHIPPED_LAYERS)
    assert (case.id, case.baseline_id, case.suite) == (named.id, named.id, "tests.ops.test_sum")


@pytest.mark.parametrize(
    ("module", "suite"),
    [
        ("test_a", "test_a"),
        ("tests/my tests/t-1", "tests.my+20tests.t-1"),
        ("../t", "+2e+2e.t"),
        ("tests.my/t+2e", "tests+2emy.t+2b2e"),
        ("-t", "+2dt"),
        (".hidden/t", "+2ehidden.t"),
    ],
)
def test_any_path_of_a_test_makes_the_name_of_a_file(module, suite):
    assert replace(CHECK, module=module).suite == suite


def test_what_defines_a_check_is_its_id_its_role_and_its_inputs_but_not_their_bits():
    known = definition(CHECK, x=X)
    assert known.startswith(f"{TEST_DEFINITION}:")
    assert is_test_defined(known)
    assert not is_test_defined(f"{DEFINITION_VERSION}:0")
    assert definition(replace(CHECK, category="c", exact=True, source=Location("elsewhere")), x=X + 1) == known
    others = [
        definition(CHECK),
        definition(CHECK, y=X),
        definition(CHECK, x=X.T),
        definition(CHECK, x=X.astype(np.float64)),
        definition(replace(CHECK, role="golden"), x=X),
        definition(replace(CHECK, name="n"), x=X),
    ]
    assert len({known, *others}) == 7


def test_the_order_of_inputs_defines_nothing():
    assert definition(CHECK, x=X, y=X.T) == definition(CHECK, y=X.T, x=X)


def test_outputs_are_measured_by_name_and_what_is_missing_is_told():
    case = case_of_check(CHECK, {"x": X}, SHIPPED_LAYERS)
    outcome = measure_check(case, [SeedResults({"a": X}, {"a": X.astype(float), "b": X}, {"x": X})], ("generic",))
    assert [comparison.output for comparison in outcome.comparisons] == ["a"]
    assert outcome.missing == ("b",)
    assert outcome.comparisons[0].metrics["match_ratio"] == 1
    assert len(outcome.execution.inputs) == len(outcome.execution.outputs["a"]) == 1


def test_inputs_are_known_by_their_bits():
    case = case_of_check(CHECK, {"x": X}, SHIPPED_LAYERS)

    def digest(**inputs):
        return measure_check(case, [SeedResults(X, X, inputs)], ("generic",)).execution.inputs

    assert digest(x=X) == digest(x=X.copy())
    assert digest(x=X) != digest(x=-X)
    assert digest() == digest()


def test_functions_are_called_at_each_seed_with_inputs_of_their_own():
    def overwriting(x):
        x *= 2
        return x

    results = seed_results(overwriting, lambda x: 2 * x, lambda rng: {"x": rng.normal(size=3)}, 4, HERE)
    case = case_of_check(CHECK, results[0].inputs, SHIPPED_LAYERS, 4)
    outcome = measure_check(case, results, ("generic",))
    assert case.seeds == 4
    assert [comparison.seed for comparison in outcome.comparisons] == [0, 1, 2, 3]
    assert len({*outcome.execution.inputs}) == 4
    assert {comparison.metrics["max_abs_error"] for comparison in outcome.comparisons} == {0.0}
    again = seed_results(overwriting, lambda x: 2 * x, lambda rng: {"x": rng.normal(size=3)}, 4, HERE)
    assert measure_check(case, again, ("generic",)).execution == outcome.execution


def test_functions_and_arrays_are_not_mixed():
    def draw(rng):
        return {"x": X}

    assert slug(seed_results, X, X, draw, 1, HERE) == "bad-value"
    assert slug(seed_results, draw, draw, {"x": X}, 8, HERE) == "bad-value"
    assert slug(seed_results, X, X, {}, 8, HERE) == "bad-value"
    assert slug(seed_results, draw, draw, draw, 0, HERE) == "bad-value"


@pytest.mark.parametrize(
    ("subject", "draw", "message"),
    [
        (lambda x: x, lambda: {"x": X}, "expected inputs to take a numpy.random.Generator, but it has ()"),
        (lambda x: x, lambda rng: [X], "expected inputs to return arrays by name, as in {'x': array}, but got list"),
        (
            lambda y: y,
            lambda rng: {"x": X},
            "expected the subject to take the inputs x as keyword arguments, but it has (y): "
            "missing a required argument: 'y'",
        ),
        (lambda x: x, lambda rng: {"x": "a"}, "expected an array of numbers but got inputs.x of dtype=<U1"),
    ],
)
def test_a_mistake_in_the_functions_of_a_check_is_named(subject, draw, message):
    with pytest.raises(UserError) as caught:
        seed_results(subject, lambda x: x, draw, 2, HERE)
    assert caught.value.message.startswith(message)


def test_inputs_of_another_name_at_a_later_seed_are_refused():
    names = iter(["x", "x", "y"])
    assert slug(seed_results, lambda x: x, lambda x: x, lambda rng: {next(names): X}, 3, HERE) == "bad-value"


def test_an_exception_of_a_function_has_the_seed_of_its_inputs():
    def fails(x):
        if x[0] < -0.5:
            raise ValueError("no such kernel")
        return x

    with pytest.raises(ValueError, match="no such kernel") as caught:
        seed_results(fails, lambda x: x, lambda rng: {"x": rng.normal(size=3)}, 50, HERE)
    (note,) = caught.value.__notes__
    seed = int(note.split()[2])
    assert np.random.default_rng(seed).normal() < -0.5
    assert note == f"at seed {seed} of precision.check: inputs drawn from numpy.random.default_rng({seed})"


def test_a_check_is_held_against_one_thing():
    assert (role_of(X, None, HERE), role_of(None, X, HERE)) == ("reference", "golden")
    assert {slug(role_of, None, None, HERE), slug(role_of, X, X, HERE)} == {"bad-value"}


def test_a_check_can_be_told_from_every_other_case():
    require_valid_check(CHECK, (), None)
    require_valid_check(replace(CHECK, name="a"), ("", "b"), None)
    assert slug(require_valid_check, replace(CHECK, name="a b"), (), None) == "bad-value"
    assert slug(require_valid_check, replace(CHECK, tier="units"), (), None) == "bad-value"
    assert slug(require_valid_check, replace(CHECK, name=3), (), None) == "bad-value"
    assert slug(require_valid_check, replace(CHECK, category=3), (), None) == "bad-value"
    assert slug(require_valid_check, CHECK, ("",), None) == "duplicate-case"
    assert slug(require_valid_check, CHECK, (), "suites/unit/s.yaml:1") == "duplicate-suite"


def test_settings_of_a_check_stand_in_its_line():
    check = replace(CHECK, tolerance={"rtol": 1e-3, "float16": {"max_ulp": 2}})
    layers = list(read_layers("test", check.settings, ("tolerance",), check.tolerance))
    assert {str(layer.source) for layer in layers} == {str(HERE)}
    assert [(layer.name, layer.bounds) for layer in layers] == [
        ("test", {"rtol": 1e-3}),
        ("test, float16", {"max_ulp": 2}),
    ]
    wrong = replace(CHECK, tolerance={"rtlo": 1})
    assert slug(lambda: list(read_layers("test", wrong.settings, ("tolerance",), wrong.tolerance))) == "unknown-metric"


def test_numbers_of_numpy_are_numbers():
    eps = np.finfo(np.float16).eps
    own = tolerance_settings(
        {"float16": {"atol": eps}, "max_ulp": np.int8(2), "regression": "off"}, HERE, rtol=np.array(eps), atol=None
    )
    assert own == {"float16": {"atol": float(eps)}, "max_ulp": 2, "regression": "off", "rtol": float(eps)}
    assert list(read_layers("test", replace(CHECK, tolerance=own).settings, ("tolerance",), own))
    wrong = replace(CHECK, tolerance=tolerance_settings({"rtol": np.ones(2), "atol": object()}, HERE))
    assert slug(lambda: list(read_layers("test", wrong.settings, ("tolerance",), wrong.tolerance))) == "bad-value"


def test_inputs_are_arrays_of_numbers():
    arrays = input_arrays({"x": [1, 2], "y": 0.5, "z": X}, HERE)
    assert {name: (array.dtype.kind, array.shape) for name, array in arrays.items()} == {
        "x": ("i", (2,)),
        "y": ("f", ()),
        "z": ("f", (2, 3)),
    }
    assert input_arrays(None, HERE) == {}
    assert slug(input_arrays, {"x": ["a"]}, HERE) == slug(input_arrays, {"x": [object()]}, HERE) == "bad-value"
    assert slug(input_arrays, [X], HERE) == slug(input_arrays, {"x": [[1], [1, 2]]}, HERE) == "bad-value"
