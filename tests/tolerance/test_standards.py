"""Each standard against its published formula, written out here from STANDARDS' sources, on data near its limit."""

from math import nextafter
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from precreg.arith.formats import DTYPE_NAMES, numpy_dtype
from precreg.errors import UserError
from precreg.measure.compare import compare
from precreg.measure.metrics import METRICS
from precreg.measure.regions import Regions
from precreg.tolerance.standards import STANDARDS, find_standard, markdown
from precreg.types import Location

ROOT = Path(__file__).parent.parent.parent
KNOWN = {"rtol", "atol", *METRICS}


def accepts(name, actual, reference):
    """Judge as a verdict does: every bound of the standard against what was measured."""
    bounds = dict(STANDARDS[name].limits(actual.dtype.name).bounds)
    rtol, atol = bounds.pop("rtol", 0.0), bounds.pop("atol", 0.0)
    metrics = compare(actual, reference, rtol=rtol, atol=atol).metrics
    higher = {metric for metric in bounds if METRICS[metric].better == "higher"}
    return all(metrics[m] >= limit if m in higher else metrics[m] <= limit for m, limit in bounds.items())


def samples(dtype, spread, count=4000):
    """Yield (actual, reference) whose relative errors lie around the spread, so that a formula says yes and no."""
    for seed, scale in enumerate(np.geomspace(0.05, 20, 40)):
        generator = np.random.default_rng(seed)
        reference = (1 + generator.random(count)) * np.where(generator.random(count) < 0.5, -1, 1)
        noise = generator.uniform(-1, 1, count) * np.where(generator.random(count) < 1e-3, 3.0, 0.9)
        yield (reference * (1 + scale * spread * noise)).astype(dtype), reference.astype(dtype).astype(np.float64)


def agrees(name, dtype, spread, formula):
    """Check the standard against the formula, and that the samples tell both answers apart."""
    answers = [
        (accepts(name, actual, reference), bool(formula(actual.astype(np.float64), reference)))
        for actual, reference in samples(numpy_dtype(dtype), spread)
    ]
    assert all(got == wanted for got, wanted in answers)
    assert {wanted for _, wanted in answers} == {True, False}


def close(rtol, atol):
    return lambda a, r: np.abs(a - r) <= atol + rtol * np.abs(r)


ELEMENTWISE = [
    ("torch-2.13", "float16", 1e-3, 1e-5),
    ("torch-2.13", "bfloat16", 1.6e-2, 1e-5),
    ("torch-2.13", "float32", 1.3e-6, 1e-5),
    ("torch-2.13", "float64", 1e-7, 1e-7),
    ("jax-1", "float8_e4m3fn", 1e-1, 1e-1),
    ("jax-1", "bfloat16", 1e-2, 1e-2),
    ("jax-1", "float16", 1e-3, 1e-3),
    ("jax-1", "float32", 1e-6, 1e-6),
    ("jax-1", "float64", 1e-15, 1e-15),
    ("onnx-backend-1", "float32", 1e-3, 1e-7),
    ("onnxruntime-1", "float64", 1e-5, 1e-5),
    ("onnxruntime-1", "float32", 1e-4, 1e-5),
    ("onnxruntime-1", "float16", 1e-3, 2.5e-3),
    ("onnxruntime-1", "bfloat16", 1e-2, 2e-2),
    ("double-thousandth-3", "float32", 1e-3, 1e-3),
    ("double-ten-thousandth-3", "float32", 1e-4, 1e-4),
]


@pytest.mark.parametrize(("name", "dtype", "rtol", "atol"), ELEMENTWISE)
def test_every_element_is_close(name, dtype, rtol, atol):
    agrees(name, dtype, rtol + atol, lambda a, r: close(rtol, atol)(a, r).all())


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float8_e5m2"])
def test_torch_asks_for_equality_of_all_other_dtypes(dtype):
    ones = np.ones(3, numpy_dtype(dtype))
    one_off = ones.copy()
    one_off[1] = 0
    assert accepts("torch-2.13", ones, ones)
    assert not accepts("torch-2.13", one_off, ones)


