"""What decides about an oracle that may have changed: the answers of both versions, seed by seed."""

from pathlib import Path

import pytest

from precreg.baseline.integrity.code import ProjectCode
from precreg.run import oracle_change
from precreg.run.oracle_change import Candidate, OracleAnswer, decide_oracles
from precreg.run.workers import LocalPlace
from precreg.types.oracle import (
    OracleBesideSubject,
    OracleCodeChanged,
    OracleDifference,
    OracleFilesChanged,
    OracleFollowsSubject,
    OracleResultsChanged,
    OracleUncompared,
)
from precreg.types.outcome import Failure
from precreg.types.verdict import Reason
from tests.e2e.command import git, repository
from tests.run.conftest import case_of

CHANGED = OracleCodeChanged("reference", "kernels:double_exactly")
UNKNOWN = OracleResultsChanged("reference")
FAILED = Failure(Reason.REFERENCE_ERROR, "ValueError: no")
SMALL = OracleDifference("out", 0, 0, 0, 1, 4, (0,), 1.0)
LARGE = OracleDifference("out", 1, 0, 0, 1, 4, (0,), 8.0)
NAN = OracleDifference("out", 2, 0, 0, 1, 4, (0,))


def answers(head=None, base=None, number=3):
    """Return the answers of both versions at some seeds; the dicts change fields of those of one seed each."""
    return [
        (
            OracleAnswer("k", f"in{seed}", f"out{seed}", **(base or {}).get(seed, {})),
            OracleAnswer("k", **{"inputs": f"in{seed}", "outputs": f"out{seed}", **(head or {}).get(seed, {})}),
        )
        for seed in range(number)
    ]


def decided(found, fact=CHANGED, digests=(), project=Path("nowhere")):
    case = case_of(seeds=2)
    return oracle_change._decision(Candidate(case, case, fact, digests), found, ProjectCode(project))


def test_the_same_bits_at_all_seeds_are_no_finding():
    assert decided(answers()) is None
    assert decided(answers(), digests=("out0", "out1")) is None


@pytest.mark.parametrize(
    ("found", "largest"),
    [({0: SMALL}, SMALL), ({0: SMALL, 2: LARGE}, LARGE), ({0: LARGE, 1: SMALL}, LARGE), ({0: LARGE, 1: NAN}, NAN)],
)
def test_the_largest_difference_is_the_one_to_show(found, largest):
    fact = decided(answers({seed: {"difference": each} for seed, each in found.items()}))
    assert fact.results.seed == largest.seed
    assert (fact.results.seeds, fact.results.fresh) == (2, 3)


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        ([*answers(number=1), None], "no_time"),
        (answers(base={1: {"failure": FAILED}}), "base_failed"),
        (answers(head={1: {"failure": FAILED}}), "failed"),
        (answers(base={1: {"foreign": ("/own/table.npy",)}}), "foreign_files"),
        (answers(head={1: {"inputs": "others"}}), "other_inputs"),
        (answers(head={1: {"unsteady": True, "difference": SMALL}}), "unsteady"),
    ],
)
def test_a_finding_stays_if_results_cannot_be_compared(found, cause):
    assert decided(found).results.cause == cause


def test_other_bits_in_each_run_are_no_sign_where_nothing_else_is():
    found = answers(head={1: {"unsteady": True, "difference": SMALL}})
    assert decided(found, UNKNOWN) is None


def test_an_oracle_with_other_bits_beside_its_subject_is_a_finding():
    assert decided(answers(), UNKNOWN, ("out0", "others")) == OracleBesideSubject("reference", 1)


def test_an_oracle_that_newly_opens_its_subject_unseen_is_a_finding(project):
    text = "from kernels import double\n"
    (project / "suites/unit/fast.py").write_text(text)
    case = case_of("double").oracle.__class__("python", "fast:double")
    opened = {0: {"files": ("suites/unit/fast.py", "suites/unit/kernels.py")}}
    subject = case_of(seeds=2, subject="double")
    subject = type(subject)(**{name: getattr(subject, name) for name in subject.__struct_fields__} | {"subject": case})
    candidate = Candidate(subject, subject, CHANGED)
    fact = oracle_change._decision(candidate, answers(head=opened), ProjectCode(project))
    # kernels.py is the oracle's own, as its text shows.
    assert fact == OracleFollowsSubject("reference", ("suites/unit/fast.py",))
    assert oracle_change._decision(candidate, answers(head=opened, base=opened), ProjectCode(project)) is None


def test_without_a_checkout_every_candidate_remains(project):
    repository(project)
    case = case_of()
    commit = git(project, "rev-parse", "HEAD")
    fact = OracleFilesChanged("reference", ("a.npy",))
    (project / ".git/worktrees").write_text("in the way")
    found = decide_oracles(project, commit, [Candidate(case, case, fact)], LocalPlace(1))
    assert found.facts[case.id].files == ("a.npy",)
    assert found.facts[case.id].results.cause == "not_started"
    assert found.same == 0


def test_the_base_must_not_open_files_of_the_working_tree(project):
    """It would give HEAD's results, whatever its own code says."""
    table = project / "suites/unit/table.txt"
    table.write_text("2")
    repository(project)
    case = case_of("double", "reads_its_table", params={"table": str(table)})
    commit = git(project, "rev-parse", "HEAD")
    found = decide_oracles(project, commit, [Candidate(case, case, CHANGED)], LocalPlace(1))
    assert found.facts[case.id].results == OracleUncompared("foreign_files", str(table))


def test_no_candidate_costs_nothing(tmp_path):
    assert decide_oracles(tmp_path / "nowhere", "", [], LocalPlace(1)).facts == {}
