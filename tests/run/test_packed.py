"""Results of many cases are packed, and neither records nor reports of them differ."""

from msgspec.structs import replace

from precreg.report.html import render_run_html
from precreg.report.record import merge_run_records, write_run_record
from precreg.run.packed import MANY_CASES, PASSED_WITH_SAMPLES, pack_result, pack_results, without_samples
from precreg.storage import encode_json, is_reduced
from precreg.types import Reason, ReusedFrom
from tests.report.made import passed, proposed, regressed, run_of

RECORD = run_of(regressed(), proposed(), *(passed(f"case-{number:03}") for number in range(250)))


def reduced(result):
    return is_reduced(result.outcome.comparisons)


def test_a_packed_result_is_equal_and_has_the_same_json():
    for result in RECORD.results[-1], *RECORD.results[:3]:
        packed = pack_result(result)
        assert packed == result
        assert encode_json(packed) == encode_json(result)
        assert type(packed.outcome.comparisons) is not tuple


def test_a_packed_result_keeps_its_worker_and_the_run_that_computed_it():
    result = RECORD.results[0]
    outcome = replace(result.outcome, worker=3, reused=ReusedFrom("2026-11-21T03:00:00+00:00", "0123abc"))
    result = replace(result, outcome=outcome)
    assert pack_result(result) == result
    assert pack_result(without_samples(result), reduced=True).outcome.reused == outcome.reused


def test_a_packed_result_gives_the_outlines_of_its_comparisons_without_unpacking():
    for result in RECORD.results[:3]:
        packed = pack_result(result)
        # Nothing unpacks these bytes.
        packed.outcome.comparisons._data = b""
        assert packed.outcome.outlines == result.outcome.outlines
        assert [(each.output, each.dtype, each.reference_dtype) for each in packed.outcome.outlines] == [
            (each.output, each.dtype, each.reference_dtype) for each in result.outcome.comparisons
        ]
        assert packed.outcome.described == result.outcome.described


def test_few_cases_stay_objects():
    assert [*map(id, pack_results(RECORD.results, MANY_CASES - 1))] == [*map(id, RECORD.results)]


def test_a_record_of_packed_results_has_the_same_bytes(tmp_path):
    # The results come in any order, and the first ones before the record is known to be large.
    shuffled = sorted(RECORD.results, key=lambda result: result.id[::-1])
    results = sorted(pack_results(shuffled, MANY_CASES, 10_000), key=lambda result: result.id)
    record = replace(RECORD, results=tuple(results))
    thin = [result for result in results if reduced(result)]
    assert 0 < len(thin) <= 250 - PASSED_WITH_SAMPLES
    assert {result.verdict.reason for result in thin} == {Reason.IDENTICAL}
    assert all(without_samples(result) is result for result in thin)
    (tmp_path / "plain").mkdir(), (tmp_path / "packed").mkdir()
    sorted_record = replace(RECORD, results=tuple(sorted(RECORD.results, key=lambda result: result.id)))
    expected = write_run_record(sorted_record, tmp_path / "plain", 1000).read_bytes()
    assert write_run_record(record, tmp_path / "packed", 1000).read_bytes() == expected
    assert render_run_html(record) == render_run_html(sorted_record)
    assert [each.id for each in merge_run_records([record]).results] == [each.id for each in results]
