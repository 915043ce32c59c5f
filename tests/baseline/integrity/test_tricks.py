"""Every trick of docs/integrity-tricks.md, played on a small project: the finding that catches it, and who judges.

Each is told by its kind and by what it is about, binds, and binds no more where baselines/allow.yaml names it.
"""

import json
import re
import sys
from py_compile import PycInvalidationMode, compile
from typing import NamedTuple

import numpy as np
import pytest
import yaml

from precreg.report.run_findings import describe_run_finding
from precreg.types.warning import FindingKind, RunFinding
from tests.baseline.integrity.demo import CASE, COPY, DEVICE, KERNELS, MEAN, MEANS, RECORDED
from tests.e2e.command import ROOT, git, precreg

SUITE = "suites/unit/mean.yaml"
MEAN_ID = "unit/mean"
CASE_NAME = CASE.rpartition("/")[2]


class Trick(NamedTuple):
    """What somebody does, and what is found: the kind, what it is about, and a part of the message."""

    done: object
    kind: FindingKind
    about: str
    says: str = ""


def in_suite(before, after, file=SUITE):
    return lambda project: project.change(file, before, after)


def in_tolerances(before, after):
    return in_suite(before, after, "suites/tolerances.yaml")


def worse_baseline(project):
    """Accept a worse kernel, and commit its baseline with it."""
    project.change("suites/unit/kernels.py", "dtype=np.float32", "dtype=x.dtype")
    project.accept(CASE)


def edited_baseline(project):
    def edit(cases):
        cases[CASE_NAME]["outputs"]["out"]["metrics"]["mean_abs_error"] = [1.0, 1.0]

    project.entries(edit)


def in_entries(edit):
    return lambda project: project.entries(edit)


def accepted_as_known_bad(project):
    def edit(cases):
        known = {"reason": "as ever", "bounds": {"out": {"mean_rel_error": [2.0, 2.0]}}}
        cases[CASE_NAME].update(known=known)

    project.entries(edit)


def file_removed(path):
    return lambda project: (project.root / path).unlink()


def shaded(project):
    project.copied_entries(MEANS, MEANS.replace("generic", "cpu"), environment="cpu")


def shaded_by_an_ignored_file(project):
    project.write(".gitignore", "baselines/cpu/\n")
    shaded(project)


def history_lost(project):
    """Accept a change for a good reason, and drop what was accepted before it."""
    worse_baseline(project)
    project.entries(lambda cases: cases[CASE_NAME].pop("accepted"))


def history_altered(project):
    """Accept a change for a good reason, and make what was accepted before it look as coarse."""
    worse_baseline(project)
    project.entries(lambda cases: cases[CASE_NAME]["accepted"][0]["means"]["out"].update(rms_error=[9.0, 9.0]))


def seen_lost(project):
    """Remove an environment in which the merged baseline judges strictly."""
    project.entries(lambda cases: cases[CASE_NAME].update(seen=["aaaaaaaa", "bbbbbbbb"]))
    project.base = project.commit()
    project.entries(lambda cases: cases[CASE_NAME].update(seen=["bbbbbbbb"]))


def renamed(project):
    project.change(SUITE, "suite: mean", "suite: average")


def into_another_tier(project):
    text = project.read(SUITE)
    (project.root / SUITE).unlink()
    project.write("suites/model/mean.yaml", text)
    for name in ("kernels.py",):
        project.write(f"suites/model/{name}", project.read(f"suites/unit/{name}"))


def commented_out(project):
    (project.root / SUITE).rename(project.root / "suites/unit/mean.yaml.bak")


def another_golden(project):
    np.save(project.root / "suites/unit/golden/a.npy", np.ones(32, np.float32))


def shadowed_reference(project):
    """Put a module of the same name nearer to the suite, without touching what is there."""
    project.write("suites/unit/shared.py", "def widened(x):\n    return x.astype('float32')\n")


def moved_beside_another_module(project):
    """Move the suite to where its names mean other functions."""
    text = project.read(SUITE)
    (project.root / SUITE).unlink()
    project.write("suites/unit/more/mean.yaml", text)
    project.write("suites/unit/more/kernels.py", KERNELS.replace("average(widened(x))", "mean(x)"))


def compiled(project, to):
    """Compile other code into a file that Python takes as it is."""
    project.write("other.py", "def widened(x):\n    return x.astype('float32')\n")
    compile(
        str(project.root / "other.py"), str(project.root / to), invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
    )
    git(project.root, "add", "-f", to)


