"""Operands in formats of their own: the units of shipped tables, `multiply_as`, and every mistake in a table."""

import numpy as np
import pytest

from precreg.arithmetic.block_operand import BLOCK_OPERANDS
from precreg.arithmetic.devices.array import WatchedArithmetic, simulate_array
from precreg.arithmetic.devices.computation import DeviceArithmetic, multiply_as
from precreg.arithmetic.devices.device import device_named, device_names
from precreg.arithmetic.exact import exact_matmul
from precreg.arithmetic.exact_blocks import exact_scaled_matmul, exact_weight_matmul
from precreg.arithmetic.formats import FORMATS, Rounding, format_named
from precreg.arithmetic.hifloat8 import decode_hifloat8
from precreg.arithmetic.rounding import round_to
from precreg.arithmetic.unit import Promotion, Split, Unit, split_products
from precreg.errors import UserError
from precreg.storage.files import DEVICES_FOLDER
from tests.arithmetic.hard_operands import assert_same

SINGLE = FORMATS["float32"]
SHIPPED = [
    pytest.param(device, format, id=f"{device}-{format}")
    for device in device_names(None)
    for format in device_named(device).operands
]


@pytest.mark.parametrize(("device", "format"), SHIPPED)
def test_products_of_shipped_devices_are_those_on_rationals(device, format):
    generator = np.random.default_rng(1)
    a, b = generator.standard_normal((2, 150)), generator.standard_normal((150, 2))
    a, b = (each.astype(np.float32) for each in (a, b))
    unit = device_named(device).operand_unit(format)
    exact = exact_matmul if unit.blocks is None else exact_scaled_matmul
    exact = exact_weight_matmul if unit.blocks is None and unit.column_blocks is not None else exact
    assert_same(multiply_as(a, b, format, device).astype(np.float64), np.array(exact(a.tolist(), b.tolist(), unit)))


def test_units_of_tables():
    hopper, amx = device_named("gpu-hopper"), device_named("cpu-amx")
    blackwell = device_named("gpu-blackwell")
    promotion = hopper.operand_unit("fp8_1x128").promotion
    assert (promotion.length, promotion.format, promotion.rounding) == (128, SINGLE, Rounding.NEAREST_EVEN)
    assert (promotion.inner.length, promotion.inner.format.precision) == (32, 14)
    assert promotion.inner.rounding is Rounding.TOWARD_ZERO
    assert hopper.operand_unit("tf32x3").split == Split(2, ((1, 0), (0, 1), (0, 0)), 8)
    assert amx.operand_unit("bfloat16x3").split == Split(3, split_products(3, 6))
    unit = blackwell.operand_unit("nvfp4")
    assert unit == Unit(unit.input, SINGLE, SINGLE, promotion=Promotion(16, SINGLE), blocks=BLOCK_OPERANDS["nvfp4"])


def relative_error(format, device, a, b, exact):
    product = multiply_as(a, b, format, device)
    return float(np.sqrt(np.mean((product - exact) ** 2) / np.mean(exact**2)))


