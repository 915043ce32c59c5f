"""Packed values read as the values that they hold, and give their JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, json

from precreg.storage import PackedEach, StructPacker, encode_json, is_reduced, pack_dict, pack_tuple, unpack_struct
from precreg.storage.record_file import (
    decode_record,
    encode_by_items,
    encode_record,
    read_by_items,
    write_packed_record,
)

FIGURES = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text(max_size=20)


class Row(Struct, frozen=True):
    name: str
    figures: dict[str, float]


class Table(Struct, frozen=True):
    schema: str
    rows: tuple[Row, ...]
    note: str = ""


ROWS = st.builds(Row, NAMES, st.dictionaries(NAMES, FIGURES, max_size=4))


@given(st.lists(ROWS, max_size=5).map(tuple), st.booleans())
def test_a_packed_tuple_reads_as_the_tuple(rows, reduced):
    packed = pack_tuple(rows, Row, reduced=reduced)
    assert (packed == rows, [*packed], len(packed), packed[:1]) == (True, [*rows], len(rows), rows[:1])
    assert is_reduced(packed) == (reduced and bool(rows))
    assert encode_json(packed) == json.encode(rows)
    assert pack_tuple(packed, Row) is packed


@given(st.dictionaries(NAMES, FIGURES, max_size=8))
def test_a_packed_dict_reads_as_the_dict(figures):
    packed = pack_dict(figures, float)
    assert (packed == figures, {**packed}, [*packed.items()]) == (True, figures, [*figures.items()])
    assert packed.get("no such name, which is longer than 20") is None
    assert encode_json(packed) == json.encode(figures)
    row = unpack_struct(Row("a", packed))
    assert (row, type(row.figures)) == (Row("a", figures), dict)


def test_packed_values_that_differ_are_not_equal():
    one, other = (pack_dict({"a": value}, float) for value in (1.0, 2.0))
    assert one == pack_dict({"a": 1.0}, float)
    assert one != other
    assert one != {"a": 2.0}


def test_only_packed_values_have_a_hook():
    with pytest.raises(NotImplementedError, match="no JSON for object"):
        encode_json({"a": object()})


@given(st.dictionaries(NAMES, ROWS, max_size=5))
def test_structs_are_packed_one_by_one(rows):
    packer = StructPacker(Row)
    packed = PackedEach(packer, {name: packer.pack(row) for name, row in rows.items()})
    assert ({**packed}, len(packed)) == (rows, len(rows))
    assert "no such name, which is longer than 20" not in packed


@given(st.lists(ROWS, max_size=5).map(tuple))
def test_a_record_in_lines_is_the_same_record(rows):
    table = Table("t/1", rows, "a\nb")
    parts = b"".join(encode_by_items(table, "rows", rows))
    assert json.decode(parts, type=Table) == table
    assert parts.replace(b"\n", b"") + b"\n" == encode_record(table)


def test_a_record_is_read_line_by_line(tmp_path):
    rows = tuple(Row(f"case {number}\n]", {"a": 0.1 * number}) for number in range(100))
    table, path, found = Table("t/1", rows, "]\n"), tmp_path / "t.json.gz", []
    write_packed_record(encode_by_items(table, "rows", rows), path)
    rest = read_by_items(path, "rows", lambda item: found.append(json.decode(item, type=Row)))
    assert tuple(found) == rows
    assert decode_record(rest, path, Table, "t/1", "a table") == Table("t/1", (), "]\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.json.gz"]


def test_another_form_is_not_read_line_by_line(tmp_path):
    table = Table("t/1", (Row("a", {}),))
    whole, cut = tmp_path / "whole.json.gz", tmp_path / "cut.json.gz"
    write_packed_record([encode_record(table)], whole)
    write_packed_record(encode_by_items(table, "rows", table.rows), cut)
    cut.write_bytes(cut.read_bytes()[:-4])
    for path in (whole, cut):
        with pytest.raises(ValueError, match=r"another form|ended before"):
            read_by_items(path, "rows", lambda item: None)