def compiled_in_its_place(project):
    compiled(project, f"suites/__pycache__/shared.{sys.implementation.cache_tag}.pyc")


def compiled_nearer(project):
    compiled(project, "suites/unit/shared.pyc")


def patched_reference(project):
    """Replace what the reference uses, from a place far from it."""
    project.write("suites/unit/kernels.py", f"{KERNELS}\n\naverage = mean\n")


def patched_elsewhere(project):
    project.write("suites/unit/kernels.py", f"{KERNELS}\n\nnp.sum = lambda x, axis, **_: x[0] * len(x)\n")


def patched_by_the_kernel(project):
    """Let a module that the kernel imports replace what the reference calls; the reference does not import it."""
    project.write("suites/fast.py", "import shared\n\nshared.widened = lambda x: x\n")
    project.change(
        "suites/unit/kernels.py",
        "def mean(x, mode=None):\n",
        "def mean(x, mode=None):\n    import fast  # noqa: F401\n\n",
    )


def patched_while_it_runs(project):
    project.change(
        "suites/unit/kernels.py", "def mean(x, mode=None):\n", 'def mean(x, mode=None):\n    setattr(np, "sum", len)\n'
    )


def with_thresholds(project):
    project.write("suites/tolerances.yaml", f"allow_looser_thresholds: true\n{project.read('suites/tolerances.yaml')}")