@pytest.mark.parametrize(("name", "limit"), [("double-thousandth-1", 1e-3), ("double-ten-thousandth-1", 1e-4)])
def test_double_thousandth_as_a_share_of_relative_errors(name, limit):
    agrees(name, "float64", limit / 3, lambda a, r: np.mean(np.abs(a - r) / np.abs(r) > limit) < limit)


@pytest.mark.parametrize(("name", "limit"), [("double-thousandth-2", 1e-3), ("double-ten-thousandth-2", 1e-4)])
def test_double_thousandth_as_a_share_that_may_fail(name, limit):
    agrees(name, "float64", limit, lambda a, r: 1 - np.mean(close(limit, limit)(a, r)) <= limit)


@pytest.mark.parametrize(("name", "limit"), [("double-thousandth", 1e-3), ("double-ten-thousandth", 1e-4)])
def test_exactly_the_limit_is_not_below_it_but_may_fail(name, limit):
    reference = np.ones(round(1 / limit))
    actual = reference.copy()
    actual[0] = 2
    assert not accepts(f"{name}-1", actual, reference)
    assert accepts(f"{name}-2", actual, reference)
    assert not accepts(f"{name}-3", actual, reference)


@pytest.mark.parametrize(
    ("dtype", "threshold"),
    [("float16", 2**-10), ("bfloat16", 2**-7), ("float32", 2**-13), ("float8_e4m3fn", 2**-3), ("float8_e5m2", 2**-2)],
)
def test_mere_and_mare(dtype, threshold):
    def formula(a, r):
        error = np.abs(a - r) / (np.abs(r) + 1e-7)
        return error.mean() < threshold and error.max() < 10 * threshold

    agrees("ascend-mere-mare-1", dtype, 2 * threshold, formula)


def test_the_last_float_below_a_limit_is_admitted_and_the_limit_is_not():
    limit = STANDARDS["ascend-mere-mare-1"].limits("float16").bounds["mere"]
    assert limit < 2**-10 == nextafter(limit, 1.0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_binary_consistency_and_no_difference(dtype):
    reference = np.arange(1, 9).astype(numpy_dtype(dtype))
    actual = reference.copy()
    actual[3] = 5
    for name in ("msprobe-binary-26.2.0", "cambricon-diff3-2-1"):
        assert accepts(name, reference, reference)
        assert not accepts(name, actual, reference)


@pytest.mark.parametrize(("wrong", "held"), [(0, True), (9, True), (10, False)])
@pytest.mark.parametrize(("dtype", "ulp"), [("float16", 2**-10), ("bfloat16", 2**-7)])
def test_a_share_below_a_thousandth_may_be_off_by_more_than_one_ulp(wrong, held, dtype, ulp):
    reference = np.ones(10_000, numpy_dtype(dtype))
    actual = reference.copy()
    actual[:wrong] += reference.dtype.type(2 * ulp)
    actual[wrong : wrong + 100] += reference.dtype.type(ulp)
    assert accepts("msprobe-ulp-26.2.0", actual, reference) == held


def test_minus_zero_differs_in_bits_and_not_in_value():
    zero, minus_zero = np.zeros(2, ml_dtypes.bfloat16), -np.zeros(2, ml_dtypes.bfloat16)
    assert not accepts("msprobe-binary-26.2.0", minus_zero, zero)
    assert accepts("cambricon-diff3-2-1", minus_zero, zero)


def test_standards_name_only_dtypes_and_metrics_that_exist():
    for standard in STANDARDS.values():
        assert set(standard.dtypes) <= set(DTYPE_NAMES)
        for limits in filter(None, [*standard.dtypes.values(), standard.otherwise]):
            assert {name for bounds in (limits.bounds, *limits.alternatives) for name in bounds} <= KNOWN
            assert set(limits.regions) <= set(Regions.__struct_fields__)


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(UserError) as caught:
        find_standard("torch-2.12", Location("s.yaml", 3))
    assert (caught.value.slug, caught.value.file, caught.value.line) == ("unknown-standard", "s.yaml", 3)
    assert 'standard=torch-2.12; did you mean "torch-2.13"?' in caught.value.message


def test_the_page_is_made_from_the_table():
    assert (ROOT / "docs/standards.md").read_text(encoding="utf-8") == markdown()
