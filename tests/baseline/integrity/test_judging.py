"""What judges in the end: the base's bar where HEAD's is lower without leave, HEAD's own for the rest."""

import json
import re
import shutil

import pytest

from precreg.baseline.integrity.base import BaseBaselines
from precreg.baseline.integrity.criteria import ProjectSide, pair_cases
from precreg.baseline.store import migrate_baselines
from precreg.baseline.suite_file import sums_file
from precreg.errors import UserError
from precreg.types.verdict import Reason
from precreg.types.warning import FindingKind, FirstBaseline, UnusedAllowance
from tests.baseline.integrity.demo import CASE, KERNELS, MEANS, Demo
from tests.baseline.integrity.test_tricks import TRICKS
from tests.baseline.plain import document_of, write_document, write_former
from tests.e2e.command import git, repository
from tests.verdict.made import case

WORSE = ("dtype=np.float32", "dtype=x.dtype")


def worse(project):
    """Let the subject compute in half precision: within tolerance, and worse than the baseline."""
    project.change("suites/unit/kernels.py", *WORSE)


def allow(project, kind, about="unit/mean", reason="on purpose"):
    project.allow({"case": about, "change": str(kind), "reason": reason})


def kinds(held, *, binding=True):
    return {finding.kind for finding in held.findings if finding.binding is binding}


def test_a_worse_kernel_is_caught_by_the_baseline_of_the_base_whatever_was_accepted_since(project):
    worse(project)
    project.accept(CASE)
    assert project.judged(CASE).verdict.reason is Reason.REGRESSED
    assert project.judged(CASE).baseline.file == MEANS


@pytest.mark.parametrize(
    "trick",
    [
        "remove a baseline's entry",
        "remove a file of baselines",
        "add baselines of a nearer environment",
        "make such baselines in the job, ignored by git",
        "let more growth pass",
        "judge no growth",
        "expect a failure of some cases",
        "rename a suite",
        "require a missing package or device",
        "be judged by another case's baseline",
        "draw fewer seeds",
    ],
)
def test_a_worse_kernel_gets_no_better_verdict_by_a_trick(trick, project):
    worse(project)
    TRICKS[trick].done(project)
    case = CASE.replace("unit/mean", "unit/average") if trick == "rename a suite" else CASE
    assert project.judged(case).verdict.reason is Reason.REGRESSED


def test_a_hand_edited_baseline_judges_nothing(project):
    worse(project)
    TRICKS["edit a baseline by hand"].done(project)
    result = project.judged(CASE)
    assert result.verdict.reason is Reason.REGRESSED
    assert result.baseline.entry.outputs["out"].metrics["mean_abs_error"] != [1.0, 1.0]


def test_a_wrong_kernel_is_out_of_tolerance_whatever_tolerance_it_brings(project):
    line = "return (np.sum(x, axis=0, dtype=np.float32) / len(x)).astype(x.dtype)"
    project.change("suites/unit/kernels.py", line, line.replace("len(x)", "2"))
    loose = {"rtol": 1e9, "atol": 1e9, "rms_error": 1e9, "max_ulp": 1e9, "mean_ulp": 1e9}
    project.change("suites/unit/mean.yaml", "{rms_error: 0.1, rtol: 0.05, atol: 0.01}", json.dumps(loose))
    assert project.judged(CASE).verdict.reason is Reason.OUT_OF_TOLERANCE


def test_seeds_repeats_and_requirements_are_the_bases(project):
    for trick in ("draw fewer seeds", "repeat less often", "require a missing package or device"):
        TRICKS[trick].done(project)
    held = next(case for case in project.bar().cases if case.id == CASE)
    assert (held.seeds, held.repeats, held.requires) == (2, 2, ())


def test_thresholds_of_the_environment_only_tighten_while_the_permission_is_new(project):
    TRICKS["let a variable replace bounds"].done(project)
    environ = {"PRECISION_THRESHOLDS": '{"max_ulp": 1e9, "mean_ulp": 0.001}'}

    def max_ulp():
        bounds = project.judged(CASE, environ=environ).tolerances["out"].bounds
        return {bound.metric: bound.limit for bound in bounds}["max_ulp"]

    assert max_ulp() == 4096
    allow(project, FindingKind.SETTING_LOOSENED, "suites/tolerances.yaml")
    assert max_ulp() == 1e9


