"""Records: written without loss, read with care, merged in any order."""

import gzip
import os
import struct
from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.report.codequality import render_codequality
from precreg.report.html import render_run_html
from precreg.report.html_data import MAX_PASSED_IN_DETAIL
from precreg.report.junit import render_run_junit
from precreg.report.record import (
    PASSED_WITH_SAMPLES,
    find_record,
    merge_run_records,
    read_merged_run,
    read_run_record,
    require_every_shard,
    write_run_record,
)
from precreg.report.run_findings import add_run_finding_message
from precreg.report.summaries import render_run_markdown
from precreg.report.terminal import render_run_terminal
from precreg.storage import read_json_record, write_json_record
from precreg.types.case import Growth, Study, TradeOff
from precreg.types.cluster import ClusterWorker
from precreg.types.outcome import AxisGroups, Histogram
from precreg.types.record import GitState
from precreg.types.verdict import Reason
from precreg.types.warning import FindingKind, Orphan, UnwritableFolder
from precreg.verdict.whole_run import combined_losses
from tests.report.made import (
    CHANGED,
    LOOSENED,
    REMOVED,
    UNUSED,
    crashed,
    nondeterministic,
    passed,
    proposed,
    regressed,
    road,
    run_of,
)
from tests.verdict.drawn import FINGERPRINT
from tests.verdict.test_combined_loss import result as suite_result

EDGES = [-0.0, 0.0, 5e-324, 2.2250738585072014e-308, 0.1, 1 / 3, 1e308, 1.7976931348623157e308, 1 + 2**-52]


def bits(value):
    return struct.pack("<d", value)


def with_metrics(values):
    case = regressed()
    comparison = replace(case.outcome.comparisons[0], metrics={f"m{i}": value for i, value in enumerate(values)})
    return run_of(replace(case, outcome=replace(case.outcome, comparisons=(comparison,))))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)).map(lambda some: EDGES + some))
