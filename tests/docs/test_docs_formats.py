"""docs/formats.md: its tables are held against the formats and roundings, its commands are run."""

import re
import shlex
from math import inf, isnan

import pytest

from precreg.arithmetic.bits import field_widths
from precreg.arithmetic.formats import (
    FORMAT_SUFFIXES,
    NAMED_FORMATS,
    OVERFLOWS,
    SHORT,
    SIMULATED_FORMATS,
    SWITCHES,
    WIDEST,
    Rounding,
    format_named,
    parse_format,
)
from precreg.cli.bits import FIXED_POINT_NAMES, bits_command
from tests.docs.test_docs import names, page, sections, table
from tests.e2e.command import precreg

PAGE = page("formats.md")
PARTS = sections(PAGE)
COLUMNS = (
    "format",
    "short",
    "bits",
    "precision",
    "exponents",
    "largest",
    "smallest normal",
    "smallest",
    "beyond the largest",
    "negative zero",
    "subnormals",
)
BEYOND = {"inf": lambda format: format.overflow == inf, "nan": lambda format: isnan(format.overflow)}


def test_every_format_is_in_the_table_with_its_numbers():
    rows = table(PARTS["Formats"], *COLUMNS)
    assert [row["format"] for row in rows] == list(NAMED_FORMATS)
    assert names(re.search(r"All but ([^.]*) are dtypes", PARTS["Formats"])[1]) == list(SIMULATED_FORMATS)
    for row in rows:
        format = NAMED_FORMATS[row["format"]]
        short = re.findall(r"\w+", row["short"])
        assert short == [short for short, name in SHORT.items() if name == format.name]
        assert int(row["bits"]) == 1 + sum(field_widths(format))
        assert int(row["precision"]) == format.precision
        assert row["exponents"] == f"{format.min_exponent} to {format.max_exponent}"
        assert float(row["largest"]) == format.largest
        assert float(row["smallest normal"]) == format.smallest_normal
        smallest = format.smallest_subnormal if format.subnormals else format.smallest_normal
        assert float(row["smallest"]) == smallest
        is_so = BEYOND.get(row["beyond the largest"], lambda format: format.overflow == format.largest)
        assert is_so(format)
        assert (row["negative zero"], row["subnormals"]) == tuple(
            "yes" if has else "no" for has in (format.negative_zero, format.subnormals)
        )


def test_what_may_stand_behind_a_name_is_told():
    told = names(PARTS["Formats"].partition("Any name may end in")[2].partition("A format of your own")[0])
    assert [name for name in told if name.startswith("_")] == list(FORMAT_SUFFIXES)
    assert all(format_named(name) for name in told if not name.startswith("_"))
    assert all(f"`{name}`" in PARTS["Formats"] for name in SIMULATED_FORMATS)


def test_the_keys_of_a_definition_and_their_bounds():
    rows = {row["key"]: row["meaning"] for row in table(PAGE, "key", "meaning")}
    assert set(rows) == {*WIDEST, "overflow", *SWITCHES}
    assert names(rows["overflow"]) == list(OVERFLOWS)
    for key, bound in WIDEST.items():
        assert str(bound) in rows[key]
    least = {"precision": 1, "min_exponent": 0, "max_exponent": 0}
    assert parse_format("least", least).largest == 1.0


def test_every_rounding_is_in_the_table():
    rows = table(PAGE, "rounding", "a number between two neighbours goes to")
    assert [row["rounding"] for row in rows] == list(Rounding)


SHOWN = re.findall(r"^```console\n\$ precreg ([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("line", "expected"), SHOWN)
def test_commands_print_what_the_page_shows(line, expected, tmp_path):
    done = precreg(tmp_path, *shlex.split(line))
    assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)


def test_the_published_conversion_and_sums_are_shown():
    said = dict(SHOWN)
    first = said["bits 1.12156456132 --format fp32 --format fp16"]
    assert re.findall(r"value +(\S+)", first) == ["1.12156450748443603515625", "1.12109375"]
    for name, total in {"fp16": "1.25", "fp32": "1.24957275390625"}.items():
        assert re.findall(r"value +(\S+)", said[f"bits 1.125 + 0.12457275390625 --format {name}"]) == [total]
    assert re.findall(r"value +(\S+)", said["bits 1.125 - 0.00041999 --format fp16"]) == ["1.125"]


def test_every_option_and_kind_of_value_is_in_the_tables(tmp_path):
    rows = table(PAGE, "option", "meaning")
    assert [row["option"].split()[0] for row in rows] == [option.opts[0] for option in bits_command.params[1:]]
    assert all(f"`{name}`" in rows[0]["meaning"] for name in FIXED_POINT_NAMES)
    written = [name for row in table(PAGE, "value", "meaning") for name in names(f"`{row['value']}`")]
    assert precreg(tmp_path, "bits", *written).returncode == 0
