"""Devices from YAML: what a table says, and every mistake in one, with its place."""

import pytest

from precreg.arithmetic.devices.device import (
    FUNCTION_METHODS,
    Approximation,
    Cast,
    Elementwise,
    StorageCast,
    device_named,
    device_names,
    device_table_paths,
)
from precreg.arithmetic.devices.elementwise import _FUNCTIONS
from precreg.arithmetic.formats import FORMATS, Rounding, format_named
from precreg.arithmetic.unit import Order, Unit
from precreg.errors import UserError
from precreg.storage.files import DEVICES_FOLDER

OWN = """\
about: ours
formats:
  nine: {precision: 9, min_exponent: -30, max_exponent: 31, overflow: saturate}
elementwise:
  float32: {format: nine, rounding: down, input: bf16, seed: 7}
matmul:
  float16: {product: fp16, accumulator: fp32_flush, order: lanes, width: 4}
  float32: {product: exact, accumulator: nine, output: nine, rounding: odd, conversion: up}
reductions:
  bfloat16: {accumulator: float32, order: pairwise}
functions:
  exp: {polynomial: 3}
  sqrt: {newton: 2}
  tanh: {table: 64}
casts:
  float16: {format: float16_sat, rounding: toward_zero}
hops:
  - {place: host, format: float32}
  - {place: unit, format: nine, rounding: stochastic}
"""


@pytest.fixture
def own(tmp_path):
    """Return the function that reads a table of the project's own."""

    def own(text, name="npu", suffix=".yaml"):
        folder = tmp_path / DEVICES_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}{suffix}").write_text(text)
        return device_named(name, tmp_path)

    return own


def test_a_table_says_all_of_a_device(own):
    device = own(OWN)
    nine, half, single = device.elementwise["float32"].format, FORMATS["float16"], FORMATS["float32"]
    assert (nine.precision, nine.largest, nine.overflow) == (9, (2 - 2**-8) * 2**31, nine.largest)
    assert (device.name, device.about) == ("npu", "ours")
    assert device.elementwise == {"float32": Elementwise(nine, Rounding.DOWN, FORMATS["bfloat16"], 7)}
    flushing = format_named("float32_flush")
    assert device.matmul == {
        "float16": Unit(half, flushing, half, half, order=Order.LANES, width=4),
        "float32": Unit(single, nine, nine, None, Rounding.ODD, Rounding.UP),
    }
    brain = FORMATS["bfloat16"]
    assert device.reductions == {"bfloat16": Unit(brain, single, brain, order=Order.PAIRWISE)}
    assert device.functions["tanh"] == Approximation("table", 64)
    assert device.casts == {"float16": Cast(format_named("float16_sat"), Rounding.TOWARD_ZERO)}
    assert device.storage_casts == (StorageCast("host", single), StorageCast("unit", nine, Rounding.STOCHASTIC))


def test_what_is_shipped():
    devices = {name: device_named(name) for name in device_names(None)}
    assert all(device.about and device.name == name for name, device in devices.items())
    ascend, mlu370, gpu = devices["ascend"], devices["mlu370"], devices["gpu-tf32"]
    assert (ascend.matmul["float32"].input.name, ascend.matmul["float32"].accumulator.name) == ("float16", "float32")
    assert [hop.format.name for hop in ascend.storage_casts] == ["float32", "float32", "float16", "float16"]
    twenty = mlu370.elementwise["float32"]
    assert (twenty.format.precision, twenty.format.subnormals, twenty.rounding) == (21, False, Rounding.TOWARD_ZERO)
    assert mlu370.matmul["float32"].product == twenty.format, "separate pipelines: the product is rounded"
    assert gpu.matmul["float32"].input.name == "tf32"
    assert gpu.matmul["float32"].product is None, "fused: the product is exact"


def test_a_device_may_be_like_a_shipped_one(own):
    device = own(
        "about: narrow\nlike: ascend\n"
        "matmul:\n  float16: {product: exact, accumulator: float16}\nhops: [{place: a, format: bf16}]"
    )
    ascend = device_named("ascend")
    assert device.matmul == ascend.matmul | {"float16": Unit(*[FORMATS["float16"]] * 3)}
    assert (device.elementwise, device.functions) == (ascend.elementwise, ascend.functions)
    assert [hop.place for hop in device.storage_casts] == ["a"]


def test_a_projects_own_are_named_after_their_files(own, tmp_path):
    own("about: one")
    own("about: two", "npu-2", ".yml")
    assert device_names(tmp_path) == sorted([*device_names(None), "npu", "npu-2"])
    assert "suites/devices/npu-2.yml" in device_table_paths("npu-2")