def test_floats_come_back_with_their_bits(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "floats.json"
    write_json_record(with_metrics(values), path)
    metrics = read_run_record(path).results[0].outcome.comparisons[0].metrics
    assert [bits(value) for value in metrics.values()] == [bits(value) for value in values]


def test_a_record_comes_back_as_it_was(tmp_path):
    case = regressed()
    worst = replace(case.outcome.comparisons[0].worst, actual=["nan", 2**63], reference=["-inf", "(1+2j)"])
    comparison = replace(case.outcome.comparisons[0], worst=worst)
    record = run_of(replace(case, outcome=replace(case.outcome, comparisons=(comparison,))), crashed(), proposed())
    write_json_record(record, tmp_path / "record.json")
    assert read_run_record(tmp_path / "record.json") == record


def test_where_repeats_differ_comes_back_and_a_record_may_not_know(tmp_path):
    record = run_of(nondeterministic())
    write_json_record(record, tmp_path / "record.json")
    assert read_run_record(tmp_path / "record.json") == record
    fields = msgspec.to_builtins(record)
    del fields["results"][0]["outcome"]["execution"]["differences"]
    (tmp_path / "older.json").write_bytes(msgspec.json.encode(fields))
    execution = read_run_record(tmp_path / "older.json").results[0].outcome.execution
    assert (execution.unsteady, execution.differences) == (("partial", "total", "rest"), ())


def test_a_record_is_one_line(tmp_path):
    write_json_record(road(), tmp_path / "record.json")
    data = (tmp_path / "record.json").read_bytes()
    assert data.count(b"\n") == 1
    assert data.endswith(b"}\n")


def test_what_a_later_version_adds_within_the_schema_is_passed_over(tmp_path):
    fields = msgspec.to_builtins(road()) | {"weather": "fine"}
    fields["results"][0]["mood"] = [1]
    (tmp_path / "r.json").write_bytes(msgspec.json.encode(fields))
    assert read_run_record(tmp_path / "r.json") == road()


@pytest.mark.parametrize(
    ("text", "slug", "says"),
    [
        ("", "unreadable-record", "truncated"),
        ("\x00", "unreadable-record", "malformed"),
        ('{"schema": ' + "[" * 100_000, "unreadable-record", "Expected `str`"),
        ('{"x": ' + "[" * 100_000, "unreadable-record", "recursion"),
        ("[]", "unreadable-record", "Expected `object`, got `array`"),
        ('{"cases": {}}', "unreadable-record", "`schema`"),
        ('{"schema": "precreg-baseline/1"}', "unreadable-record", "schema='precreg-baseline/1'"),
        ('{"schema": "precreg-record/one"}', "unreadable-record", "schema='precreg-record/one'"),
        ('{"schema": "precreg-record/3", "x": 1}', "future-schema", "schema=precreg-record/3"),
        ('{"schema": "precreg-record/1"}', "unreadable-record", "`precreg`"),
        ('{"schema": "precreg-record/2"}', "unreadable-record", "`precreg`"),
    ],
)
def test_what_is_no_record_is_refused_with_its_file_and_what_is_wrong(tmp_path, text, slug, says):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(UserError) as raised:
        read_run_record(path)
    assert (raised.value.slug, raised.value.file) == (slug, str(path))
    assert says in raised.value.message


@pytest.mark.parametrize("shard", [5, None, "1/x", "0/2", "3/2", "1/2/3", "1/1000000000", "1/" + "9" * 5000, [1, 2]])
def test_a_shard_that_is_none_is_refused(tmp_path, shard):
    write_json_record(run_of(passed(), selection={"shard": shard}), tmp_path / "r.json")
    with pytest.raises(UserError, match=r"selection\.shard") as caught:
        read_run_record(tmp_path / "r.json")
    assert caught.value.slug == "unreadable-record"


def test_a_run_of_very_many_shards_names_the_first_that_are_missing():
    with pytest.raises(UserError, match=r"without 2/999999999, 3/999999999, 4/999999999, 5/999999999, 6/999999999\n"):
        require_every_shard([run_of(selection={"shard": "1/999999999"})])


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "r.json").write_bytes(b'{"schema": "\xff"}')
    with pytest.raises(UserError, match="utf-8"):
        read_run_record(tmp_path / "r.json")


def test_half_a_record_is_refused(tmp_path):
    write_json_record(road(), tmp_path / "r.json")
    data = (tmp_path / "r.json").read_bytes()
    (tmp_path / "r.json").write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError, match=r"malformed|truncated"):
        read_run_record(tmp_path / "r.json")


def test_a_value_of_another_kind_is_named_by_its_path(tmp_path):
    fields = msgspec.to_builtins(road())
    fields["results"][1]["verdict"]["status"] = "fine"
    (tmp_path / "r.json").write_bytes(msgspec.json.encode(fields))
    with pytest.raises(UserError, match=r"\$\.results\[1\]\.verdict\.status"):
        read_run_record(tmp_path / "r.json")


def test_a_file_that_is_not_there_and_a_folder_are_told_apart(tmp_path):
    with pytest.raises(UserError) as missing:
        read_run_record(tmp_path / "none.json")
    with pytest.raises(UserError) as folder:
        read_run_record(tmp_path)
    assert (missing.value.slug, folder.value.slug) == ("missing-file", "unreadable-record")


def test_findings_on_the_run_come_back_and_a_record_may_not_know_of_any(tmp_path):
    record = run_of(passed(), findings=(LOOSENED, CHANGED, UNUSED), against="0c1d2e3f")
    write_json_record(record, tmp_path / "record.json")
    assert read_run_record(tmp_path / "record.json") == record
    fields = msgspec.to_builtins(record)
    for name in ("findings", "against"):
        del fields[name]
    (tmp_path / "older.json").write_bytes(msgspec.json.encode(fields))
    assert read_run_record(tmp_path / "older.json") == replace(record, findings=(), against="")


