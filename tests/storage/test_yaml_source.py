from math import inf, isnan

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from precreg.errors import UserError
from precreg.storage import yaml_source
from precreg.storage.yaml_source import read_yaml


@pytest.fixture
def parse(tmp_path):
    def parse(content):
        path = tmp_path / "x.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_yaml(path, "suites/x.yaml")

    return parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1e5", 1e5),
        ("1E+2", 100.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("-.inf", -inf),
        ("+12", 12),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("True", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("2020-01-01", "2020-01-01"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("1.23.5", "1.23.5"),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("!!float 5", 5),
        ("$shape", "$shape"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(parse, text, value):
    got = parse(f"a: {text}").data["a"]
    assert (got, type(got)) == (value, type(value))


def test_nan_is_a_number(parse):
    assert isnan(parse("a: .nan").data["a"])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_that_python_prints_is_read_back(number):
    assert yaml_source._scalar(repr(number)) == number


@given(st.integers(-(10**30), 10**30))
def test_every_integer_is_read_back(number):
    assert yaml_source._scalar(str(number)) == number


def test_lines_of_keys_and_items(parse):
    source = parse("a:\n  b: 1\n  c:\n    - x\n    - {d: 2}\ne: [3,\n  4]\n")
    assert [source.where(*path).line for path in [("a",), ("a", "c"), ("a", "c", 1, "d"), ("e", 1)]] == [1, 3, 5, 7]


def test_a_key_that_is_not_there_has_the_line_around_it(parse):
    source = parse("a: 1\nb:\n  c: 2\n")
    assert str(source.where("b", "missing", 3)) == "suites/x.yaml:2"
    assert source.where("missing").line == 1


def test_an_alias_repeats_its_value(parse):
    assert parse("a: &x {b: 1}\nc: *x\n").data == {"a": {"b": 1}, "c": {"b": 1}}


def test_an_empty_file_is_none(parse):
    assert parse("# nothing\n").data is None


BOMB = "x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]\n" for i in range(1, 9)
)


@pytest.mark.parametrize(
    ("content", "slug", "line", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", "duplicate-key", 3, "key=a once but line 1"),
        ("a:\n  b: {c: 1, c: 2}\n", "duplicate-key", 2, "key=c once but line 2"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", "yaml-tag", 2, "python/object/apply:os.system"),
        ("a: !include x.yaml\n", "yaml-tag", 1, "tag=!include"),
        ("!!python/name:os.system : 1\n", "yaml-tag", 1, "python/name:os.system"),
        ("a: !!binary aGk=\n", "yaml-tag", 1, "binary"),
        ("a: !!int five\n", "bad-value", 1, "!!int but got 'five'"),
        ("a: 1e999\n", "bad-value", 1, "1e999"),
        ("a: 1\nb: &x [1, *x]\n", "yaml-syntax", 2, "*x"),
        (BOMB, "yaml-syntax", 5, "aliases"),
        ("a: 1\n---\nb: 2\n", "yaml-syntax", 2, "second one"),
        ("a:\n\t- 1\n", "yaml-syntax", 2, "\\t- 1"),
        ("a: [1\nb: 2\n", "yaml-syntax", 2, "expected"),
        ("a: 1\nb: \x07\n", "yaml-syntax", 2, "'\\x07'"),
        (b"a: 1\nb: \xff\n", "yaml-syntax", 2, "byte=0xff"),
        ("a: 1\n<<: {b: 1}\n", "yaml-syntax", 2, "<<"),
        ("? [1]\n: 2\n", "yaml-syntax", 1, "list"),
        ("[" * 100_000, "yaml-syntax", 1, "32 levels"),
        (b"# " + b"x" * yaml_source.MAX_BYTES, "yaml-syntax", None, str(yaml_source.MAX_BYTES)),
    ],
)
def test_what_is_refused(parse, content, slug, line, says):
    with pytest.raises(UserError) as caught:
        parse(content)
    error = caught.value
    assert (error.slug, error.file, error.line) == (slug, "suites/x.yaml", line)
    assert says in error.message


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="No such file") as caught:
        read_yaml(tmp_path / "x.yaml", "suites/x.yaml")
    assert (caught.value.slug, caught.value.file) == ("missing-file", "suites/x.yaml")


def test_without_the_c_parser_the_same_is_read(parse, monkeypatch):
    text = "a: [1e-3, off, {b: 1}]\nc: &x [1]\nd: *x\n"
    fast = parse(text)
    monkeypatch.setattr(yaml_source, "_PARSER", yaml.SafeLoader)
    assert parse(text) == fast