TRICKS = {
    # What was accepted
    "accept a worse baseline": Trick(worse_baseline, FindingKind.BASELINE_CHANGED, CASE, "times the accepted value"),
    "edit a baseline by hand": Trick(edited_baseline, FindingKind.BASELINE_CHANGED, CASE, "mean_abs_error of out"),
    "accept a wrong result as known bad": Trick(
        accepted_as_known_bad,
        FindingKind.KNOWN_BAD_ACCEPTED,
        CASE,
        "newly accepts a wrong result as known bad: as ever",
    ),
    "make a baseline that fits no inputs": Trick(
        in_entries(lambda cases: cases[CASE_NAME].update(inputs=["x", "y"])),
        FindingKind.BASELINE_CHANGED,
        CASE,
        "inputs",
    ),
    "let a baseline claim another machine": Trick(
        in_entries(lambda cases: cases[CASE_NAME].update(fingerprint="other")), FindingKind.BASELINE_CHANGED, CASE
    ),
    "forget where its bits were seen": Trick(
        seen_lost, FindingKind.BASELINE_CHANGED, CASE, "fewer environments in which its bits were seen"
    ),
    "remove a baseline's entry": Trick(
        in_entries(lambda cases: cases.pop(CASE_NAME)), FindingKind.BASELINE_REMOVED, CASE, "was removed"
    ),
    "remove a file of baselines": Trick(file_removed(MEANS), FindingKind.BASELINE_REMOVED, MEAN_ID),
    "add baselines of a nearer environment": Trick(shaded, FindingKind.BASELINE_CHANGED, MEAN_ID, "comes before"),
    "make such baselines in the job, ignored by git": Trick(
        shaded_by_an_ignored_file, FindingKind.BASELINE_CHANGED, MEAN_ID, "comes before"
    ),
    "delete the first accepted entry": Trick(history_lost, FindingKind.HISTORY_REMOVED, CASE),
    "make the first accepted entry look worse": Trick(
        history_altered, FindingKind.HISTORY_REMOVED, CASE, "values were removed"
    ),
    "be judged by another case's baseline": Trick(
        in_suite("version: v1", "version: v2", "suites/unit/recorded.yaml"),
        FindingKind.SETTING_LOOSENED,
        "unit/recorded",
    ),
    "be judged by one's own baseline again": Trick(
        in_suite("baseline_of: {version: v1}\n", "", "suites/unit/recorded.yaml"),
        FindingKind.SETTING_LOOSENED,
        "unit/recorded/v2-a",
    ),
    # Bounds
    "raise a bound of the project": Trick(
        in_tolerances("max_ulp: 4096", "max_ulp: 8192"),
        FindingKind.BOUND_LOOSENED,
        MEAN_ID,
        "max_ulp has to be at most 8192",
    ),
    "raise rtol": Trick(
        in_tolerances("tiers:\n  unit: {max_ulp: 4096}", "tiers:\n  unit: {max_ulp: 4096, rtol: 1}"),
        FindingKind.BOUND_LOOSENED,
        "unit/copy",
        "rtol has to be at most 1",
    ),
    "remove a bound": Trick(
        in_suite("  mean_rel_error: 1\n", ""), FindingKind.BOUND_LOOSENED, MEAN_ID, "mean_rel_error is not bound"
    ),
    "ask for fewer matches": Trick(
        in_suite("  mean_rel_error: 1\n", "  mean_rel_error: 1\n  match_ratio: 0.9\n"),
        FindingKind.BOUND_LOOSENED,
        MEAN_ID,
        "match_ratio has to be at least 0.9",
    ),
    "ask for less of a metric where more is better": Trick(
        in_suite("cosine: 0.9", "cosine: 0.1"), FindingKind.BOUND_LOOSENED, MEAN_ID, "cosine has to be at least 0.1"
    ),
    "take another standard": Trick(
        in_suite("tolerance:\n", "tolerance:\n  standard: double-thousandth-1\n"), FindingKind.BOUND_LOOSENED, MEAN_ID
    ),
    "take a standard with alternatives": Trick(
        in_suite("tolerance:\n", "tolerance:\n  standard: msprobe-ulp-26.2.0\n"), FindingKind.BOUND_LOOSENED, MEAN_ID
    ),
    "raise a bound for one dtype": Trick(
        in_suite("tolerance:\n", "tolerance:\n  float16: {rtol: 1}\n"), FindingKind.BOUND_LOOSENED, MEAN_ID, "(float16)"
    ),
    "raise a bound for some cases": Trick(
        in_suite("{rms_error: 0.1,", "{rms_error: 0.2,"), FindingKind.BOUND_LOOSENED, CASE, "rms_error"
    ),
    "raise a bound for one output": Trick(
        in_suite("{cosine: 0.9}", "{cosine: 0.9, rtol: 1}"), FindingKind.BOUND_LOOSENED, MEAN_ID, "out)"
    ),
    "raise a bound in one environment": Trick(
        in_tolerances("npu: {max_ulp: 32}", "npu: {max_ulp: 64}"), FindingKind.BOUND_LOOSENED, MEAN_ID, "(npu)"
    ),
    "change to a laxer category": Trick(
        in_suite("category: reduction\n", "category: other\n"),
        FindingKind.BOUND_LOOSENED,
        MEAN_ID,
        "mean_ulp is not bound",
    ),
    "remove suites/tolerances.yaml": Trick(file_removed("suites/tolerances.yaml"), FindingKind.BOUND_LOOSENED, MEAN_ID),
    "let more growth pass": Trick(
        in_suite("{mean_abs_error: 0.1}", "{mean_abs_error: 0.5}"),
        FindingKind.REGRESSION_LOOSENED,
        MEAN_ID,
        "regression.mean_abs_error allows 0.5",
    ),
    "judge no growth": Trick(
        in_suite("regression: {mean_abs_error: 0.1}", "regression: off"),
        FindingKind.REGRESSION_LOOSENED,
        MEAN_ID,
        "is off",
    ),
    "let a variable replace bounds": Trick(with_thresholds, FindingKind.SETTING_LOOSENED, "suites/tolerances.yaml"),
    # Cases
    "remove a suite": Trick(file_removed(SUITE), FindingKind.CASE_REMOVED, MEAN_ID),
    "call its file otherwise": Trick(commented_out, FindingKind.CASE_REMOVED, MEAN_ID),
    "take a value out of the matrix": Trick(in_suite("[16, 32]", "[32]"), FindingKind.CASE_REMOVED, CASE),
    "exclude a row": Trick(
        in_suite("  n: [16, 32]\n", "  n: [16, 32]\n  exclude: [{dtype: float16, n: 16}]\n"),
        FindingKind.CASE_REMOVED,
        CASE,
    ),
    "remove recorded outputs with their golden": Trick(
        lambda project: [path.unlink() for path in (project.root / "suites/unit").rglob("b.npy")],
        FindingKind.CASE_REMOVED,
        "unit/recorded/v1-b",
    ),
    "rename a suite": Trick(renamed, FindingKind.CASE_RENAMED, "unit/average", "under another name"),
    "move a suite to another tier": Trick(into_another_tier, FindingKind.CASE_RENAMED, "model/mean"),
    "draw easier inputs": Trick(in_suite("std: 1}", "std: 0.001}"), FindingKind.CASE_REDEFINED, MEAN_ID, "inputs"),
    "make the subject its own reference": Trick(
        in_suite("reference: kernels:exact", "reference: kernels:mean"),
        FindingKind.CASE_REDEFINED,
        MEAN_ID,
        "reference",
    ),
    "change a parameter that nothing reads": Trick(
        in_suite("params: {}", "params: {mode: fast}"), FindingKind.CASE_REDEFINED, MEAN_ID, "params"
    ),
    "hold against a reference in place of the golden": Trick(
        in_suite("golden: kernels", "reference: kernels", "suites/unit/copy.yaml"),
        FindingKind.CASE_REDEFINED,
        "unit/copy",
    ),
    "run on another simulated device": Trick(
        in_suite("device: npu", "device: cpu", "suites/unit/device.yaml"), FindingKind.CASE_REDEFINED, "unit/device"
    ),
    # What results are held against
    "make the reference worse": Trick(
        in_suite("return average(widened(x))", "return mean(x)", "suites/unit/kernels.py"),
        FindingKind.REFERENCE_CHANGED,
        MEAN_ID,
    ),
    "change a function that the reference calls": Trick(
        in_suite("np.sum(x, axis=0) / len(x)", "mean(x)", "suites/unit/kernels.py"),
        FindingKind.REFERENCE_CHANGED,
        MEAN_ID,
    ),
    "change a module that the reference imports": Trick(
        in_suite("astype('float64')", "astype('float16')", "suites/shared.py"), FindingKind.REFERENCE_CHANGED, MEAN_ID
    ),
    "put another module in its place": Trick(shadowed_reference, FindingKind.REFERENCE_CHANGED, MEAN_ID),
    "move the suite beside another module": Trick(moved_beside_another_module, FindingKind.REFERENCE_CHANGED, MEAN_ID),
    "give the name another meaning": Trick(patched_reference, FindingKind.REFERENCE_CHANGED, MEAN_ID),
    "patch a library that it calls": Trick(patched_elsewhere, FindingKind.REFERENCE_CHANGED, MEAN_ID),
    "patch it from the kernel's side": Trick(
        patched_by_the_kernel,
        FindingKind.REFERENCE_CHANGED,
        MEAN_ID,
        "alters what its reference may use: shared.widened",
    ),
    "patch a library while the kernel runs": Trick(
        patched_while_it_runs, FindingKind.REFERENCE_CHANGED, MEAN_ID, "may use: setattr(np, 'sum', len)"
    ),
    "put compiled code in the place of its text": Trick(compiled_in_its_place, FindingKind.REFERENCE_CHANGED, MEAN_ID),
    "put a compiled module nearer than it": Trick(compiled_nearer, FindingKind.REFERENCE_CHANGED, MEAN_ID),
    "change a file that the reference reads": Trick(
        in_suite("1", "2", "suites/scale.txt"), FindingKind.REFERENCE_CHANGED, MEAN_ID, "suites/scale.txt"
    ),
    "change a file that a parameter names": Trick(
        in_suite("1", "2", "suites/scale.txt"), FindingKind.REFERENCE_CHANGED, "unit/copy", "suites/scale.txt"
    ),
    "name a worse benchmark": Trick(
        in_suite("benchmark: theirs:mean", "benchmark: theirs:worse"),
        FindingKind.REFERENCE_CHANGED,
        MEAN_ID,
        "its benchmark is python theirs:worse, and was python theirs:mean",
    ),
    "make the benchmark worse": Trick(
        in_suite(".mean(axis=0)\n", ".mean(axis=0) * x.dtype.type(2)\n", "suites/theirs.py"),
        FindingKind.REFERENCE_CHANGED,
        MEAN_ID,
        "the code of its benchmark theirs:mean changed",
    ),
    "make a function worse that the benchmark calls": Trick(
        in_suite("    return x\n", "    return x * x.dtype.type(2)\n", "suites/theirs.py"),
        FindingKind.REFERENCE_CHANGED,
        MEAN_ID,
        "the code of its benchmark theirs:mean changed",
    ),
    "record another golden": Trick(another_golden, FindingKind.REFERENCE_CHANGED, "unit/recorded/v1-a", "golden/a.npy"),
    "make the simulated device more precise": Trick(
        in_suite("accumulator: float16", "accumulator: float64", "suites/devices/npu.yaml"),
        FindingKind.REFERENCE_CHANGED,
        "unit/device",
        "npu.yaml",
    ),
    # How hard it is looked at
    "draw fewer seeds": Trick(
        in_suite("seeds: 2", "seeds: 1"), FindingKind.SEEDS_LOWERED, MEAN_ID, "seeds: 1, and had 2"
    ),
    "draw fewer seeds for some cases": Trick(
        in_suite("  - match: float16-*\n", "  - match: float16-*\n    seeds: 1\n"), FindingKind.SEEDS_LOWERED, CASE
    ),
    "repeat less often": Trick(in_suite("repeats: 2", "repeats: 1"), FindingKind.REPEATS_LOWERED, MEAN_ID),
    "expect a failure": Trick(
        in_suite("params: {}", "params: {}\nexpect: fail\nreason: known"),
        FindingKind.EXPECT_FAILURE_ADDED,
        MEAN_ID,
        "known",
    ),
    "expect a failure of some cases": Trick(
        in_suite("  - match: float16-*\n", "  - match: float16-*\n    expect: fail\n    reason: known\n"),
        FindingKind.EXPECT_FAILURE_ADDED,
        CASE,
    ),
    "no longer promise exact bits": Trick(
        in_suite("exact: true\n", "", "suites/unit/copy.yaml"), FindingKind.EXACT_DROPPED, "unit/copy"
    ),
    "let repeats differ": Trick(
        in_suite("params: {}", "params: {}\ndeterministic: false"), FindingKind.DETERMINISM_DROPPED, MEAN_ID
    ),
    "raise the budget": Trick(in_suite("time_ratio: 1000", "time_ratio: 9000"), FindingKind.BUDGET_LOOSENED, MEAN_ID),
    "remove the budget": Trick(in_suite("budget: {time_ratio: 1000}\n", ""), FindingKind.BUDGET_LOOSENED, MEAN_ID),
    "raise the timeout": Trick(in_suite("timeout: 60", "timeout: 600"), FindingKind.BUDGET_LOOSENED, MEAN_ID),
    "require a missing package or device": Trick(
        in_suite("params: {}", "params: {}\nrequires: [device:npu]"), FindingKind.CASE_SKIPPED, MEAN_ID, "device:npu"
    ),
    "remove the tag that a job selects by": Trick(
        in_suite("tags: [gate]\n", ""), FindingKind.CASE_SKIPPED, MEAN_ID, "gate"
    ),
}
"""By what the page calls it."""