def test_a_finding_of_a_case_that_does_not_know_its_rule_is_read(tmp_path):
    fields = msgspec.to_builtins(road())
    for finding in (one for result in fields["results"] for one in result["verdict"]["findings"]):
        for name in ("rule", "lower", "upper", "floor"):
            del finding[name]
    (tmp_path / "older.json").write_bytes(msgspec.json.encode(fields))
    assert read_run_record(tmp_path / "older.json") == road()


# Merging


def test_shards_make_the_whole_run():
    one = run_of(passed("c"), passed("a"), duration_s=2.0, started="2026-11-21T09:00:05+00:00", exit_code=0)
    other = run_of(regressed("b"), duration_s=1.0, orphans=(Orphan("unit/x/y", "x.json"),))
    merged = merge_run_records([one, other])
    assert [result.name for result in merged.results] == ["a", "b", "c"]
    assert (merged.duration_s, merged.started, merged.exit_code) == (2.0, "2026-11-21T09:00:00+00:00", 1)
    assert merged.orphans == ()


def test_orphans_of_every_shard_and_what_they_were_asked_for_are_kept():
    gone, moved = Orphan("unit/x", "x.json"), Orphan("unit/y", "y.json", "unit/z")
    wide = UnwritableFolder("wide")
    one = run_of(passed("a"), orphans=(gone, moved), warnings=(wide,), selection={"shard": "1/2", "tags": ["fast"]})
    other = run_of(passed("b"), orphans=(moved,), warnings=(wide,), selection={"shard": "2/2", "tags": ["fast"]})
    merged = merge_run_records([one, other])
    assert merged.warnings == (wide,)
    assert (merged.orphans, merged.selection) == ((moved,), {"tags": ["fast"]})


def ran_by(name, worker):
    result = passed(name)
    return replace(result, outcome=replace(result.outcome, worker=worker))


def test_workers_of_all_shards_share_one_table():
    alpha, beta, gamma = (ClusterWorker(name, f"tcp://{name}", "cpu", "1") for name in ("alpha", "beta", "gamma"))
    one = run_of(ran_by("a", 0), ran_by("b", 1), workers=(gamma, alpha))
    other = run_of(ran_by("c", 0), ran_by("d", 1), workers=(alpha, beta))
    local = run_of(passed("e"))
    for records in permutations([one, other, local]):
        merged = merge_run_records(records)
        names = [
            None if isinstance(each.outcome.worker, UnsetType) else merged.workers[each.outcome.worker].name
            for each in merged.results
        ]
        assert names == ["gamma", "alpha", "alpha", "beta", None]
        assert merged.workers == (alpha, beta, gamma)
    assert merge_run_records([local]).workers is UNSET


def test_studies_of_every_shard_are_kept_once_by_suite():
    one, other = run_of(passed("a"), studies=(STUDIES[2], STUDIES[0])), run_of(passed("b"), studies=(STUDIES[0],))
    assert merge_run_records([one, other]).studies == (STUDIES[0], STUDIES[2])


def test_findings_of_every_shard_are_kept_once_and_one_that_binds_fails_the_whole():
    one = run_of(passed("a"), findings=(UNUSED, LOOSENED), exit_code=1)
    other = run_of(passed("b"), findings=(LOOSENED, REMOVED), exit_code=1)
    merged = merge_run_records([one, other])
    assert merged.findings == (REMOVED, LOOSENED, UNUSED)
    assert merged.exit_code == 1
    assert merge_run_records([replace(one, findings=(CHANGED,)), replace(other, findings=(UNUSED,))]).exit_code == 0
    assert merge_run_records([run_of(findings=(REMOVED,), exit_code=1), run_of(exit_code=0)]).exit_code == 1