def test_a_threshold_of_today_hides_nothing_that_a_file_loosens(project):
    TRICKS["raise a bound of the project"].done(project)
    held = project.bar(environ={"PRECISION_THRESHOLDS": '{"max_ulp": 1}'})
    assert FindingKind.BOUND_LOOSENED in kinds(held)


# What may pass


def test_a_new_suite_is_told_and_judged_by_the_baseline_that_comes_with_it(project):
    project.write("suites/unit/more.yaml", project.read("suites/unit/copy.yaml").replace("suite: copy", "suite: more"))
    project.change("suites/unit/more.yaml", "n: [16]", "n: [17]")
    project.accept("unit/more/n=17")
    held = project.bar()
    assert [(finding.kind, finding.about, finding.fails) for finding in held.findings] == [
        (FindingKind.CASE_INTRODUCED, "unit/more", False)
    ]
    assert project.judged("unit/more/n=17").verdict.reason is Reason.IDENTICAL


def test_baselines_of_another_environment_are_told_where_nothing_was_accepted_before(project):
    """Whoever lets the job run under another label is judged by what comes along for it: a reviewer has to see that."""
    (project.root / "baselines/generic").rename(project.root / "baselines/cpu")
    for path in (project.root / "baselines/cpu").glob("*/*.*"):
        path.write_text(re.sub(r'("environment": ?)"generic"', r'\1"cpu"', path.read_text()))
    merged = project.commit()
    project.copied_entries(MEANS.replace("generic", "cpu"), MEANS.replace("generic", "npu"), environment="npu")
    found = project.bar(base=merged).findings
    assert [(finding.kind, finding.about, finding.fails) for finding in found] == [
        (FindingKind.CASE_INTRODUCED, "unit/mean", False)
    ]
    assert found[0].fact == FirstBaseline("npu")


def test_a_further_environment_of_a_baseline_is_no_finding(project):
    project.entries(lambda cases: [entry.update(seen=["aaaaaaaa"]) for entry in cases.values()])
    assert project.bar().findings == ()


def test_a_tighter_bar_is_no_finding_and_judges_at_once(project):
    project.change("suites/tolerances.yaml", "max_ulp: 4096", "max_ulp: 0.001")
    project.change("suites/unit/mean.yaml", "seeds: 2", "seeds: 3")
    project.change("suites/unit/copy.yaml", "exact: true", "exact: true\nrepeats: 2")
    held = project.bar()
    assert held.findings == ()
    assert next(case for case in held.cases if case.id == CASE).seeds == 3
    assert project.judged(CASE).verdict.reason is Reason.OUT_OF_TOLERANCE


def test_a_suite_that_is_only_written_otherwise_is_no_finding(project):
    text = project.read("suites/unit/mean.yaml")
    project.write("suites/unit/mean.yaml", f"# of means\n\n{text.replace('{time_ratio: 1000}', '{ time_ratio: 1e3 }')}")
    project.write(
        "suites/unit/kernels.py",
        KERNELS.replace("def exact(x, mode=None):\n", 'def exact(x, mode=None):\n    """Exact."""\n\n'),
    )
    assert project.bar().findings == ()


def test_a_kernel_may_change_and_so_may_what_no_reference_uses(project):
    worse(project)
    project.change("suites/shared.py", "def unrelated(x):\n    return x", "def unrelated(x):\n    return x + 1")
    assert project.bar().findings == ()


def test_an_accepted_change_that_is_allowed_passes(project):
    worse(project)
    project.accept(CASE)
    allow(project, FindingKind.BASELINE_CHANGED, CASE, "half precision is four times as fast")
    held = project.bar()
    assert kinds(held) == set()
    assert [finding.allowed for finding in held.findings] == ["half precision is four times as fast"]
    assert project.judged(CASE).verdict.reason is Reason.IDENTICAL


def test_an_allowed_bound_holds(project):
    TRICKS["raise a bound of the project"].done(project)
    allow(project, FindingKind.BOUND_LOOSENED)
    bounds = project.judged(CASE).tolerances["out"].bounds
    assert {bound.metric: bound.limit for bound in bounds}["max_ulp"] == 8192


def test_one_permission_is_no_other(project):
    TRICKS["raise a bound of the project"].done(project)
    TRICKS["draw fewer seeds"].done(project)
    allow(project, FindingKind.SEEDS_LOWERED)
    assert kinds(project.bar()) == {FindingKind.BOUND_LOOSENED}


