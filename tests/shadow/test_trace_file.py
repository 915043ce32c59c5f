"""Stored traces: the same values come back, their size is bounded, and a hostile file is refused."""

import json
import math
from itertools import pairwise

import msgspec
import pytest

from precreg.errors import UserError
from precreg.shadow import read_trace, write_trace
from precreg.shadow.trace_file import bound_trace
from precreg.types import ErrorSize, Operation, Site, Trace, TracedArray, TracedOutput, UnmatchedPattern, WatchedValue


def operation(number, own=0.0, share=0.0, line=1):
    return Operation(
        number=number,
        name="add",
        engine="numpy",
        site=Site("k.py", line, "x + y"),
        dtype="float16",
        shape=(2, 3),
        inputs=(TracedArray("float16", (2, 3)),),
        own=ErrorSize(own, max_ulp=math.inf),
        total=ErrorSize(own),
        shares={"out": share},
    )


def trace_of(operations, **fields):
    return Trace(case="unit/x", dtype="float16", operations=tuple(operations), **fields)


def test_every_value_comes_back(tmp_path):
    watched = WatchedValue(
        watch="x[0]", number=1, name="add", dtype="float16", shape=(1,), digest="ab", indices=((0,),), actual=("nan",)
    )
    trace = trace_of(
        [operation(1, math.inf, math.nan), operation(2, 5e-324, -0.25)],
        outputs=(TracedOutput(name="out", dtype="float16", shape=(), rounding=ErrorSize(0.1), tolerances=math.inf),),
        watched=(watched,),
        unmatched=(UnmatchedPattern("y", ("x",)),),
    )
    write_trace(trace, tmp_path / "t.json")
    found = read_trace(tmp_path / "t.json")
    assert math.isnan(found.operations[0].shares["out"])
    assert repr(found) == repr(trace)
    assert json.loads((tmp_path / "t.json").read_text())["schema"] == "precreg-trace/1"


def test_a_long_trace_keeps_the_worst_operations_and_the_totals_of_the_others():
    operations = [operation(number, 1e-4, 1e-5, number % 7) for number in range(1, 1001)]
    operations[500] = operation(501, 0.5, 1e-5)
    operations[700] = operation(701, 1e-4, 0.9)
    trace = trace_of(operations, outputs=(TracedOutput(name="out", dtype="float16", shape=(), number=1000),))
    bounded = bound_trace(trace, 100)
    kept = [each.number for each in bounded.operations]
    assert len(kept) == 100
    assert kept == sorted(kept)
    assert {501, 701, 1000} <= set(kept)
    assert bounded.left_out == 900 == sum(each.operations for each in bounded.left_out_sites)
    shares = sum(each.shares["out"] for each in (*bounded.operations, *bounded.left_out_sites))
    assert shares == pytest.approx(sum(each.shares["out"] for each in operations))
    # The curve keeps its shape: no long stretch is without a point.
    assert max(after - before for before, after in pairwise(kept)) < 50


def test_a_short_trace_is_stored_whole():
    trace = trace_of([operation(1)])
    assert bound_trace(trace, 1) is trace


def test_many_sites_are_bounded_too():
    trace = trace_of([operation(number, 0.1, 0.1, line=number) for number in range(1, 5001)])
    bounded = bound_trace(trace, 100)
    assert len(bounded.left_out_sites) == 1000
    assert sum(each.operations for each in bounded.left_out_sites) == 4900


HOSTILE = {
    "empty": b"",
    "text": b"hello",
    "array": b"[]",
    "another schema": b'{"schema": "precreg-record/1"}',
    "no case": b'{"schema": "precreg-trace/1"}',
    "deep": b'{"schema": "precreg-trace/1", "case": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "bytes": b"\xff\xfe\x00",
    "pickle": b"\x80\x04cos\nsystem\n(S'touch pwned'\ntR.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_another_file_is_refused(tmp_path, name):
    file = tmp_path / "t.json"
    file.write_bytes(HOSTILE[name])
    with pytest.raises(UserError) as caught:
        read_trace(file)
    assert (caught.value.slug, caught.value.file) == ("unreadable-record", str(file))


@pytest.mark.parametrize(
    "operations",
    [
        [{"number": 2}, {"number": 1}],
        [{"number": 0}],
        [{"number": 1, "shape": [-1]}],
        [{"number": 1, "name": 3}],
        [{"number": 1, "own": {"relative": "much"}}],
    ],
)
def test_values_that_no_trace_has_are_refused(tmp_path, operations):
    plain = msgspec.to_builtins(operation(1))
    document = {"schema": "precreg-trace/1", "case": "x", "dtype": "float16"}
    document["operations"] = [{**plain, **changed} for changed in operations]
    file = tmp_path / "t.json"
    file.write_text(json.dumps(document).replace("Infinity", '"inf"'))
    with pytest.raises(UserError) as caught:
        read_trace(file)
    assert caught.value.slug == "unreadable-record"


def test_a_newer_schema_a_folder_and_a_missing_file_are_named(tmp_path):
    newer = tmp_path / "newer.json"
    newer.write_text('{"schema": "precreg-trace/2"}')
    for file, slug in ((newer, "future-schema"), (tmp_path, "unreadable-record"), (tmp_path / "no", "missing-file")):
        with pytest.raises(UserError) as caught:
            read_trace(file)
        assert caught.value.slug == slug


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    file = tmp_path / "t.json"
    with file.open("wb") as stream:
        # A hole of the file system, which takes no space.
        stream.truncate(257 << 20)
    with pytest.raises(UserError, match="too large") as caught:
        read_trace(file)
    assert caught.value.slug == "unreadable-record"