def test_what_a_suite_lost_is_told_of_all_its_shards_together_and_in_any_grouping():
    lost = [suite_result(number, 1.06) for number in range(24)]
    here = replace(road().environment, fingerprint=FINGERPRINT)
    shards = [run_of(*lost[start::6], environment=here, exit_code=0) for start in range(6)]
    merged = merge_run_records(shards)
    assert merged.findings == tuple(map(add_run_finding_message, combined_losses(lost, here)))
    assert merged.findings[0].message
    assert ([finding.kind for finding in merged.findings], merged.exit_code) == ([FindingKind.COMBINED_LOSS], 1)
    assert merge_run_records([merge_run_records(shards[3:]), merge_run_records(shards[:3])]) == merged


def test_machines_that_differ_have_no_loss_in_common():
    lost = [suite_result(number, 1.06) for number in range(24)]
    places = [replace(road().environment, fingerprint=text) for text in (FINGERPRINT, "0ther")]
    assert merge_run_records([run_of(*lost[start::2], environment=places[start]) for start in range(2)]).findings == ()


def test_a_case_in_two_shards_is_kept_once():
    again = replace(passed(), outcome=replace(passed().outcome, comparisons=()))
    assert len(merge_run_records([run_of(passed()), run_of(again), run_of(passed())]).results) == 1


def test_two_verdicts_of_one_case_are_refused():
    with pytest.raises(UserError) as raised:
        merge_run_records([run_of(passed("a")), run_of(regressed("a"))])
    assert raised.value.slug == "mixed-records"
    assert "unit/row_sum/a" in raised.value.message
    assert "failed (" in raised.value.message
    assert "passed (" in raised.value.message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"project": "other"}, "project=other and road"),
        ({"precreg": "0.2.0"}, "precreg version=0.1.0 and 0.2.0"),
        ({"ci": True}, "ci=False and True"),
        ({"git": None}, "commit=1a2b3c4d5e6f and None"),
        ({"git": GitState("ffff", "main", False, "Ada")}, "commit=1a2b3c4d5e6f and ffff"),
        ({"environment": replace(road().environment, label="npu")}, "environment="),
        ({"against": "0c1d2e3f"}, "one commit to judge against but got commit to judge against=0c1d2e3f and None"),
    ],
)
def test_records_of_different_runs_are_refused_and_told_apart(change, says):
    with pytest.raises(UserError) as raised:
        merge_run_records([road(), road(**change)])
    assert raised.value.slug == "mixed-records"
    assert says in raised.value.message


def test_a_merge_without_a_case_keeps_what_its_shards_said():
    assert merge_run_records([run_of(exit_code=0), run_of(exit_code=0)]).exit_code == 0
    assert merge_run_records([run_of(exit_code=0), run_of(exit_code=2)]).exit_code == 2
    assert merge_run_records([run_of(exit_code=2), run_of(passed(), exit_code=0)]).exit_code == 0


def test_nothing_cannot_be_merged():
    with pytest.raises(ValueError, match="at least one record"):
        merge_run_records([])


CASES = [make(name) for name in "abc" for make in (passed,)] + [regressed("d"), crashed("e"), proposed("f")]
STUDIES = [Study("unit/a", Growth("n")), Study("unit/a", Growth("m")), Study("unit/b", None, TradeOff("form", "none"))]
texts = st.sampled_from(["", "x", "y | z", "z"])
shards = st.builds(
    lambda results, duration, orphans, fingerprint, facts, dirty, branch, selection, studies, findings: run_of(
        *results,
        duration_s=duration,
        orphans=tuple(orphans),
        environment=replace(road().environment, fingerprint=fingerprint, facts=facts),
        git=GitState("1a2b", branch, dirty, "Ada"),
        selection=selection,
        studies=tuple(studies),
        findings=tuple(findings),
        exit_code=0,
    ),
    st.lists(st.sampled_from(CASES), unique_by=lambda case: case.id),
    st.floats(0, 1e6),
    st.sets(st.sampled_from([Orphan("unit/o/1", "o.json"), Orphan("unit/o/2", "o.json")])),
    texts,
    st.dictionaries(st.sampled_from(["numpy", "cpu"]), texts),
    st.booleans(),
    texts,
    st.fixed_dictionaries(
        {},
        optional={
            "shard": texts,
            "tags": texts,
            "tiers": st.lists(st.sampled_from(["unit", "integration", "model"]), min_size=1, unique=True),
        },
    ),
    st.lists(st.sampled_from(STUDIES)),
    st.lists(st.sampled_from([LOOSENED, REMOVED, CHANGED, UNUSED])),
)


