from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precreg.baseline.suite_file import baseline_header, decode_entry
from precreg.baseline.text import parse_baseline, parse_finite, render_baseline
from precreg.errors import UserError
from precreg.types.outcome import Histogram
from precreg.types.record import BaselineEntry, BaselineOutput
from tests.baseline.samples import entries, entry

HEADER = baseline_header("generic", "unit/row_sum")
SCHEMA = HEADER["schema"].encode()
SAMPLE = render_baseline(HEADER, {"float16": entry(error=0.5, reason="first"), "float32": entry(error=0.0625)}).encode()


def read(data: bytes) -> dict[str, BaselineEntry]:
    return parse_baseline(data, "baselines/f.json", HEADER, decode_entry)


def refused(data: bytes) -> UserError:
    with pytest.raises(UserError) as caught:
        read(data)
    assert caught.value.file == "baselines/f.json"
    return caught.value


def line_of(data: bytes, start: bytes, occurrence: int = 1) -> int:
    lines = [number for number, line in enumerate(data.split(b"\n"), 1) if line.strip().startswith(start)]
    return lines[occurrence - 1]


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=12), entries(), max_size=4))
def test_rendering_what_was_parsed_gives_the_same_bytes_and_values(cases):
    text = render_baseline(HEADER, cases)
    again = read(text.encode())
    assert again == cases
    assert render_baseline(HEADER, again) == text
    assert list(again) == sorted(cases)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=12), entries(), max_size=2))
def test_any_json_reader_gets_what_was_stored(cases):
    document = json.loads(render_baseline(HEADER, cases))
    assert {name: case["duration_s"] for name, case in document["cases"].items()} == {
        name: case.duration_s for name, case in cases.items()
    }


@pytest.mark.parametrize("value", [5e-324, 1.7976931348623157e308, -0.0, 0.1 + 0.2, 1e22])
def test_floats_come_back_with_their_bits(value):
    stored = (
        read(render_baseline(HEADER, {"a": entry(error=value)}).encode())["a"]
        .outputs["out"]
        .metrics["mean_abs_error"][0]
    )
    assert (stored, math.copysign(1, stored)) == (value, math.copysign(1, value))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_never_rendered(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        render_baseline(HEADER, {"a": entry(error=value)})


def test_a_sketch_is_one_line_and_an_output_of_that_name_is_not():
    output = BaselineOutput("float16", (), ["d"], {"bias": [0.5]})
    case = BaselineEntry("1:a", ["i"], "", "", "", "", "", 0.0, {"sketch": output}, {"sketch": Histogram(0, [1], [2])})
    lines = [line.strip() for line in render_baseline(HEADER, {"sketch": case}).splitlines()]
    assert '"sketch": {"sketch":{"zeros":0,"bins":[1],"counts":[2]}}' in lines
    assert '"dtype": "float16",' in lines


def test_two_sides_that_add_different_cases_merge_without_a_conflict_in_any_other():
    before = render_baseline(HEADER, {"b": entry(), "d": entry()}).splitlines()
    after = render_baseline(HEADER, {"b": entry(), "c": entry(error=0.5), "d": entry()}).splitlines()
    added = len(after) - len(before)
    start = after.index('    "c": {')
    assert after[:start] + after[start + added :] == before


@pytest.mark.parametrize("marker", ["<<<<<<< HEAD", "=======", ">>>>>>> feature", "<<<<<<< HEAD\r"])
def test_a_conflict_marker_is_named_with_its_line(marker):
    lines = SAMPLE.decode().split("\n")
    lines.insert(9, marker)
    problem = refused("\n".join(lines).encode())
    assert (problem.slug, problem.line) == ("conflicted-baseline", 10)


def test_a_reason_that_looks_like_a_conflict_marker_is_none():
    case = entry(reason="=======\n<<<<<<< HEAD")
    assert read(render_baseline(HEADER, {"a": case}).encode()) == {"a": case}


@settings(deadline=None)
@given(st.integers(0, len(SAMPLE) - 3))
def test_a_half_written_file_is_unreadable_wherever_it_ends(length):
    assert refused(SAMPLE[:length]).slug == "unreadable-baseline"


def test_broken_json_is_named_with_its_line():
    problem = refused(SAMPLE.replace(b'"inputs": [', b'"inputs": [,', 1))
    assert (problem.slug, problem.line) == ("unreadable-baseline", line_of(SAMPLE, b'"inputs"'))


def test_bytes_that_are_no_text_are_named_with_their_line():
    problem = refused(SAMPLE.replace(b'"reason": "first', b'"reason": "\xfffirst', 1))
    assert (problem.slug, problem.line) == ("unreadable-baseline", line_of(SAMPLE, b'"reason"'))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b'"shape": [8]', b'"shape": ["8"]', 'expected a whole number but got outputs.out.shape.0="8"'),
        (b'"dtype": "float16",', b"", "expected outputs.out.dtype: but the key is not there"),
        (
            b'"dtype": "float16",',
            b'"dtype": "float16", "dtyqe": "float16",',
            'expected one of dtype, shape, digests, metrics but got outputs.out.dtyqe=float16; did you mean "dtype"?',
        ),
        (b'["d0", ', b"[", "expected a value for each of 2 seeds but got 1 in outputs.out.digests"),
        (
            b"[0.0625, 0.0625]",
            b"[0.0625]",
            "expected a value for each of 2 seeds but got 1 in outputs.out.metrics.mean_abs_error",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_case_and_line(before, after, said):
    start, last_case = SAMPLE.index(b'"float32"'), line_of(SAMPLE, b'"float32"')
    problem = refused(SAMPLE[:start] + SAMPLE[start:].replace(before, after, 1))
    assert (problem.slug, problem.line) == ("unreadable-baseline", last_case)
    assert problem.message == f"'float32': {said}"


def test_a_histogram_with_a_count_too_few_is_unreadable():
    problem = refused(SAMPLE.replace(b'"counts":[7,8]', b'"counts":[7]'))
    assert problem.message == "'float16': sketch.out: expected a count for each of 2 bins but got 1"


def test_a_case_that_a_merge_doubled_is_refused_where_it_stands_again():
    doubled = SAMPLE.replace(b'"float32"', b'"float16"')
    problem = refused(doubled)
    assert (problem.slug, problem.line) == ("unreadable-baseline", line_of(doubled, b'"float16"', 2))
    assert "'float16' twice" in problem.message


@pytest.mark.parametrize("literal", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_a_number_that_is_not_finite_is_refused(literal):
    problem = refused(SAMPLE.replace(b"[0.5, 0.5]", b"[0.5, " + literal + b"]"))
    assert (problem.slug, problem.line) == ("unreadable-baseline", line_of(SAMPLE, b'"mean_abs_error"'))
    assert literal.decode() in problem.message


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b'{"cases": []}', b"[" * 100_000, b"9" * 5000, b"{}"])
def test_json_of_another_kind_is_unreadable(data):
    assert refused(data).slug == "unreadable-baseline"