def test_published_errors():
    """Ootomo and Yokota (2022): cut-off sums spoil 3xTF32, and a total to nearest restores the error of float32.

    DeepSeek-V3 (2024): sums of fp8 products with 14 bits err far more than with totals in float32.
    """
    generator = np.random.default_rng(2)
    a, b = (generator.random(shape).astype(np.float32) for shape in ((16, 2048), (2048, 16)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert relative_error("tf32x3", "gpu-hopper", a, b, exact) > 50 * relative_error(
        "tf32x3_nearest", "gpu-hopper", a, b, exact
    )
    assert relative_error("bfloat16x3", "cpu-amx", a, b, exact) < 1e-6
    assert relative_error("bfloat16", "cpu-amx", a, b, exact) > 1e-5
    a, b = (round_to(each, format_named("e4m3fn_sat")) for each in (a, b))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    fourteen = relative_error("float8_e4m3fn", "gpu-hopper", a, b, exact)
    assert 1e-3 < fourteen < 2e-2
    assert relative_error("float8_e4m3fnuz", "gpu-mi300", a / 2, b / 2, exact / 4) < fourteen / 100


def test_the_largest_number_of_fnuz_is_240():
    x = np.array([[400.0]], np.float32)
    assert multiply_as(x, np.ones((1, 1), np.float32), "float8_e4m3fnuz", "gpu-mi300") == 240
    assert multiply_as(x, np.ones((1, 1), np.float32), "float8_e4m3fn", "gpu-hopper") == 384


def test_hifloat8_rounds_halves_away_from_zero():
    one = np.ones((1, 1), np.float32)
    halves = {
        1.0625: 1.125,
        -1.0625: -1.125,
        18.0: 20.0,
        2.0**-24: 0.0,
        1.5 * 2.0**-23: 2.0**-22,
        40959: 32768,
        40960: np.inf,
    }
    for number, expected in halves.items():
        assert multiply_as(np.array([[number]], np.float32), one, "hif8", "ascend-950") == expected


def test_every_code_of_hifloat8_is_an_operand_of_its_device():
    codes = np.array([decode_hifloat8(code) for code in range(256)], np.float32)
    product = multiply_as(codes[:, None], np.ones((1, 1), np.float32), "hif8", "ascend-950")
    assert_same(product[:, 0].astype(np.float64), codes.astype(np.float64))


def test_a_product_stays_on_its_device():
    watched = WatchedArithmetic(DeviceArithmetic(device_named("gpu-blackwell")))
    x = np.random.default_rng(3).standard_normal((4, 64)).astype(np.float32)
    found = multiply_as(simulate_array(x, watched), x.T, "mxfp4")
    assert watched.has_computed
    assert found.arithmetic is watched
    assert_same(np.asarray(found), multiply_as(x, x.T, "mxfp4", "gpu-blackwell"))
    assert multiply_as(x, simulate_array(x.T, watched), "mxfp4").arithmetic is watched


@pytest.mark.parametrize(
    ("format", "device", "said", "hint"),
    [
        ("mxfp5", "gpu-blackwell", r'format=mxfp5 on device=gpu-blackwell; did you mean "mxfp4"', "mxfp8_e4m3"),
        ("nvfp4", "gpu-hopper", "expected one of float8_e4m3fn, .* but got format=nvfp4", "float8_e4m3fn"),
        ("nvfp4", "ascend", "expected a device with operands: in its table but got format=nvfp4", "gpu-blackwell"),
    ],
)
def test_a_format_that_a_device_lacks(format, device, said, hint):
    with pytest.raises(UserError, match=said) as caught:
        multiply_as(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), format, device)
    assert caught.value.slug == "unsupported-format"
    assert hint in caught.value.hint


def test_without_a_device_there_is_no_unit():
    with pytest.raises(ValueError, match="expected the name of a device"):
        multiply_as(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), "mxfp4")


OWN = """\
about: ours
formats:
  short: {precision: 14, min_exponent: -126, max_exponent: 127}
matmul:
  float32: {input: mxfp6_e3m2, product: exact, accumulator: short, rounding: toward_zero}
operands:
  halves: {input: bf16, product: exact, accumulator: float32, split: {parts: 2, products: 3, first: largest}}
  fp8_1x128:
    product: exact
    accumulator: float32
    promotion: {length: 128, accumulator: float32, inner: {length: 32, accumulator: short}}
  short: {product: exact, accumulator: short}
"""


@pytest.fixture
def own(tmp_path):
    """Return the function that reads a table of the project's own."""

    def own(text):
        folder = tmp_path / DEVICES_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "npu.yaml").write_text(text)
        return device_named("npu", tmp_path)

    return own


