"""The record of a comparison as a file: nothing is lost, and nothing else is taken for one."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from precreg.comparison.html import read_comparison_record, write_comparison_record
from precreg.errors import UserError
from precreg.types.comparison import ComparisonSettings
from precreg.types.pair import AverageRatio, BenchmarkDifference
from precreg.types.verdict import Finding, Reason
from tests.comparison.made import everything, failed, passed, record_of


def test_a_record_comes_back_as_it_was(tmp_path):
    pair = replace(passed(), benchmark=failed().comparison, benchmark_path="b.npy", benchmark_problem="none")
    ratio = AverageRatio("rms_error", 1.0, 2.0, 0.5, None, None)
    pair = replace(pair, difference=BenchmarkDifference("mixed", (ratio,)))
    settings = ComparisonSettings(
        "a",
        "r",
        "golden",
        "b",
        "m.yaml",
        ("x*",),
        ".",
        {"standard": "jax-1", "rtol": 1e-3},
        {"dtype": "int8"},
        7,
        (),
        True,
    )
    for record in (
        everything(),
        record_of(pair, settings=settings),
        record_of(findings=(Finding(Reason.MISSING_OUTPUT, "nothing"),), exit_code=2),
    ):
        write_comparison_record(record, tmp_path / "record.json")
        assert read_comparison_record(tmp_path / "record.json") == record


def test_values_that_json_has_no_number_for(tmp_path):
    record = everything()
    bad = next(pair for pair in record.pairs if pair.comparison and pair.comparison.non_finite)
    write_comparison_record(record, tmp_path / "record.json")
    text = (tmp_path / "record.json").read_text()
    assert '"nan"' in text
    json.loads(text, parse_constant=pytest.fail)
    stored = next(pair for pair in read_comparison_record(tmp_path / "record.json").pairs if pair.name == bad.name)
    assert stored.comparison.non_finite == bad.comparison.non_finite


@pytest.mark.parametrize(
    ("text", "slug", "says"),
    [
        ("", "unreadable-record", "truncated"),
        ("{}", "unreadable-record", "`schema`"),
        ('{"schema": "precreg-record/1"}', "unreadable-record", "schema='precreg-record/1'"),
        ('{"schema": "precreg-comparison/x"}', "unreadable-record", "schema='precreg-comparison/x'"),
        ('{"schema": "precreg-comparison/3"}', "future-schema", "precreg-comparison/2 or older"),
        ('{"schema": "precreg-comparison/1"}', "unreadable-record", "`precreg`"),
        ('{"schema": "precreg-comparison/2"}', "unreadable-record", "`precreg`"),
    ],
)
def test_what_is_no_record_of_a_comparison_is_refused(tmp_path, text, slug, says):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_comparison_record(path)
    assert (caught.value.slug, caught.value.file) == (slug, str(path))
    assert says in caught.value.message


def test_a_record_of_a_run_is_told_apart(tmp_path):
    from precreg.report.record import read_run_record as read_run
    from tests.report.made import road

    (tmp_path / "run.json").write_bytes(msgspec.json.encode(road()))
    with pytest.raises(UserError, match="the record of a comparison"):
        read_comparison_record(tmp_path / "run.json")
    write_comparison_record(everything(), tmp_path / "comparison.json")
    with pytest.raises(UserError, match="a run record"):
        read_run(tmp_path / "comparison.json")