def test_a_schema_from_the_future_says_so_before_anything_else():
    future = SAMPLE.replace(SCHEMA, b"precreg-baseline/5").replace(b'"dtype"', b'"format"')
    assert refused(future).slug == "future-schema"


def test_an_old_schema_says_so_before_anything_else():
    """Its digests are SHA-256: taken for ours, they would call every input and every bit changed."""
    old = SAMPLE.replace(SCHEMA, b"precreg-baseline/1").replace(b'"dtype"', b'"format"')
    problem = refused(old)
    assert problem.slug == "old-schema"
    assert "expected schema precreg-baseline/4 but got schema=precreg-baseline/1" in problem.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SCHEMA, b"precreg-record/7"),
        (SCHEMA, b"precreg-baseline/two"),
        (b'"unit/row_sum"', b'"unit/softmax"'),
        (b'"generic"', b'"ascend"'),
        (b'"environment"', b'"enviroment"'),
    ],
)
def test_a_file_that_is_not_what_its_place_says_is_unreadable(before, after):
    assert refused(SAMPLE.replace(before, after, 1)).slug == "unreadable-baseline"


@pytest.mark.parametrize(
    "number", ["1e999", "1e9999", "1" * 250 + "e99", "1" * 400 + ".0", "-2E+400", "NaN", "-Infinity"]
)
def test_numbers_that_are_infinite_in_float64_are_refused(number):
    with pytest.raises(ValueError, match="a number that is not finite"):
        parse_finite(f'{{"a": [0.5, {number}]}}')
    with pytest.raises(ValueError, match="a number that is not finite"):
        parse_finite(number)


@pytest.mark.parametrize("number", ["1e308", "1" * 199 + "e99", "0e9999", "1.5e-320", "1e-999"])
def test_numbers_that_are_finite_in_float64_are_read(number):
    assert parse_finite(f'{{"a": {number}}}') == {"a": float(number)}