def test_a_table_of_a_project(own):
    device = own(OWN)
    blocks = BLOCK_OPERANDS["mxfp6_e3m2"]
    short = device.operand_unit("short").accumulator
    assert device.matmul["float32"] == Unit(
        blocks.element,
        short,
        SINGLE,
        rounding="toward_zero",
        promotion=Promotion(32, short, Rounding.TOWARD_ZERO),
        blocks=blocks,
    )
    assert device.operand_unit("halves").split == Split(2, ((0, 0), (0, 1), (1, 0)))
    assert device.operand_unit("short") == Unit(short, short, SINGLE)
    x = simulate_array(np.random.default_rng(4).standard_normal((3, 64)).astype(np.float32), DeviceArithmetic(device))
    plain = np.asarray(x)
    assert_same(
        np.asarray(x @ x.T).astype(np.float64),
        np.array(exact_scaled_matmul(plain.tolist(), plain.T.tolist(), device.matmul["float32"])),
    )


@pytest.mark.parametrize(
    ("before", "after", "line", "slug", "said"),
    [
        ("mxfp6_e3m2", "mxfp6_e3m3", 5, "unknown-format", 'did you mean "mxfp6_e3m2"?'),
        ("  short: {product", "  shrot: {product", 12, "unknown-format", 'did you mean "short"?'),
        ("parts: 2", "parts: 1", 7, "bad-device", "expected 2 to 6 parts but got parts=1"),
        ("parts: 2", "parts: two", 7, "bad-device", "expected a whole number of 1 or more but got parts=two"),
        ("products: 3", "products: 2", 7, "bad-device", "expected one of 1, 3, 4 products of 2 parts but got 2"),
        ("first: largest", "first: big", 7, "bad-device", "expected smallest or largest but got first=big"),
        ("first: largest", "frist: largest", 7, "unknown-key", 'did you mean "first"?'),
        ("first: largest", "run: 0", 7, "bad-device", "expected a whole number of 1 or more but got run=0"),
        (", products: 3", "", 7, "missing-key", "expected products:"),
        ("length: 128", "length: 64", 8, "bad-value", "expected a promotion of length=128"),
        ("length: 32", "length: 128", 11, "bad-device", "expected an inner length below 128 but got length=128"),
        ("length: 32, accumulator: short", "length: 32", 11, "missing-key", "expected accumulator:"),
        ("accumulator: float32, inner", "accumulator: float64, inner", 8, "bad-value", "at most 24 bits"),
        ("  fp8_1x128:", "  int4_g128:", 8, "bad-device", "expected a format for the operand without scales"),
        ("input: bf16", "input: int4_g128", 7, "bad-device", "expected int4_g128 as the name of an entry"),
        ("length: 128", "length: most", 11, "bad-device", "expected a whole number of 1 or more but got length=most"),
        ("input: bf16", "input: mxfp4", 7, "bad-value", "but got a split"),
        ("matmul:\n  float32:", "reductions:\n  float32:", 5, "unknown-key", "product=exact"),
    ],
)
def test_every_mistake_has_its_line(own, before, after, line, slug, said):
    assert before in OWN
    with pytest.raises(UserError) as caught:
        own(OWN.replace(before, after))
    error = caught.value
    assert (error.slug, said in error.message) == (slug, True), error
    assert error.line == line


def test_only_float32_has_parts_and_reductions_have_no_blocks(own):
    split = "matmul:\n  float16: {input: bf16, product: exact, accumulator: float32, split: {parts: 2, products: 3}}"
    with pytest.raises(UserError, match="expected split only for float32") as caught:
        own(f"about: x\n{split}\n")
    assert (caught.value.slug, caught.value.line) == ("bad-device", 3)
    with pytest.raises(UserError, match="whose numbers have no blocks but got input=mxfp4") as caught:
        own("about: x\nreductions:\n  float32: {input: mxfp4, accumulator: float32}\n")
    assert caught.value.slug == "bad-device"
