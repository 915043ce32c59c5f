import subprocess
import sys

import pytest

from precreg.errors import UserError
from precreg.storage import convert_data, read_yaml
from precreg.suite.inputs.options import Constant, Integers, LogUniform, Normal, Special, special_values
from precreg.suite.inputs.spec import DISTRIBUTION_EXAMPLES, DISTRIBUTIONS, InputSpec, is_drawn, parse_input
from precreg.types.case import Location

HERE = Location("suites/unit/softmax.yaml", 12)


def test_a_mapping_becomes_a_specification():
    spec = parse_input("x", {"shape": [4, 64], "dtype": "float16", "normal": {"std": 2}}, HERE)
    assert spec == InputSpec((4, 64), "float16", Normal(0.0, 2.0), HERE)


@pytest.mark.parametrize(("shape", "expected"), [([], ()), (7, (7,)), ([0, 3], (0, 3)), (0, (0,))])
def test_shapes(shape, expected):
    assert parse_input("x", {"shape": shape, "dtype": "int8", "constant": {"value": 1}}, HERE).shape == expected


@pytest.mark.parametrize(
    ("dtype", "distribution", "options", "expected"),
    [
        ("float32", "log_uniform", {"low": 1, "high": 10}, LogUniform(1.0, 10.0)),
        ("int8", "integers", {"low": -128, "high": 128}, Integers(-128, 128)),
        ("uint64", "integers", {"low": 0, "high": 2**64}, Integers(0, 2**64)),
        ("bool", "integers", {"low": 0, "high": 2}, Integers(0, 2)),
        ("complex64", "constant", {"value": 2.5}, Constant(2.5)),
        ("int8", "special", {"values": ["min", "max"]}, Special(("min", "max"))),
    ],
)
def test_options(dtype, distribution, options, expected):
    assert parse_input("x", {"shape": 3, "dtype": dtype, distribution: options}, HERE).distribution == expected


def refusal(**mapping):
    with pytest.raises(UserError) as caught:
        parse_input("x", mapping, HERE)
    assert (caught.value.file, caught.value.line) == (HERE.file, HERE.line)
    return caught.value.slug, caught.value.message


def refused(dtype, distribution, options, shape=3):
    return refusal(shape=shape, dtype=dtype, **{distribution: options})


def test_unknown_words_are_refused_with_the_nearest():
    assert refusal(shap=3, dtype="float16", normal={}) == (
        "unknown-key",
        'input x: expected shape or dtype but got shap; did you mean "shape"?',
    )
    assert refusal(shape=3, dtype="float16", norml={}) == (
        "unknown-distribution",
        'input x: expected a distribution but got norml; did you mean "normal"?',
    )
    assert refusal(shape=3, dtype="float61", normal={}) == (
        "unknown-dtype",
        'input x: expected a dtype but got dtype=float61; did you mean "float64"?',
    )
    assert refused("float16", "normal", {"men": 0}) == (
        "unknown-key",
        'input x: normal: expected one of mean, std but got men=0; did you mean "mean"?',
    )
    assert refused("float16", "special", {"values": ["larges"]})[1].endswith('but got larges; did you mean "largest"?')
    assert refused("float16", "special", {"share": 0.5, "rest": {"norml": {}}}) == (
        "unknown-key",
        "input x: special: expected one of normal, uniform, log_uniform, integers, constant but got rest.norml={}; "
        'did you mean "normal"?',
    )


@pytest.mark.parametrize(
    "mapping",
    [{"dtype": "float16", "normal": {}}, {"shape": 3, "normal": {}}, {"shape": 3, "dtype": "float16"}],
)
def test_what_is_missing_is_named(mapping):
    assert refusal(**mapping)[0] == "missing-key"


@pytest.mark.parametrize("shape", [-1, [2, -1], 2.0, True, [True], "3", None, [[2]]])
def test_shapes_are_whole_numbers(shape):
    slug, message = refusal(shape=shape, dtype="float16", normal={})
    assert slug == "bad-value"
    assert f"shape={shape}" in message


@pytest.mark.parametrize(
    ("dtype", "distribution", "options"),
    [
        ("float16", "normal", {"mean": True}),
        ("float16", "normal", {"mean": "1"}),
        ("float16", "normal", {"std": -1}),
        ("float16", "normal", {"std": float("nan")}),
        ("float16", "normal", {"mean": 10**400}),
        ("float16", "normal", None),
        ("int32", "normal", {}),
        ("float16", "uniform", {"low": 1, "high": 1}),
        ("float64", "uniform", {"low": -1.7e308, "high": 1.7e308}),
        ("bool", "uniform", {}),
        ("float16", "log_uniform", {"low": 0, "high": 1}),
        ("float16", "log_uniform", {"low": 1, "high": 2, "sign": "negative"}),
        ("int8", "integers", {"low": 0, "high": 129}),
        ("uint8", "integers", {"low": -1, "high": 3}),
        ("float16", "integers", {"low": 0, "high": 10**6}),
        ("int8", "integers", {"low": 3, "high": 3}),
        ("int8", "constant", {"value": 1.5}),
        ("int8", "constant", {"value": float("nan")}),
        ("int8", "constant", {"value": float("inf")}),
        ("float16", "constant", {"value": 10**400}),
        ("float16", "special", {"values": []}),
        ("float16", "special", {"share": 0.5}),
        ("float16", "special", {"rest": {"normal": {}}}),
        ("float16", "special", {"share": 1, "rest": {"normal": {}}}),
        ("float16", "special", {"share": 0.5, "rest": {}}),
        ("float16", "special", {"share": 0.5, "rest": {"normal": {}, "uniform": {}}}),
        ("int8", "special", {"share": 0.5, "rest": {"normal": {}}}),
        ("float8_e4m3fn", "special", {"values": ["infinity"]}),
        ("longdouble", "special", {}),
        ("float16", "ill_conditioned_sum", {"condition": 2}),
        ("float16", "ill_conditioned_sum", {"condition": float("inf")}),
        ("float8_e4m3fn", "ill_conditioned_sum", {}),
        ("complex64", "ill_conditioned_sum", {}),
        ("float16", "file", {"path": "data.txt"}),
        ("float16", "file", {"path": "data.npz"}),
        ("float16", "file", {"path": "data.npy", "key": "x"}),
    ],
)
def test_values_that_cannot_be_drawn_are_refused(dtype, distribution, options):
    assert refused(dtype, distribution, options)[0] == "bad-value"