@given(st.lists(shards, min_size=1, max_size=4))
def test_order_and_grouping_of_shards_do_not_matter(records):
    whole = merge_run_records(records)
    assert all(merge_run_records(order) == whole for order in permutations(records))
    assert all(
        merge_run_records([merge_run_records(records[:cut]), merge_run_records(records[cut:])]) == whole
        for cut in range(1, len(records))
    )


@pytest.mark.parametrize("given", [["1/3", "2/3"], ["1/2", "1/3", "2/3", "3/3"], ["2/2"]])
def test_shards_that_are_missing_are_not_passed_over(given):
    records = [run_of(passed(name), selection={"shard": name}) for name in given]
    with pytest.raises(UserError, match="without") as caught:
        require_every_shard(records)
    assert caught.value.slug == "mixed-records"


@pytest.mark.parametrize("given", [["2/2", "1/2"], ["1/1"], []])
def test_all_shards_and_runs_without_shards_are_whole(given):
    require_every_shard([run_of(passed(name), selection={"shard": name}) for name in given] + [run_of()])


@pytest.mark.parametrize(
    ("given", "without"),
    [
        (["unit 1/2", "unit 2/2", "model 1/2"], "tier model but got 1/2, without 2/2"),
        (["unit 1/2", "model 2/2"], "but got 1/2, without 2/2"),
        (["unit 1/3", "unit 2/3", "unit 3/3", "model 2/2"], "tier model but got 2/2, without 1/2"),
        (["unit 1/2", "unit 2/2", "unit 1/3"], "without 2/3, 3/3"),
    ],
)
def test_a_shard_of_one_tier_does_not_stand_in_for_that_of_another(given, without):
    with pytest.raises(UserError, match=without):
        require_every_shard(list(map(shard_of, given)))


@pytest.mark.parametrize(
    "given",
    [
        ["unit 1/2", "unit 2/2", "integration 1/3", "integration 2/3", "integration 3/3", "model"],
        ["unit 2/2", "unit 1/2", "model 1/1"],
        ["unit", "model"],
    ],
)
def test_each_tier_may_have_shards_of_its_own_number(given):
    require_every_shard(list(map(shard_of, given)))


def shard_of(text):
    tier, _, shard = text.partition(" ")
    selection = {"tiers": [tier]} | ({"shard": shard} if shard else {})
    return run_of(passed(text, tier=tier), selection=selection)


def test_tuples_and_lists_ask_for_the_same():
    """As a run has it in memory, and as it is read back."""
    one, other = (run_of(selection={"tiers": t, "shard": s}) for t, s in ((("unit",), "1/2"), (["unit"], "2/2")))
    require_every_shard([one, other])


def test_the_tiers_of_a_pipeline_make_the_whole_run_with_an_empty_shard():
    given = ["unit 1/2", "integration", "model"]
    empty = run_of(selection={"tiers": ["unit"], "shard": "2/2"}, exit_code=0)
    records = [*map(shard_of, given), empty]
    require_every_shard(records)
    merged = merge_run_records(records)
    assert (merged.selection, merged.exit_code, len(merged.results)) == ({}, 0, 3)


def test_some_tiers_are_not_the_whole_run_and_the_record_says_so():
    merged = merge_run_records(list(map(shard_of, ["model", "unit 1/2", "unit 2/2"])))
    assert merged.selection == {"tiers": ["unit", "model"]}


def test_records_of_different_folders_are_refused():
    with pytest.raises(UserError, match="folder=a and b"):
        merge_run_records([run_of(folder="a"), run_of(folder="b")])


