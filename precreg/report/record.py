"""How is a stored run read back without loss, and how do its shards merge into one record?

Every report is made from the record alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from precreg.errors import UserError
from precreg.report.describe import sort_results
from precreg.report.run_findings import add_run_finding_message
from precreg.report.sections import (
    describe_orphan,
    describe_selection,
    describe_warning,
    merge_selections,
    selection_key,
    sort_run_findings,
    without_shard,
)
from precreg.run import MAX_PLAIN_BYTES, PASSED_WITH_SAMPLES, count_diagnoses, pack_result, without_samples
from precreg.storage import (
    PACKED_SUFFIX,
    decode_record,
    encode_by_items,
    encode_json,
    encode_record,
    pause_gc,
    read_by_items,
    read_json_record,
    replace_file,
    report_write_errors,
    write_packed_record,
)
from precreg.types import (
    RECORD_SCHEMA,
    CaseResult,
    ChosenRevision,
    ClusterWorker,
    Environment,
    FindingKind,
    GitState,
    Orphan,
    Reason,
    ReusedOutcomes,
    RunDiagnoses,
    RunFinding,
    RunRecord,
    RunWarning,
    Status,
    StoredText,
    Study,
    UnkeptReason,
    Verdict,
    has_unclaimed_files,
    read_facts,
)
from precreg.verdict import combined_losses, pooled_losses, run_exit_code

# Joins facts of different machines; splitting at it keeps merging associative.
_SEPARATOR = " | "
# A run of 1,000,000 shards must not print each missing one.
_MOST_MISSING = 5


RECORD_FILE = "record.json"
# Cases that repeat accepted bits, or fail as declared, have no ratio for statistics, in a merge of shards either.
_WITHOUT_STATISTICS = (Reason.IDENTICAL, Reason.EXPECTED_FAILURE)


def write_run_record(record: RunRecord, folder: Path, max_plain_bytes: int = MAX_PLAIN_BYTES) -> Path:
    """Write the record of a run into a folder of reports, and return its path: record.json, or record.json.gz.

    A compressed record gives the same reports. Raises UserError (not-writable).
    """
    plain = folder / RECORD_FILE
    packed = plain.with_name(plain.name + PACKED_SUFFIX)
    encoded = _encode_results(record, max_plain_bytes)
    path, former = (packed, plain) if encoded is None else (plain, packed)
    if encoded is not None:
        with report_write_errors(str(plain)):
            replace_file(plain, encode_record(replace(record, results=encoded)))
    else:
        # Result by result, because the whole text of 100,000 cases takes 800 MB.
        write_packed_record(encode_by_items(record, "results", _without_most_samples(record)), packed)
    with report_write_errors(str(former)):
        former.unlink(missing_ok=True)
    return path


def _encode_results(record: RunRecord, most: int) -> tuple[msgspec.Raw, ...] | None:
    """Return the JSON of each result; None if the plain JSON of the record has more bytes than `most`."""
    size = len(encode_record(replace(record, results=()))) + max(0, len(record.results) - 1)
    found: list[msgspec.Raw] = []
    for result in record.results:
        encoded = encode_json(result)
        found.append(msgspec.Raw(encoded))
        size += len(encoded)
        if size > most:
            return None
    return None if size > most else tuple(found)


def _without_most_samples(record: RunRecord) -> Iterator[CaseResult]:
    """Yield results without the samples of passed cases that the page has no details of.

    No report of a large run shows these samples.
    """
    passed, thin = 0, set()
    for result in sort_results(record.results):
        if result.verdict.status is Status.PASSED and result.verdict.reason is not Reason.IMPROVED:
            passed += 1
            if passed > PASSED_WITH_SAMPLES and result.verdict.reason in _WITHOUT_STATISTICS:
                thin.add(result.id)
    yield from (without_samples(result) if result.id in thin else result for result in record.results)


def find_record(path: Path) -> Path:
    """Return the record in a folder of reports, or beside the name of a plain one; the newer of two."""
    plain = path / RECORD_FILE if path.is_dir() else path
    candidates = (plain, plain.with_name(plain.name + PACKED_SUFFIX)) if plain.name else (plain,)
    # A kill may leave the former record beside the new one.
    found = [each for each in candidates if each.is_file()]
    return max(found, key=lambda each: each.stat().st_mtime_ns, default=plain)


class _StoredRun(RunRecord, frozen=True):
    """Decode a record of either schema: orphans and warnings are facts, or sentences in schema 1."""

    orphans: tuple[Orphan | StoredText | str, ...] = ()  # type: ignore[assignment]
    warnings: tuple[RunWarning | str, ...] = ()  # type: ignore[assignment]


def read_run_record(path: Path) -> RunRecord:
    """Read a record of this schema or an older one as a record of this schema; unknown fields are ignored.

    Raises:
        UserError: missing-file, unreadable-record, future-schema; each names the file.
    """
    # Stored artifacts of CI outlive an upgrade, so records of schema 1 stay readable.
    stored = _read_stored(path)
    facts = {"orphans": read_facts(stored.orphans), "warnings": read_facts(stored.warnings)}
    record = RunRecord(**asdict(stored) | facts | {"schema": RECORD_SCHEMA})
    if not _is_time(record.started):
        message = f"expected a time such as 2026-11-21T03:00:00+00:00 but got started={record.started!r}"
        raise UserError("unreadable-record", message, file=str(path))
    if "shard" in record.selection and _shard(record) is None:
        message = f"expected a selection.shard of i/n with 1 <= i <= n but got shard={record.selection['shard']!r}"
        raise UserError("unreadable-record", message, file=str(path))
    return record


def _read_stored(path: Path) -> _StoredRun:
    """Read the results of a large record one by one, each packed at once."""
    decoder, results = msgspec.json.Decoder(CaseResult), list[CaseResult]()
    try:
        # The search for garbage would take a third of the time of 100,000 results, which have no cycles.
        with pause_gc():
            rest = read_by_items(path, "results", lambda item: results.append(pack_result(decoder.decode(item))))
            return replace(decode_record(rest, path, _StoredRun, RECORD_SCHEMA, _NOUN), results=tuple(results))
    except (OSError, ValueError, RecursionError, UserError):
        # A plain record, or one with a mistake, which this explains.
        return read_json_record(path, _StoredRun, RECORD_SCHEMA, _NOUN)


_NOUN = "a run record"


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return False
    return True


def _shard(record: RunRecord) -> tuple[int, int] | None:
    """Return (i, n) of the shard of a record; None for a whole run, and for anything but i/n with 1 <= i <= n."""
    # The number of digits is limited, because Python refuses to convert very long numbers.
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", str(record.selection.get("shard")))
    shard = (int(found[1]), int(found[2])) if found else (0, 0)
    return shard if 1 <= shard[0] <= shard[1] else None


def read_merged_run(paths: Sequence[Path]) -> RunRecord:
    """Read one run: a record.json, a folder that has one, or all of its shards.

    Raises:
        UserError: as `read_run_record`, `require_every_shard` and `merge_run_records`.
    """
    records = [read_run_record(find_record(path)) for path in paths]
    require_every_shard(records)
    return merge_run_records(records)


def require_every_shard(records: Sequence[RunRecord]) -> None:
    """Refuse a run with a missing shard, because its cases were not judged.

    Runs with different selections, such as the tiers of a pipeline, have shards of their own.

    Raises:
        UserError: mixed-records, if a shard of a selection is missing.
    """
    # A pipeline may shard each tier on its own, so shards are counted per selection.
    by_selection: dict[bytes, list[RunRecord]] = {}
    for record in records:
        by_selection.setdefault(selection_key(without_shard(record.selection)), []).append(record)
    for of_selection in by_selection.values():
        _require_every_shard(of_selection)


def _require_every_shard(records: Sequence[RunRecord]) -> None:
    shards = sorted({shard for shard in map(_shard, records) if shard is not None})
    counts = sorted({count for _, count in shards})
    # Shards 1/2 and 1/3 may come together, so the counts add up.
    if len(shards) < sum(counts):
        # Lazily: the count of a damaged record may be huge.
        missing = (shard for n in counts for i in range(1, n + 1) if (shard := (i, n)) not in shards)
        given, first = (", ".join(f"{i}/{n}" for i, n in some) for some in (shards, islice(missing, _MOST_MISSING)))
        asked = describe_selection(without_shard(records[0].selection))
        of = f" of {asked}" if asked else ""
        raise UserError("mixed-records", f"expected every shard of the run{of} but got {given}, without {first}")


def merge_run_records(records: Sequence[RunRecord]) -> RunRecord:
    """Merge shards, tiers of a pipeline, or both, into one record; grouping and order do not matter.

    Shards run at the same time, so the merged duration is the longest. An orphan stays if every record has it. A
    finding on the run is kept once. Selections are united, and facts of machines that differ are listed side by side.

    Raises:
        UserError: mixed-records, if project, folder, precreg version, environment label, commit, the commits that
            judged, or ci differ, or if two records hold the same case with different verdicts.
        ValueError: without any record.
    """
    if not records:
        raise ValueError("expected at least one record to merge")
    for name, of in _IDENTITY.items():
        # Before anything is merged: a message about two commits explains more than the conflict of verdicts that
        # follows.
        _same(name, map(of, records))
    records, workers = _with_one_table(records)
    results = _merged_results(result for record in records for result in record.results)
    findings = sort_run_findings(_merged_findings(records, results))
    verdicts = [result.verdict for result in results]
    strict = any(record.strict for record in records)
    return replace(
        records[0],
        # min, max, sets and sorting only: merging stays independent of order and grouping.
        started=min(record.started for record in records),
        duration_s=max(record.duration_s for record in records),
        environment=_merged_environment([record.environment for record in records]),
        git=_merged_git([record.git for record in records if record.git is not None]),
        selection=merge_selections(record.selection for record in records),
        results=results,
        warnings=tuple(sorted({fact for record in records for fact in record.warnings}, key=describe_warning)),
        studies=_merged_studies(study for record in records for study in record.studies),
        # A shard does not run all cases, so a baseline without a case in one shard may have it in another.
        orphans=tuple(sorted(set.intersection(*(set(record.orphans) for record in records)), key=describe_orphan)),
        findings=findings,
        strict=strict,
        diagnosed=_merged_diagnoses(records, results),
        reused=_merged_reuse(record.reused for record in records),
        against_revision=_smallest(record.against_revision for record in records),
        pair_revision=_smallest(record.pair_revision for record in records),
        exit_code=_merged_exit_code(records, verdicts, findings, strict),
        workers=workers or UNSET,
    )


def _with_one_table(records: Sequence[RunRecord]) -> tuple[list[RunRecord], tuple[ClusterWorker, ...]]:
    """Return the records with outcomes that name workers of one table, and that table, sorted by its contents."""
    tables = [() if isinstance(record.workers, UnsetType) else record.workers for record in records]
    every = tuple(sorted({msgspec.json.encode(worker): worker for table in tables for worker in table}.items()))
    places = {encoded: place for place, (encoded, _) in enumerate(every)}
    merged = []
    for record, table in zip(records, tables, strict=True):
        indices = [places[msgspec.json.encode(worker)] for worker in table]
        merged.append(replace(record, results=tuple(_at_worker(each, indices) for each in record.results)))
    return merged, tuple(worker for _, worker in every)


def _at_worker(result: CaseResult, indices: Sequence[int]) -> CaseResult:
    worker = result.outcome.worker
    if isinstance(worker, UnsetType) or worker >= len(indices):
        return result
    return replace(result, outcome=replace(result.outcome, worker=indices[worker]))


def _merged_reuse(found: Iterable[ReusedOutcomes | UnsetType]) -> ReusedOutcomes | UnsetType:
    """Count the reused outcomes of all shards."""
    counts = [each for each in found if each]
    if not counts:
        return UNSET
    ran = sum((Counter(dict(each.ran)) for each in counts), Counter[UnkeptReason]())
    oldest = min(each.oldest for each in counts)
    return ReusedOutcomes(sum(each.cases for each in counts), oldest, tuple(sorted(ran.items())))


def _merged_diagnoses(records: Sequence[RunRecord], results: Sequence[CaseResult]) -> RunDiagnoses | None:
    """Count the diagnoses of all cases; shards search at the same time."""
    found = [record.diagnosed for record in records if record.diagnosed is not None]
    if not found:
        return None
    problems = _SEPARATOR.join(sorted({each.problem for each in found} - {""}))
    seconds, used = (max(getattr(each, name) for each in found) for name in ("seconds", "used"))
    without = sum(each.without_accepted for each in found)
    return RunDiagnoses(seconds, used, *count_diagnoses(results), problems, without)


def _merged_exit_code(
    records: Sequence[RunRecord], verdicts: Sequence[Verdict], findings: Sequence[RunFinding], strict: bool
) -> int:
    empty = max(record.exit_code for record in records)
    unclaimed = any(has_unclaimed_files(record.warnings) for record in records)
    return run_exit_code(verdicts, findings=findings, empty=empty, strict=strict, unclaimed=unclaimed)


def _smallest(revisions: Iterable[ChosenRevision | None]) -> ChosenRevision | None:
    """Return one of the revisions that named a commit; the same one in any order of records."""
    return min((each for each in revisions if each is not None), key=msgspec.json.encode, default=None)


def _merged_findings(records: Sequence[RunRecord], results: Sequence[CaseResult]) -> Iterator[RunFinding]:
    """Yield the findings of all runs; losses of whole suites are computed again from all cases."""
    every = [finding for record in records for finding in record.findings]
    fingerprints = {record.environment.fingerprint for record in records}
    if len(fingerprints) > 1:
        # Losses of different machines cannot be combined; every record keeps its own findings.
        yield from every
        return
    # The merged results may show a loss that no shard saw alone, so it is computed again; reasons are kept.
    reasons = {finding.about: finding.allowed for finding in every if finding.kind is FindingKind.COMBINED_LOSS}
    yield from (finding for finding in every if finding.kind is not FindingKind.COMBINED_LOSS)
    merged = _merged_environment([record.environment for record in records])
    for finding in (*combined_losses(results, merged), *pooled_losses(results)):
        yield add_run_finding_message(replace(finding, allowed=reasons.get(finding.about)))


# Facts that all shards of one run share; records that differ here belong to different runs.
_IDENTITY: dict[str, Callable[[RunRecord], Any]] = {
    "schema": lambda record: record.schema,
    "project": lambda record: record.project,
    "folder": lambda record: record.folder,
    "precreg version": lambda record: record.precreg,
    "environment": lambda record: " -> ".join((record.environment.label, *record.environment.chain)),
    "commit": lambda record: record.git.commit if record.git else None,
    "commit to judge against": lambda record: record.against or None,
    "commit of the pair": lambda record: record.pair or None,
    "ci": lambda record: record.ci,
}


def _same(name: str, values: Iterable[Any]) -> None:
    distinct = sorted({str(value) for value in values})
    if len(distinct) > 1:
        raise UserError("mixed-records", f"expected records with one {name} but got {name}={' and '.join(distinct)}")


def _merged_results(results: Iterable[CaseResult]) -> tuple[CaseResult, ...]:
    merged: dict[str, CaseResult] = {}
    for result in results:
        twin = merged.setdefault(result.id, result)
        if twin is result:
            continue
        if twin.verdict != result.verdict:
            verdicts = " and ".join(sorted(f"{r.verdict.status} ({r.verdict.message})" for r in (twin, result)))
            raise UserError("mixed-records", f"expected one verdict of case {result.id} but got {verdicts}")
        # Verdicts agree but times differ. The smaller encoding is the same choice in any order of records, after those
        # that have a diagnosis.
        merged[result.id] = min(twin, result, key=lambda each: (each.diagnosis is None, encode_json(each)))
    return tuple(merged[id] for id in sorted(merged))


def _merged_studies(studies: Iterable[Study]) -> tuple[Study, ...]:
    merged: dict[str, Study] = {}
    for study in studies:
        # The same study comes from every shard. The smaller encoding is the same choice in any order.
        merged[study.suite] = min(merged.get(study.suite, study), study, key=msgspec.json.encode)
    return tuple(merged[suite] for suite in sorted(merged))


def _merged_environment(environments: Sequence[Environment]) -> Environment:
    names = sorted({name for environment in environments for name in environment.facts})
    return replace(
        environments[0],
        fingerprint=_listed(environment.fingerprint for environment in environments),
        # Machines of one fingerprint may differ in facts without an effect, and so in earlier fingerprints.
        former=tuple(sorted(set.intersection(*(set(environment.former) for environment in environments)))),
        facts={
            name: _listed(environment.facts[name] for environment in environments if name in environment.facts)
            for name in names
        },
    )


def _listed(values: Iterable[str]) -> str:
    return _SEPARATOR.join(sorted({part for value in values for part in value.split(_SEPARATOR)}))


def _merged_git(states: Sequence[GitState]) -> GitState | None:
    if not states:
        return None
    return GitState(
        commit=states[0].commit,
        branch=_listed(state.branch for state in states),
        # One dirty working tree is enough to make the result irreproducible.
        dirty=any(state.dirty for state in states),
        author=_listed(state.author for state in states),
    )