@pytest.mark.parametrize(
    ("distribution", "options", "slug", "said"),
    [
        ("log_uniform", {"low": 1}, "missing-key", "log_uniform: expected high: but the key is not there"),
        ("normal", {"mean": "1"}, "bad-value", 'normal: expected a number but got mean="1"'),
        ("normal", {"mean": True}, "bad-value", "normal: expected a number but got mean=true"),
        ("normal", {"std": -1}, "bad-value", "normal: expected a finite mean and std >= 0 but got mean=0.0, std=-1.0"),
        (
            "log_uniform",
            {"low": 1, "high": 2, "sign": "negative"},
            "bad-value",
            "log_uniform: expected both or positive but got sign=negative",
        ),
        ("integers", {"low": 0.5, "high": 2}, "bad-value", "integers: expected a whole number but got low=0.5"),
        ("special", {"values": "nan"}, "bad-value", "special: expected a list or null but got values=nan"),
        ("special", {"values": ["nan", 3]}, "bad-value", "special: expected text but got values.1=3"),
        (
            "special",
            {"share": 0.5, "rest": {"normal": {"std": "x"}}},
            "bad-value",
            "special: expected a number but got rest.normal.std=x",
        ),
        (
            "special",
            {"share": 0.5, "rest": {"normal": {"std": -1}}},
            "bad-value",
            "special: rest.normal: expected a finite mean and std >= 0 but got mean=0.0, std=-1.0",
        ),
        ("file", {"path": 3}, "bad-value", "file: expected text but got path=3"),
        ("file", {}, "missing-key", "file: expected path: but the key is not there"),
    ],
)
def test_options_of_another_kind_are_refused_in_our_own_words(distribution, options, slug, said):
    assert refused("float16", distribution, options) == (slug, f"input x: {said}")


def test_sums_need_a_last_axis():
    assert refused("float32", "ill_conditioned_sum", {}, shape=[])[0] == "bad-value"
    assert refused("float32", "ill_conditioned_sum", {}, shape=[5, 2])[0] == "bad-value"


def test_one_distribution_and_a_mapping_are_expected():
    assert refusal(shape=3, dtype="float16", normal={}, uniform={})[0] == "bad-value"
    with pytest.raises(UserError, match="DISTRIBUTION: options} but got 3"):
        parse_input("x", 3, HERE)


def test_special_values_are_those_the_format_has():
    assert "infinity" in special_values("float8_e5m2")
    assert not {"infinity", "-infinity"} & set(special_values("float8_e4m3fn"))
    assert "-zero" not in special_values("float8_e4m3fnuz")
    assert "nan" not in special_values("float4_e2m1fn")
    assert special_values("int8") == {"zero": 0, "min": -128, "max": 127}
    assert special_values("bool") == special_values("longdouble") == {}


def test_specifications_are_read_without_numpy():
    code = "import sys, precreg.suite.inputs.spec; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_table_names_every_distribution():
    assert list(DISTRIBUTIONS) == [
        "normal",
        "uniform",
        "log_uniform",
        "integers",
        "special",
        "ill_conditioned_sum",
        "constant",
        "legacy_normal",
        "file",
        "spd",
        "orthogonal",
        "sorted",
        "sparse",
        "tokens",
        "images",
        "mask",
        "probabilities",
        "python",
    ]


@pytest.mark.parametrize(
    ("distribution", "drawn"),
    [
        ({"normal": {}}, True),
        ({"integers": {"low": 0, "high": 9}}, True),
        ({"ill_conditioned_sum": {}}, True),
        ({"special": {"share": 0.5, "rest": {"normal": {}}}}, True),
        ({"special": {}}, False),
        ({"constant": {"value": 1}}, False),
        ({"legacy_normal": {"seed": 1}}, False),
        ({"file": {"path": "x.npy"}}, False),
        ({"spd": {}}, True),
        ({"python": {"function": "m:f"}}, True),
        ({"mask": {}}, False),
        ({"mask": {"kind": "padding"}}, True),
    ],
)
def test_an_input_is_drawn_if_seeds_change_it(distribution, drawn):
    assert is_drawn({"shape": [4], "dtype": "float32", **distribution}) is drawn


@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_every_distribution_has_an_example_with_its_options(kind, tmp_path):
    path = tmp_path / "options.yaml"
    path.write_text(DISTRIBUTION_EXAMPLES[kind])
    options = read_yaml(path, path.name).data
    assert isinstance(convert_data(options, DISTRIBUTIONS[kind]), DISTRIBUTIONS[kind])
