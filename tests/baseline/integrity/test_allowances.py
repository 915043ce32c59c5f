"""baselines/allow.yaml: what an entry names, every mistake with its line, and what is spent."""

import pytest
from msgspec.structs import replace

from precreg.baseline.integrity.criteria import IntegrityChange, find_weakened_settings
from precreg.baseline.integrity.sides import (
    ALLOWABLE_KINDS,
    allowed_reason,
    find_unused_allowances,
    mark_spent,
    read_allowances,
)
from precreg.errors import UserError
from precreg.types.warning import AnalyzerDropped, FindingKind, LooserLimit
from tests.verdict.made import case

ENTRY = "allow:\n  - case: {case}\n    change: bound_loosened\n    reason: the device is coarser\n"


@pytest.fixture
def written(tmp_path):
    """Return a function that reads what stands in the file."""

    def written(text):
        (tmp_path / "baselines").mkdir(exist_ok=True)
        (tmp_path / "baselines/allow.yaml").write_text(text)
        return read_allowances(tmp_path)

    return written


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("unit/s/a", "unit/s/a"),
        ("unit/s", "unit/s/a"),
        ("unit/s", "unit/s"),
        ("unit/*", "unit/s/a"),
        ("unit/s/?", "unit/s/a"),
        ("suites/tolerances.yaml", "suites/tolerances.yaml"),
        ("baselines/generic", "baselines/generic/unit/s.json"),
    ],
)
def test_an_entry_names_a_case_a_suite_a_file_or_what_matches(written, name, about):
    (entry,) = written(ENTRY.format(case=f'"{name}"'))
    assert allowed_reason(FindingKind.BOUND_LOOSENED, about, [entry]) == "the device is coarser"
    assert allowed_reason(FindingKind.SEEDS_LOWERED, about, [entry]) is None
    assert allowed_reason(FindingKind.BOUND_LOOSENED, "unit/other/a", [entry]) == (
        entry.reason if name == "unit/*" else None
    )
    assert str(entry.source) == "baselines/allow.yaml:2"


def test_a_suite_is_no_other_whose_name_begins_like_it(written):
    (entry,) = written(ENTRY.format(case="unit/s"))
    assert allowed_reason(FindingKind.BOUND_LOOSENED, "unit/softmax/a", [entry]) is None


@pytest.mark.parametrize("text", ["", "# nothing\n", "allow: []\n"])
def test_nothing_is_allowed_where_nothing_stands(written, tmp_path, text):
    assert read_allowances(tmp_path) == written(text) == ()


@pytest.mark.parametrize(
    ("text", "slug", "line", "says"),
    [
        ("allow:\n  - case: a\n    change: seeds_lowerd\n    reason: b\n", "bad-allowance", 3, '"seeds_lowered"'),
        ("allow:\n  - case: a\n    change: case_introduced\n    reason: b\n", "bad-allowance", 3, "case_introduced"),
        ("allow:\n  - case: a\n    change: seeds_lowered\n", "bad-allowance", 2, "reason=null"),
        ("allow:\n  - case: a\n    change: seeds_lowered\n    reason: ' '\n", "bad-allowance", 4, "reason= "),
        ("allow:\n  - case: [a]\n    change: seeds_lowered\n    reason: b\n", "bad-allowance", 2, "case="),
        ("allow:\n  - cases: a\n    change: seeds_lowered\n    reason: b\n", "bad-allowance", 2, "case=null"),
        ("allow:\n  - {case: a, change: seeds_lowered, reason: b, raeson: c}\n", "bad-allowance", 2, '"reason"'),
        ("allow:\n  - a\n", "bad-allowance", 2, "case, change, reason"),
        ("allow: {case: a}\n", "bad-allowance", 1, "a list"),
        ("alow: []\n", "bad-allowance", 1, '"allow"'),
        ("- case: a\n", "bad-value", 1, "a mapping"),
        ("allow: [\n", "yaml-syntax", 2, ""),
        ("allow: !!python/object:os.system x\n", "yaml-tag", 1, ""),
    ],
)
def test_a_mistake_has_its_line(written, text, slug, line, says):
    with pytest.raises(UserError) as caught:
        written(text)
    assert (caught.value.slug, caught.value.file, caught.value.line) == (slug, "baselines/allow.yaml", line)
    assert says in caught.value.message


def test_a_link_out_of_the_project_is_not_followed(tmp_path):
    (tmp_path / "outside.yaml").write_text(ENTRY.format(case="a"))
    (tmp_path / "project/baselines").mkdir(parents=True)
    (tmp_path / "project/baselines/allow.yaml").symlink_to(tmp_path / "outside.yaml")
    with pytest.raises(UserError) as caught:
        read_allowances(tmp_path / "project")
    assert caught.value.slug == "outside-project"


def test_what_stood_in_the_base_word_by_word_is_spent_and_a_new_reason_is_not(written):
    entries = written(ENTRY.format(case="unit/s") + ENTRY.format(case="unit/s")[7:].replace("coarser", "newer"))
    first, second = mark_spent(entries, entries[:1])
    assert (first.spent, second.spent) == (True, False)
    assert allowed_reason(FindingKind.BOUND_LOOSENED, "unit/s/a", [first]) is None
    assert allowed_reason(FindingKind.BOUND_LOOSENED, "unit/s/a", [first, second]) == "the device is newer"
    change = IntegrityChange(FindingKind.BOUND_LOOSENED, "unit/s/a", LooserLimit("max_ulp", "bound", 4, 8))
    assert [finding.source for finding in find_unused_allowances([first, second], [change])] == [first.source]


def test_what_only_a_run_finds_is_not_called_unused(written):
    (entry,) = written(ENTRY.format(case="unit/s"))
    for kind in ALLOWABLE_KINDS:
        told = find_unused_allowances([replace(entry, kind=kind)], [])
        assert bool(told) is (kind not in (FindingKind.CREEP, FindingKind.COMBINED_LOSS))
        assert not any(finding.binding for finding in told)


def test_an_analyzer_that_is_gone_is_a_setting():
    found = list(find_weakened_settings(case(analyzers=("spectrum", "ours")), case(analyzers=("ours",))))
    assert [(change.kind, change.fact) for change in found] == [
        (FindingKind.SETTING_LOOSENED, AnalyzerDropped("spectrum"))
    ]
    assert list(find_weakened_settings(case(analyzers=("ours",)), case(analyzers=("spectrum", "ours")))) == []


def test_more_of_everything_is_no_finding():
    before = case(seeds=2, repeats=2, timeout_s=60.0, expect_failure="known", requires=("torch",))
    now = case(seeds=3, repeats=3, timeout_s=30.0, exact=True, tags=("gate",))
    assert list(find_weakened_settings(before, now)) == []