def test_a_removed_suite_takes_its_baselines_along(project):
    for path in ("suites/unit/mean.yaml", MEANS):
        (project.root / path).unlink()
    assert {finding.kind for finding in project.bar().findings} == {FindingKind.CASE_REMOVED}


def test_a_renamed_suite_whose_baselines_moved_along_passes_when_it_is_allowed(project):
    TRICKS["rename a suite"].done(project)
    project.copied_entries(MEANS, MEANS.replace("mean", "average"), suite="unit/average")
    (project.root / MEANS).unlink()
    held = project.bar()
    assert {finding.kind for finding in held.findings} == {FindingKind.CASE_RENAMED}
    renamed = CASE.replace("unit/mean", "unit/average")
    assert project.judged(renamed).verdict.reason is Reason.IDENTICAL, "the base's baseline judges"
    allow(project, FindingKind.CASE_RENAMED, "unit/average")
    assert project.judged(renamed).baseline.file == MEANS.replace("mean", "average")


def test_a_redefined_case_is_judged_by_its_new_baseline(project):
    TRICKS["draw easier inputs"].done(project)
    project.accept()
    assert project.judged(CASE).verdict.reason is Reason.IDENTICAL
    assert FindingKind.BASELINE_CHANGED not in kinds(project.bar()), "it goes with the definition"
    assert FindingKind.CASE_REDEFINED in kinds(project.bar())


# What was there already


def test_what_was_merged_allows_nothing_more(project):
    TRICKS["raise a bound for some cases"].done(project)
    allow(project, FindingKind.BOUND_LOOSENED, "*", "the first time")
    merged = project.commit()
    project.change("suites/unit/mean.yaml", "{rms_error: 0.2,", "{rms_error: 0.4,")
    held = project.bar(base=merged)
    assert {(finding.kind, finding.binding) for finding in held.findings} == {
        (FindingKind.BOUND_LOOSENED, True),
        (FindingKind.ALLOWANCE_UNUSED, False),
    }
    allow(project, FindingKind.BOUND_LOOSENED, "*", "the second time")
    assert kinds(project.bar(base=merged)) == set()


def test_what_nothing_needs_is_told(project):
    allow(project, FindingKind.BASELINE_CHANGED, "unit/maen/*")
    found = project.bar().findings
    assert [(finding.kind, finding.fails, str(finding.source)) for finding in found] == [
        (FindingKind.ALLOWANCE_UNUSED, False, "baselines/allow.yaml:2")
    ]
    assert found[0].fact == UnusedAllowance(FindingKind.BASELINE_CHANGED, "unit/maen/*")


def test_a_base_with_older_baselines_is_told_and_head_judges(project):
    text = project.read(MEANS)
    project.write(MEANS, text.replace("precreg-baseline/", "precreg-baseline/0"))
    older = project.commit()
    project.write(MEANS, text)
    held = project.bar(base=older)
    assert [(finding.kind, finding.about, finding.binding) for finding in held.findings] == [
        (FindingKind.BASE_UNREADABLE, MEANS, True)
    ]
    assert "precreg-baseline/0" in held.findings[0].fact.problem
    assert project.judged(CASE, base=older).verdict.reason is Reason.IDENTICAL
    allow(project, FindingKind.BASE_UNREADABLE, "baselines/generic")
    assert kinds(project.bar(base=older)) == set()


@pytest.mark.parametrize("file", ["suites/unit/mean.yaml", "suites/tolerances.yaml", "baselines/allow.yaml"])
def test_a_base_with_a_mistake_in_a_file_is_told(file, project):
    whole = (project.root / file).exists() and project.read(file)
    project.write(file, "nothing: [known\n")
    broken = project.commit()
    project.write(file, whole or "")
    found = [finding for finding in project.bar(base=broken).findings if finding.kind is FindingKind.BASE_UNREADABLE]
    assert [(finding.about, finding.binding) for finding in found] == [(file, True)]


def test_a_base_without_a_project_introduces_everything(project, tmp_path):
    root = project.root
    shutil.move(root / "suites", tmp_path / "aside")
    shutil.move(root / "baselines", tmp_path / "others")
    empty = project.commit()
    shutil.move(tmp_path / "aside", root / "suites")
    shutil.move(tmp_path / "others", root / "baselines")
    assert {finding.kind for finding in project.bar(base=empty).findings} == {FindingKind.CASE_INTRODUCED}


