"""Each standard against its published formula in plain Python, at the last step it admits and at the next one."""

from math import nextafter
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from precreg.arithmetic.formats import DTYPE_NAMES, format_of, numpy_dtype
from precreg.errors import UserError
from precreg.measure.metrics import METRICS, Regions
from precreg.tolerance.standards import STANDARDS, find_standard, standards_markdown
from precreg.types.case import Location
from precreg.types.verdict import NoAlternative
from tests.tolerance import formulas
from tests.tolerance.near import Step, every, exact, findings, last_good, one, some, up, values

ROOT = Path(__file__).parent.parent.parent
KNOWN = {"rtol", "atol", *METRICS}

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
FLOAT8 = tuple(name for name in DTYPE_NAMES if name.startswith("float8"))
SMALL_FLOATS = (*FLOAT8, "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")
HALF = ("float16", "bfloat16")
FLOATS = (*HALF, "float32", "float64")
THREE = (*HALF, "float32")

TORCH = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    **dict.fromkeys(("float32", "complex64"), (1.3e-6, 1e-5)),
    **dict.fromkeys(("float64", "complex128"), (1e-7, 1e-7)),
    **dict.fromkeys((*SMALL_FLOATS, *INTEGERS), (0, 0)),
}
JAX = {
    "float4_e2m1fn": (1, 1),
    **dict.fromkeys(FLOAT8, (1e-1, 1e-1)),
    "bfloat16": (1e-2, 1e-2),
    "float16": (1e-3, 1e-3),
    **dict.fromkeys(("float32", "complex64"), (1e-6, 1e-6)),
    **dict.fromkeys(("float64", "complex128"), (1e-15, 1e-15)),
    **dict.fromkeys(INTEGERS, (0, 0)),
}
ONNXRUNTIME = {
    "float64": (1e-5, 1e-5),
    "float32": (1e-4, 1e-5),
    "float16": (1e-3, 2.5e-3),
    "bfloat16": (1e-2, 2e-2),
    **dict.fromkeys(INTEGERS, (0, 0)),
}
FLAGGEMS = {dtype: (rtol, 1e-4) for dtype, (rtol, _) in TORCH.items() if rtol and dtype != "complex128"}
OPBASE = {
    "float16": (2**-10, 2**-11, 2**-16, 2**-5),
    "bfloat16": (2**-7, 2**-8, 2**-16, 2**-3),
    "float32": (2**-13, 2**-14, 2**-30, 2**-8),
    "float8_e4m3": (2**-3, 2**-4, 2**-6, 2**-1),
    "float8_e4m3fn": (2**-3, 2**-4, 2**-6, 2**-1),
    "float8_e5m2": (2**-2, 2**-3, 2**-5, 2**0),
}
HIF32 = (2**-11, 2**-12, 2**-28, 2**-8)
ABSOLUTE = {
    "float16": (2**-10, 2**-10, 2**-16),
    "bfloat16": (2**-10, 2**-8, 2**-16),
    "float32": (2**-20, 2**-20, 2**-30),
}
ACCUMULATED = {"float16": (2**-8, 2**-20), "bfloat16": (2**-7, 2**-7), "float32": (2**-11, 2**-14)}
FLOORS = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-14}
LEVELS = {"l0": (10, 2), "l1": (5, 1.5), "l2": (2, 1.2)}


def elementwise():
    tables = {"torch-2.13": TORCH, "jax-1": JAX, "onnxruntime-1": ONNXRUNTIME, "flaggems-1": FLAGGEMS}
    for name, table in tables.items():
        yield from ((name, dtype, one(dtype), formulas.close(*close)) for dtype, close in table.items())
    yield from (("flaggems-1", dtype, one(dtype), formulas.close(0, 0)) for dtype in INTEGERS)
    for dtype, (rtol, atol) in FLAGGEMS.items():
        yield "flaggems-1:reduced=768", dtype, one(dtype), formulas.close(rtol, 768 * atol)
    for dtype in (*FLOATS, "int32"):
        yield "onnx-backend-1", dtype, one(dtype), formulas.close(1e-3, 1e-7)
        yield "polygraphy-0.53", dtype, one(dtype), formulas.either_tolerance
    for dtype in THREE:
        yield "polygraphy-0.53", dtype, one(dtype, low=2**-10), formulas.either_tolerance