@pytest.mark.parametrize(
    ("before", "after", "line", "slug", "said"),
    [
        ("bf16", "bf17", 5, "unknown-format", 'did you mean "bf16"?'),
        ("format: nine, rounding: down", "format: niin, rounding: down", 5, "unknown-format", 'did you mean "nine"?'),
        ("rounding: down", "rounding: donw", 5, "unknown-rounding", 'did you mean "down"?'),
        ("precision: 9", "precision: 0", 3, "bad-format", "precision=0"),
        ("precision: 9", "precison: 9", 3, "bad-format", 'did you mean "precision"?'),
        ("overflow: saturate", "zero: false", 3, "bad-format", "expected a format with a zero"),
        ("nine: {", "tf32: {", 3, "bad-device", "expected a name that no format of precreg has but got tf32"),
        (
            "nine: {precision: 9, ",
            "nine: {precision: 25, ",
            5,
            "bad-device",
            "whose numbers float32 has but got format=nine",
        ),
        ("max_exponent: 31", "max_exponent: 200", 5, "bad-device", "whose numbers float32 has"),
        ("min_exponent: -30", "min_exponent: -200", 5, "bad-device", "whose numbers float32 has"),
        ("seed: 7", "seed: 7.5", 5, "bad-device", "expected a whole number of 0 or more but got seed=7.5"),
        ("seed: 7", "seed: -7", 5, "bad-device", "expected a whole number of 0 or more but got seed=-7"),
        ("  float32: {format: nine", "  float23: {format: nine", 5, "unknown-dtype", 'did you mean "float32"?'),
        (
            "  float32: {format: nine",
            "  int8: {format: nine",
            5,
            "unknown-dtype",
            "floating-point dtype but got elementwise=int8",
        ),
        ("product: fp16, ", "", 7, "missing-key", "expected product:"),
        ("product: fp16", "product: exakt", 7, "unknown-format", "format=exakt"),
        ("order: lanes", "order: lane", 7, "bad-device", 'got order=lane; did you mean "lanes"?'),
        ("width: 4", "width: 0", 7, "bad-device", "expected a whole number of 1 or more but got width=0"),
        (", width: 4", "", 7, "bad-device", "expected a width beside order=lanes but got none"),
        ("order: pairwise", "width: 4", 10, "bad-device", "expected no width beside order=sequential but got width=4"),
        ("accumulator: float32, ", "", 10, "missing-key", "expected accumulator:"),
        ("accumulator: float32, ", "accumulater: float32, ", 10, "unknown-key", 'did you mean "accumulator"?'),
        ("exp: {polynomial: 3}", "erf: {polynomial: 3}", 12, "bad-device", "but got erf="),
        ("exp: {polynomial: 3}", "exp: {newton: 3}", 12, "unknown-key", "expected one of polynomial, table"),
        ("exp: {polynomial: 3}", "exp: {polynomial: 3, table: 9}", 12, "bad-device", "expected one method"),
        (
            "exp: {polynomial: 3}",
            "exp: {table: 2000000000}",
            12,
            "bad-device",
            "expected at most 1048576 but got table=",
        ),
        ("newton: 2", "newton: 1000", 13, "bad-device", "expected at most 64 but got newton=1000"),
        ("newton: 2", "newton: true", 13, "bad-device", "newton=true"),
        ("float16_sat", "float32", 16, "bad-device", "whose numbers float16 has but got format=float32"),
        ("place: unit", "place: host", 19, "bad-device", "expected each place once but got place=host again"),
        ("place: unit", "place: 3", 19, "bad-device", "expected text but got place=3"),
        ("stochastic", "by_chance", 19, "unknown-rounding", "rounding=by_chance"),
        ("about: ours\n", "", 1, "missing-key", "expected about:"),
        ("about: ours", "about: ' '", 1, "bad-device", "expected text but got about="),
        ("hops:", "hopps:", 17, "unknown-key", 'did you mean "hops"?'),
        ("about: ours", "about: ours\nlike: asend", 2, "unknown-device", 'did you mean "ascend"?'),
    ],
)
def test_a_mistake_is_told_with_its_line(own, before, after, line, slug, said):
    assert OWN.count(before) == 1
    with pytest.raises(UserError) as caught:
        own(OWN.replace(before, after))
    assert (caught.value.slug, caught.value.file, caught.value.line) == (slug, f"{DEVICES_FOLDER}/npu.yaml", line)
    assert said in caught.value.message


@pytest.mark.parametrize(
    "text", ["", "[]", "about: x\nhops: []", "about: x\nhops: {place: a}", "about: x\nmatmul: [1]", "3"]
)
def test_what_is_no_mapping_or_list_is_an_error(own, text):
    with pytest.raises(UserError, match="expected a") as caught:
        own(text)
    assert caught.value.slug in ("bad-value", "bad-device")


@pytest.mark.parametrize(
    "section", ["formats: [a]", "functions: 3", "functions: {exp: 3}", "casts: {float16: 1}", "hops: [a]"]
)
def test_so_is_a_section_of_another_kind(own, section):
    with pytest.raises(UserError, match="expected a mapping"):
        own(f"about: x\n{section}")


def test_a_shipped_name_stays_what_it_is(own):
    with pytest.raises(UserError, match="expected a name that precreg does not ship but got device=ascend"):
        own("about: ours", "ascend")


def test_a_device_has_one_table(own):
    own("about: one")
    with pytest.raises(UserError, match=r"suites/devices/npu.yaml: error\[bad-device\]: expected one table .* npu.yml"):
        own("about: two", suffix=".yml")


def test_a_table_lies_inside_the_project(tmp_path):
    project, elsewhere = tmp_path / "project", tmp_path / "npu.yaml"
    elsewhere.write_text("about: of another project")
    (project / DEVICES_FOLDER).mkdir(parents=True)
    (project / DEVICES_FOLDER / "npu.yaml").symlink_to(elsewhere)
    with pytest.raises(UserError, match=r"error\[outside-project\]: .* got path=suites/devices/npu.yaml"):
        device_named("npu", project)


def test_an_unknown_name_is_told_with_the_nearest(own, tmp_path):
    own("about: ours")
    with pytest.raises(UserError, match=r'got device=npv; did you mean "npu"\?') as caught:
        device_named("npv", tmp_path)
    assert caught.value.slug == "unknown-device"


def test_every_function_that_a_table_may_name_is_computed():
    assert set(_FUNCTIONS) == set(FUNCTION_METHODS)