def test_a_lookup_falls_back_to_head_only_where_the_base_has_nothing():
    class Now:
        def lookup(self, baseline_id, chain):
            return ("HEAD's", baseline_id, chain)

    then = BaseBaselines(ProjectSide({}, {}), Now(), frozenset())
    assert then.lookup("unit/s/a", ("generic",)) == ("HEAD's", "unit/s/a", ("generic",))


def test_baselines_of_hand_written_tests_are_looked_after_though_no_suite_tells_of_them(project):
    file = "baselines/generic/unit/test_k.json"
    document = document_of(project.root / MEANS) | {"suite": "unit/test_k"}
    document["cases"] = {name: {**entry, "definition": "pytest-1:0"} for name, entry in document["cases"].items()}
    write_document(project.root / file, document)
    base = project.commit()
    first, second, *_ = document["cases"]
    document["cases"][first]["outputs"]["out"]["metrics"]["mean_abs_error"] = [1.0, 1.0]
    del document["cases"][second]
    write_document(project.root / file, document)
    assert {(finding.kind, finding.about, finding.binding) for finding in project.bar(base=base).findings} == {
        (FindingKind.BASELINE_CHANGED, f"unit/test_k/{first}", True),
        (FindingKind.HISTORY_REMOVED, f"unit/test_k/{first}", True),
        (FindingKind.BASELINE_REMOVED, f"unit/test_k/{second}", True),
    }
    chain = ("cpu-test", "cpu", "generic")
    kept = project.bar(base=base).baselines.lookup(f"unit/test_k/{first}", chain)
    assert kept.entry.outputs["out"].metrics["mean_abs_error"] != [1.0, 1.0]


def test_a_project_in_a_folder_of_its_repository(template, tmp_path):
    """The rest of the repository is none of its business, and paths are its own."""
    shutil.copytree(template, tmp_path / "part", ignore=shutil.ignore_patterns(".git"))
    repository(tmp_path)
    git(tmp_path, "add", "-A", "-f")
    project = Demo(tmp_path / "part")
    project.change("suites/shared.py", "astype('float64')", "astype('float32')")
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites/shared.py").write_text("nothing")
    TRICKS["remove a baseline's entry"].done(project)
    assert {(finding.kind, finding.about) for finding in project.bar().findings} == {
        (FindingKind.REFERENCE_CHANGED, "unit/mean"),
        (FindingKind.REFERENCE_CHANGED, "unit/device"),
        (FindingKind.BASELINE_REMOVED, CASE),
    }


def test_a_removed_and_a_new_case_that_compute_the_same_are_one_renamed_and_the_rest_is_what_it_is():
    def made(*names):
        return {f"unit/s/{name}": case(id=f"unit/s/{name}", definition=f"1:{name[0]}") for name in names}

    pairs = pair_cases(made("a1", "a2", "b", "c"), made("a3", "c", "d"))
    assert [(before.id, now.id) for before, now in pairs.renamed] == [("unit/s/a1", "unit/s/a3")]
    assert [each.id for each in pairs.removed] == ["unit/s/a2", "unit/s/b"]
    assert [each.id for each in pairs.introduced] == ["unit/s/d"]
    assert [before.id for before, _ in pairs.same] == ["unit/s/c"]


def test_baselines_of_an_earlier_version_that_are_migrated_are_no_finding(project):
    for path in (project.root / "baselines").glob("*/*/*.json"):
        write_former(path, document_of(path))
    earlier = project.commit()
    assert migrate_baselines(project.root)
    held = project.bar(base=earlier)
    assert held.findings == ()
    assert project.judged(CASE, base=earlier).verdict.reason is Reason.IDENTICAL


def test_sums_that_the_head_removed_or_replaced_are_refused(project):
    sums = project.root / sums_file(MEANS)
    before = sums.read_bytes()
    sums.unlink()
    with pytest.raises(UserError, match="unpaired-baseline"):
        project.bar()
    sums.write_bytes(before.replace(b'"sketch"', b'"sketched"'))
    with pytest.raises(UserError, match="mixed-baseline"):
        project.bar()


def test_more_baselines_make_no_rule_milder(project):
    """The error level follows from the number of baselines: that of the base, whatever is piled up beside it."""
    document = document_of(project.root / MEANS) | {"suite": "unit/heap"}
    entry = document["cases"][CASE.rpartition("/")[2]]
    document["cases"] = {f"n={number}": entry for number in range(40)}
    write_document(project.root / "baselines/generic/unit/heap.json", document)
    assert project.bar().baselines.number(("cpu", "generic")) == 8