def doubles():
    for word, limit in (("thousandth", 1e-3), ("ten-thousandth", 1e-4)):
        n = round(2 / limit)
        for dtype in FLOATS:
            name = f"double-{word}"
            yield f"{name}-1", dtype, one(dtype, n // 2), formulas.relative_share(limit)
            yield f"{name}-3", dtype, one(dtype), formulas.close(limit, limit)
        yield f"{name}-1", "float32", some("float32", 10_000, n), formulas.relative_share(limit)
        yield f"{name}-2", "float32", some("float32", 100_000, n // 2), formulas.close(limit, limit, limit)


def ascend():
    for dtype, row in OPBASE.items():
        for path in (every(dtype), one(dtype)):
            yield "ascend-mere-mare-1", dtype, path, formulas.mere_mare(row[0])
            yield "ascend-experimental-1", dtype, path, formulas.opbase(*row)
        yield from in_regions("ascend-experimental-1", dtype, row)
    yield "ascend-hif32-1", "float32", every("float32"), formulas.opbase(*HIF32)
    yield from in_regions("ascend-hif32-1", "float32", HIF32)


def in_regions(name, dtype, row):
    """Yield paths of more and more errors among small values and in cancellation, and of one growing elsewhere."""
    _, small, _, cancellation = row
    far = 2 ** (format_of(dtype).precision - 1) * 4  # four binades
    for low, span in ((small / 2, small / 4), (small, cancellation / 2)):
        yield name, dtype, some(dtype, far, low=low, span=span, benchmark=3), formulas.opbase(*row)
        yield name, dtype, some(dtype, far, low=low, span=span, benchmark=0), formulas.opbase(*row)
    yield name, dtype, one(dtype, low=cancellation, benchmark=1), formulas.opbase(*row)


def msprobe():
    for dtype in THREE:
        for low in (1.0, ABSOLUTE[dtype][0], ABSOLUTE[dtype][0] / 4):
            yield "msprobe-absolute-26.2.0", dtype, one(dtype, low=low), formulas.thresholds(*ABSOLUTE[dtype])
        bound, most = ACCUMULATED[dtype]
        for low in (1.0, 8.0, 2**-6):
            yield "msprobe-accumulated-26.2.0", dtype, one(dtype, low=low), formulas.accumulated(bound)
        name, path = "msprobe-accumulated-balanced-26.2.0", some(dtype, 1, 1000)
        yield name, dtype, path, formulas.accumulated(bound, most)
        for level, limits in LEVELS.items():
            formula = formulas.benchmark(FLOORS[dtype], *limits)
            for path in (every(dtype, benchmark=8), one(dtype, benchmark=8), every(dtype, benchmark=0)):
                yield f"msprobe-benchmark-{level}-26.2.0", dtype, path, formula
        yield "msprobe-binary-26.2.0", dtype, some(dtype, 1), formulas.equal
    yield "msprobe-binary-26.2.0", "int32", some("int32", 1), formulas.equal
    for dtype in HALF:
        formula = formulas.ulp_share(format_of(dtype).precision, format_of(dtype).min_exponent)
        yield "msprobe-ulp-26.2.0", dtype, some(dtype, 2, 4000), formula
        yield "msprobe-ulp-26.2.0", dtype, every(dtype), formula
    yield "msprobe-ulp-26.2.0", "float32", every("float32"), formulas.ulp_single
    yield "msprobe-ulp-26.2.0", "float32", some("float32", 100_000, 200), formulas.ulp_single
    yield "msprobe-ulp-26.2.0", "float32", some("float32", 100, 200), formulas.ulp_single


def cambricon():
    for dtype, limit in (("float32", 1e-5), ("float16", 3e-3)):
        for path in (every(dtype), one(dtype)):
            yield "cambricon-convolution-1", dtype, path, formulas.diffs(limit)
    for dtype in FLOATS:
        for path in (every(dtype, signs=(1, -1)), one(dtype)):
            yield "cambricon-accumulation-1", dtype, path, formulas.diffs(3e-3)
    for dtype in (*FLOATS, "float8_e5m2", "int8", "bool"):
        yield "cambricon-diff3-2-1", dtype, one(dtype), formulas.equal
    for dtype in FLOATS:
        yield "cambricon-diff4-1", dtype, some(dtype, 1, 400), formulas.diff4


def signals():
    for dtype in THREE:
        path = every(dtype, signs=(1, -1))
        yield "polygraphy-cosine-0.53", dtype, path, formulas.cosine(0.997)
        yield "polygraphy-psnr-0.53", dtype, path, formulas.psnr(30)
        yield "polygraphy-snr-0.53", dtype, path, formulas.snr(20)


def dynamo():
    for dtype in FLOATS:
        for n in (999, 1000):
            multiple = 3 if dtype in HALF or n < 1000 else 2
            name = "torch-dynamo-2.13:tol=0.001"
            yield "torch-dynamo-2.13", dtype, every(dtype, n, benchmark=4), formulas.dynamo(1e-4, multiple)
            yield name, dtype, every(dtype, n, benchmark=2), formulas.dynamo(1e-3, multiple)
            yield name, dtype, one(dtype, n), formulas.close(1e-3, 1e-3)
        path = every(dtype, 1000, benchmark=4)
        yield "torch-dynamo-wide-2.13", dtype, path, formulas.dynamo(2e-2, 3)
        yield "torch-dynamo-wide-2.13:tol=0.05", dtype, path, formulas.dynamo(5e-2, 3)
    yield "torch-dynamo-2.13", "int32", one("int32"), formulas.close(1e-4, 1e-4)


ROWS = [row for rows in (elementwise, doubles, ascend, msprobe, cambricon, signals, dynamo) for row in rows()]


@pytest.mark.parametrize(
    ("name", "dtype", "path", "formula"), ROWS, ids=[f"{row[0]}-{row[1]}-{number}" for number, row in enumerate(ROWS)]
)
def test_the_last_step_that_the_formula_admits_passes_and_the_next_one_fails(name, dtype, path, formula):
    good = last_good(path, formula)
    assert findings(name, path(good)) == []
    (first, *_) = findings(name, path(good + 1))
    assert f"standard {name}" in first.fact.layer


def test_every_dtype_of_every_standard_is_tried():
    tried = {(name.partition(":")[0], dtype) for name, dtype, _, _ in ROWS}
    for name, standard in STANDARDS.items():
        assert {dtype for tried_name, dtype in tried if tried_name == name} >= set(standard.dtypes), name


def test_an_atol_alone_holds_a_reference_of_zero():
    """|a-r| <= atol where r is 0, up to the last float32 that is not above 1e-5."""
    zero = np.zeros(3, np.float32)
    inside = zero + np.nextafter(np.float32(1e-5), np.float32(0))
    assert findings("torch-2.13", Step(inside, exact(zero))) == []
    assert findings("torch-2.13", Step(np.nextafter(np.float32(1e-5), np.float32(1)) + zero, exact(zero)))


def test_small_values_of_msprobe_are_those_up_to_the_bound():
    reference = np.array([2.0**-10], np.float16)
    assert findings("msprobe-absolute-26.2.0", Step(up(reference, 8), exact(reference))) == []  # 8 * 2^-20 <= 2^-16
    found = findings("msprobe-absolute-26.2.0", Step(up(reference, 17), exact(reference)))
    assert [finding.metric for finding in found] == ["absolute_violation_share"]


@pytest.mark.parametrize(
    ("up_to_one_side", "held"), [((99, 0), True), ((100, 0), False), ((99, 1), True), ((0, 100), False)]
)
def test_bias_is_bad_only_where_a_hundred_errors_have_one_sign(up_to_one_side, held):
    start, places = values("float32", 300), np.arange(300)
    above, below = up_to_one_side
    steps = np.where(places < above, 1, np.where(places < above + below, -1, 0))
    step = Step(up(start, steps), exact(start))
    assert formulas.diff4(*step.numbers()) == held == (not findings("cambricon-diff4-1", step))


def test_an_alternative_that_fails_is_told_with_the_numbers_of_each():
    step = every("float32")(64)
    (finding,) = findings("msprobe-ulp-26.2.0", step)
    assert isinstance(finding.fact, NoAlternative)
    broken = [
        (each.metric, each.current, each.limit) for alternative in finding.fact.alternatives for each in alternative
    ]
    assert broken == [("mean_ulp", 64, pytest.approx(64)), ("share_above_32_ulp", 1, pytest.approx(0.05))]
    assert finding.fact.layer == "suite, standard msprobe-ulp-26.2.0"
    assert (finding.metric, finding.current) == ("mean_ulp", 64)


def test_what_needs_a_benchmark_fails_without_one_and_says_so():
    step = every("float32")(0)
    broken = [finding.fact.broken for finding in findings("msprobe-benchmark-l0-26.2.0", step)]
    assert [each.metric for each in broken] == ["floored_mare_ratio", "floored_mere_ratio", "floored_rms_error_ratio"]
    assert all(each.lacks_benchmark for each in broken)


def test_a_perfect_result_is_no_worse_than_a_perfect_benchmark():
    step = every("float32", benchmark=0)(0)
    for level in LEVELS:
        assert findings(f"msprobe-benchmark-{level}-26.2.0", step) == []


def test_dynamo_takes_a_kernel_of_one_by_one_for_noisy():
    path = every("float32", 2000, benchmark=100)
    step = path(250)
    assert findings("torch-dynamo-2.13:tol=0.000001", step)
    shape = (20, 100, 1, 1)
    assert not findings("torch-dynamo-2.13:tol=0.000001", Step(*(array.reshape(shape) for array in step)))


@pytest.mark.parametrize("mantissa_bits", [10, 7])
def test_a_share_below_a_thousandth_may_be_off_by_more_than_one_ulp(mantissa_bits):
    dtype = {10: np.float16, 7: ml_dtypes.bfloat16}[mantissa_bits]
    reference = np.ones(10_000, dtype)
    for wrong, held in ((0, True), (9, True), (10, False)):
        actual = reference.copy()
        actual[:wrong] += dtype(2 * 2**-mantissa_bits)
        actual[wrong : wrong + 100] += dtype(2**-mantissa_bits)
        assert (not findings("msprobe-ulp-26.2.0", Step(actual, exact(reference)))) == held


def test_minus_zero_differs_in_bits_and_not_in_value():
    zero = np.zeros(2, ml_dtypes.bfloat16)
    step = Step(-zero, exact(zero))
    assert findings("msprobe-binary-26.2.0", step)
    assert findings("cambricon-diff3-2-1", step) == []


def test_the_last_float_below_a_limit_is_admitted_and_the_limit_is_not():
    limit = STANDARDS["ascend-mere-mare-1"].limits("float16").bounds["mere"]
    assert limit < 2**-10 == nextafter(limit, 1.0)


def test_standards_name_only_dtypes_and_metrics_that_exist():
    for standard in STANDARDS.values():
        assert set(standard.dtypes) <= set(DTYPE_NAMES)
        for limits in filter(None, [*standard.dtypes.values(), standard.otherwise]):
            assert {name for bounds in (limits.bounds, *limits.alternatives) for name in bounds} <= KNOWN
            assert set(limits.regions) <= set(Regions.__struct_fields__)
        for parameter in standard.parameters.values():
            assert set(parameter.scales) <= KNOWN
            assert parameter.admits(parameter.default)


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(UserError) as caught:
        find_standard("torch-2.12", Location("s.yaml", 3))
    assert (caught.value.slug, caught.value.file, caught.value.line) == ("unknown-standard", "s.yaml", 3)
    assert 'standard=torch-2.12; did you mean "torch-2.13"?' in caught.value.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("torch-2.13:reduced=3", "a parameter of torch-2.13 (it has none) but got reduced=3"),
        ("flaggems-1:reducd=3", 'a parameter of flaggems-1 (reduced) but got reducd=3; did you mean "reduced"?'),
        ("flaggems-1:reduced=0", "at least 1 but got reduced=0"),
        ("flaggems-1:reduced=many", "got reduced=many"),
        ("flaggems-1:reduced=nan", "got reduced=nan"),
        ("flaggems-1:reduced=inf", "got reduced=inf"),
        ("flaggems-1:reduced", "got reduced="),
        ("torch-dynamo-2.13:tol=0.02", "at least 0 and below 0.02 but got tol=0.02"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused(text, says):
    with pytest.raises(UserError) as caught:
        find_standard(text, Location("s.yaml", 3))
    assert (caught.value.slug, caught.value.line) == ("bad-value", 3)
    assert says in caught.value.message


def test_a_tolerance_of_jax_does_not_grow_with_the_array():
    """numpy's differences of long arrays stay those of single elements; multiplied, 1000 elements would hide 1e-3."""
    reference = np.ones(1000, np.float32)
    assert findings("jax-1", Step(reference * np.float32(1 + 1e-5), exact(reference)))
    assert "must not be multiplied by the size" in STANDARDS["jax-1"].about


def test_the_pages_are_made_from_the_table():
    for name, markdown in standards_markdown().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == markdown


def test_numpy_knows_every_dtype_of_a_standard():
    for standard in STANDARDS.values():
        assert all(numpy_dtype(dtype) is not None for dtype in standard.dtypes)
