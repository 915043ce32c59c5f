"""CSV tables: RFC 4180, lines in every error, and which cell is a number."""

import math

import pytest

from precreg.errors import UserError
from precreg.storage.table_file import parse_figure, read_table


@pytest.fixture
def table(tmp_path):
    def table(content, name="t.csv", delimiter=None):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_table(path, name, delimiter)

    return table


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_header_shows_the_delimiter(table, delimiter):
    found = table("op,ulp\nexp,1\nlog,2.5\n".replace(",", delimiter))
    assert found.columns == ("op", "ulp")
    assert [(row.line, dict(row.cells)) for row in found.rows] == [
        (2, {"op": "exp", "ulp": "1"}),
        (3, {"op": "log", "ulp": "2.5"}),
    ]


def test_quotes_line_ends_and_a_byte_order_mark_are_those_of_rfc_4180(table):
    found = table(b'\xef\xbb\xbfop,note\r\n"exp","a ""b"", c\nd"\r\n\r\nlog,x\r\n')
    assert [(row.line, row.cells["note"]) for row in found.rows] == [(2, 'a "b", c\nd'), (5, "x")]


def test_a_declared_delimiter_wins(table):
    assert table("a,b;c\n1;2\n", delimiter=";").columns == ("a,b", "c")


def test_an_index_of_pandas_has_no_name(table):
    assert table(",op,\n0,exp,1\n").columns == ("", "op", "")


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        ("", 0, "file is empty"),
        ("op,ulp\n", 0, "at least one row"),
        ("op,ulp,op\nexp,1,2\n", 1, "op is column 1 and column 3"),
        ("op,ulp\nexp,1,5\n", 2, "2 cells, as in the header, but got 3; a number such as 1,5 is two cells: write 1.5"),
        ("op,ulp\n\nexp,1\nlog\n", 4, "2 cells, as in the header, but got 1"),
        (b"op,ulp\nexp,\xb5\n", 2, "byte 0xb5; save it as CSV UTF-8"),
        ('op,ulp\nexp,"1\n', 2, "RFC 4180"),
        ("op,ulp\nexp," + "9" * 200_000 + "\n", 2, "field larger"),
    ],
)
def test_a_mistake_names_its_line(table, content, line, says):
    with pytest.raises(UserError) as caught:
        table(content)
    assert (caught.value.slug, caught.value.file, caught.value.line or 0) == ("bad-table", "t.csv", line)
    assert says in caught.value.message


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(UserError) as caught:
        read_table(tmp_path / "t.csv", "t.csv")
    assert (caught.value.slug, caught.value.file) == ("missing-file", "t.csv")


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(UserError, match="expected a file that can be read"):
        read_table(tmp_path, "t.csv")


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1", 1.0), ("-2.5e-3", -0.0025), (".5", 0.5), ("7.", 7.0), ("+3E2", 300.0), ("-inf", -math.inf)],
)
def test_a_number(cell, value):
    assert parse_figure(cell) == value


@pytest.mark.parametrize("cell", ["nan", "NaN", "-nan"])
def test_not_a_number(cell):
    assert math.isnan(parse_figure(cell))


@pytest.mark.parametrize("cell", ["", "NA", "null", "None", "-", "<NA>"])
def test_an_empty_cell(cell):
    assert parse_figure(cell) is None


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("1,5", "a number with a decimal point, 1.5,"),
        ("1_000", "a number"),
        ("0x10", "a number"),
        ("12 ULP", "a number"),
        ("--1", "a number"),
        ("infinite", "a number"),
    ],
)
def test_other_text_is_refused(cell, says):
    with pytest.raises(ValueError, match=f"^{says}$"):
        parse_figure(cell)