def identical(name):
    """Return a passed case that repeats its baseline, with all samples of its comparison."""
    found = passed(name)
    sample = {"histogram": Histogram(1, [4080], [7]), "heat": [0.5], "groups": (groups(),)}
    comparisons = tuple(replace(each, **sample) for each in found.outcome.comparisons)
    return replace(found, outcome=replace(found.outcome, comparisons=comparisons))


def groups():
    sums = {name: [1.0] * 2 for name in AxisGroups.__struct_fields__ if name != "n"}
    return AxisGroups(n=[4, 4], **sums)


LARGE = run_of(regressed(), proposed(), *(identical(f"case-{number:03}") for number in range(150)))


def test_a_large_record_is_compressed_and_gives_the_same_reports(tmp_path):
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    for folder, limit in ((plain, 10**9), (packed, 1000)):
        folder.mkdir()
        path = write_run_record(LARGE, folder, limit)
        assert [path] == list(folder.iterdir())
    assert (find_record(plain).name, find_record(packed).name) == ("record.json", "record.json.gz")
    assert find_record(packed).stat().st_size < find_record(plain).stat().st_size / 10
    assert read_run_record(find_record(plain)) == LARGE
    thin = read_run_record(find_record(packed))
    assert thin != LARGE
    assert [result.verdict for result in thin.results] == [result.verdict for result in LARGE.results]
    for render in (render_run_html, render_codequality, render_run_markdown):
        assert render(thin) == render(LARGE)
    assert render_run_junit(thin, "gitlab") == render_run_junit(LARGE, "gitlab")
    assert render_run_terminal(thin, colour=False) == render_run_terminal(LARGE, colour=False)


def test_samples_that_reports_show_stay(tmp_path):
    write_run_record(LARGE, tmp_path, 1000)
    thin = {result.id: result for result in read_merged_run([tmp_path]).results}
    changed = [result.id for result in LARGE.results if thin[result.id] != result]
    assert len(changed) == 150 - PASSED_WITH_SAMPLES
    assert PASSED_WITH_SAMPLES >= MAX_PASSED_IN_DETAIL
    assert {result.verdict.reason for result in LARGE.results if result.id in changed} == {Reason.IDENTICAL}
    for id in changed:
        (comparison, *_) = thin[id].outcome.comparisons
        assert (comparison.groups, comparison.histogram) == ((), None)
        assert comparison.metrics


def test_a_smaller_record_replaces_a_compressed_one(tmp_path):
    write_run_record(LARGE, tmp_path, 1000)
    write_run_record(road(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
    # A kill between the two steps leaves the former beside the new one.
    write_json_record(LARGE, tmp_path / "record.json.gz")
    os.utime(tmp_path / "record.json.gz", (1, 1))
    expected = merge_run_records([road()])
    assert read_merged_run([tmp_path]) == expected
    assert read_merged_run([tmp_path / "record.json"]) == expected


def test_equal_records_give_equal_compressed_bytes(tmp_path):
    first = write_run_record(LARGE, tmp_path, 1000).read_bytes()
    assert write_run_record(LARGE, tmp_path, 1000).read_bytes() == first


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:20] + b"\x00" * 30 + data[50:]])
def test_a_damaged_compressed_record_is_refused(tmp_path, damage):
    path = write_run_record(LARGE, tmp_path, 1000)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError) as caught:
        read_merged_run([tmp_path])
    assert (caught.value.slug, caught.value.file) == ("unreadable-record", str(path))


def test_a_small_file_that_unpacks_to_too_much_is_refused(tmp_path):
    (tmp_path / "r.json").write_bytes(gzip.compress(b'{"schema": "' + b" " * 10_000_000))
    with pytest.raises(UserError, match="File too large"):
        read_json_record(tmp_path / "r.json", dict, "precreg-record/2", "a run record", max_bytes=1_000_000)