def of_kind(found, trick):
    """Return the findings of a trick's kind that are about what it is about, or about a case of that suite."""
    of_suite = f"{trick.about}/"
    return [
        finding
        for finding in found
        if finding.kind is trick.kind and (finding.about == trick.about or finding.about.startswith(of_suite))
    ]


@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_is_found_and_binds_unless_it_is_allowed(name, project):
    trick = TRICKS[name]
    trick.done(project)
    found = of_kind(project.bar().findings, trick)
    assert found, project.bar().findings
    assert all(finding.binding for finding in found)
    words = [*map(describe_run_finding, found)]
    assert any(trick.says in text for text in words), words
    project.allow({"case": trick.about, "change": str(trick.kind), "reason": "on purpose"})
    allowed = of_kind(project.bar().findings, trick)
    assert [finding.allowed for finding in allowed] == ["on purpose"] * len(found)


@pytest.mark.parametrize(
    "name", [name for name, trick in TRICKS.items() if trick.kind is FindingKind.REFERENCE_CHANGED]
)
def test_results_leave_a_trick_with_a_reference_a_finding(name, project):
    """The command runs the base's references, too: the text alone would say so of harmless changes."""
    trick = TRICKS[name]
    trick.done(project)
    done = precreg(project.root, "run", "--against", project.base, "--pair", "off", "--jobs", "1")
    record = json.loads(project.read("reports/record.json"))
    found = of_kind([RunFinding(**each) for each in map(as_finding, record["findings"])], trick)
    assert found, done.stdout + done.stderr
    assert any(trick.says in finding.message for finding in found)


def as_finding(stored):
    return {"kind": FindingKind(stored["kind"]), "about": stored["about"], "message": stored["message"]}


def test_nothing_is_found_where_nothing_changed(project):
    held = project.bar()
    assert (held.findings, held.commit) == ((), project.base)
    assert [case.id for case in held.cases]


def test_the_page_lists_these_tricks_with_what_catches_them():
    page = (ROOT / "docs" / "integrity-tricks.md").read_text()
    rows = re.findall(r"^\| ([^|]+?) \| `(\w+)` \|$", page, re.MULTILINE)
    assert rows == [(name, str(trick.kind)) for name, trick in TRICKS.items()]


def test_the_demo_is_what_it_says():
    for text in (MEAN, COPY, RECORDED, DEVICE):
        assert yaml.safe_load(text)["suite"]
