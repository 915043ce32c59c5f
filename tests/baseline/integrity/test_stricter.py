"""Every stricter setting is no finding, with the baselines accepted for it; what only looks stricter is one."""

import json

import pytest
from msgspec.structs import replace

from precreg.baseline.entry import _goes_on, is_extension, succeed_entry
from precreg.baseline.store import BaselineKey, lock_baselines, read_all_entries, store_entries
from precreg.types.record import BaselineOutput
from precreg.types.warning import FindingKind
from tests.baseline.integrity.demo import CASE, MEANS
from tests.baseline.samples import entry

SUITE = "suites/unit/mean.yaml"
# What is written in the suite, and what takes its place.
STRICTER = {
    "one more seed": ("seeds: 2", "seeds: 3"),
    "many more seeds": ("seeds: 2", "seeds: 20"),
    "more repeats": ("repeats: 2", "repeats: 5"),
    "a tighter bound": ("mean_rel_error: 1", "mean_rel_error: 0.5"),
    "a tighter bound of an output": ("cosine: 0.9", "cosine: 0.95"),
    "a tighter bound of some cases": ("rms_error: 0.1", "rms_error: 0.05"),
    "a tighter rtol": ("rtol: 0.05", "rtol: 0.04"),
    "another bound": ("mean_rel_error: 1", "mean_rel_error: 1\n  max_abs_error: 1"),
    "a bound of a dtype": ("mean_rel_error: 1", "mean_rel_error: 1\n  float16: {max_abs_error: 1}"),
    "less growth": ("mean_abs_error: 0.1", "mean_abs_error: 0.05"),
    "growth of another metric": ("{mean_abs_error: 0.1}", "{mean_abs_error: 0.1, rms_error: 0.1}"),
    "exact": ("timeout: 60", "timeout: 60\nexact: true"),
    "a shorter timeout": ("timeout: 60", "timeout: 50"),
    "a tighter budget": ("time_ratio: 1000", "time_ratio: 900"),
    "another tag": ("tags: [gate]", "tags: [gate, nightly]"),
    "a further case": ("n: [16, 32]", "n: [16, 32, 64]"),
    "all of it": ("seeds: 2\nrepeats: 2\ntimeout: 60", "seeds: 5\nrepeats: 3\ntimeout: 30\nexact: true"),
}


# Of these, a run proposes new baselines.
MORE = ("one more seed", "many more seeds", "a further case", "all of it")


@pytest.mark.parametrize(
    ("name", "accepted"), [*((name, False) for name in STRICTER), *((name, True) for name in MORE)]
)
def test_a_stricter_setting_is_no_finding(project, name, accepted):
    project.change(SUITE, *STRICTER[name])
    if accepted:
        project.accept()
    assert {finding.kind for finding in project.bar().findings} <= {FindingKind.CASE_INTRODUCED}


def test_further_seeds_are_stored_with_the_bits_time_and_environments_of_the_former(project):
    before = read_all_entries(project.root)[BaselineKey("generic", CASE)]
    project.change(SUITE, "seeds: 2", "seeds: 5")
    project.accept(CASE)
    now = read_all_entries(project.root)[BaselineKey("generic", CASE)]
    assert (len(before.inputs), len(now.inputs)) == (2, 5)
    assert now.outputs["out"].digests[:2] == before.outputs["out"].digests
    assert (now.duration_s, now.fingerprint, len(now.accepted)) == (before.duration_s, before.fingerprint, 1)


def confirmed(project):
    """Return what a run of the case against the base finds about its extended entry."""
    criteria = project.bar()
    assert criteria.findings == ()
    assert list(criteria.extended) == [CASE]
    return criteria.unconfirmed([project.judged(CASE)])


def extended(project, edit=None):
    project.change(SUITE, "seeds: 2", "seeds: 3")
    project.accept(CASE)
    if edit is not None:
        project.entries(lambda cases: edit(cases[CASE.rpartition("/")[2]]))


def test_a_run_confirms_the_further_seeds(project):
    extended(project)
    assert confirmed(project) == ()
    assert project.judged(CASE).verdict.status == "passed"


def worse_at_the_further_seed(case):
    case["outputs"]["out"]["metrics"]["mean_abs_error"][2] *= 10


def other_bits_at_the_further_seed(case):
    case["outputs"]["out"]["digests"][2] = "0" * 32


def other_inputs_at_the_further_seed(case):
    case["inputs"][2] = "0" * 32


def another_sketch(case):
    case["sketch"]["out"]["counts"][0] += 1000


def wider_groups(case):
    case["groups"]["out"][0][2][0][0] *= 100


@pytest.mark.parametrize(
    "edit",
    [
        worse_at_the_further_seed,
        other_bits_at_the_further_seed,
        other_inputs_at_the_further_seed,
        another_sketch,
    ],
)
def test_a_made_up_extension_is_found_by_the_run(project, edit):
    extended(project, edit)
    (finding,) = confirmed(project)
    assert (finding.kind, finding.about, finding.binding) == (FindingKind.BASELINE_CHANGED, CASE, True)
    project.allow({"case": CASE, "change": "baseline_changed", "reason": "so be it"})
    assert [finding.binding for finding in project.bar().unconfirmed([project.judged(CASE)])] == [False]


def worse_at_a_former_seed(case):
    case["outputs"]["out"]["metrics"]["mean_abs_error"][0] *= 10


def slower(case):
    case["duration_s"] *= 10


def past_forgotten(case):
    del case["accepted"]


def past_altered(case):
    case["accepted"][0]["means"]["out"]["rms_error"] = [9.0, 9.0]


def unsure(case):
    case["reach"] = {"out": {"mean_abs_error": 5.0}}


def of_another_machine(case):
    case["fingerprint"] = "00000000"


@pytest.mark.parametrize(
    "edit", [worse_at_a_former_seed, slower, past_forgotten, past_altered, unsure, of_another_machine, wider_groups]
)
def test_what_comes_with_a_further_seed_and_is_looser_is_a_finding(project, edit):
    extended(project, edit)
    assert FindingKind.BASELINE_CHANGED in {finding.kind for finding in project.bar().findings if finding.binding}


def test_a_seed_less_is_no_extension(project):
    extended(project)
    project.base = project.commit()

    def shortened(cases):
        case = cases[CASE.rpartition("/")[2]]
        output = case["outputs"]["out"]
        case["inputs"].pop()
        output["digests"].pop()
        case["oracle"].pop()
        for values in output["metrics"].values():
            values.pop()
        case["groups"] = {}

    project.entries(shortened)
    assert FindingKind.BASELINE_CHANGED in {finding.kind for finding in project.bar().findings}


def test_fields_of_later_versions_are_equal_or_go_on_by_seeds():
    assert _goes_on({"out": ["a", "b", "c"]}, {"out": ["a", "b"]}, seeds=2)
    assert not _goes_on({"out": ["a", "x", "c"]}, {"out": ["a", "b"]}, seeds=2)
    assert not _goes_on({"out": ["a", "b"]}, {"out": ["a", "b"], "more": ["a", "b"]}, seeds=2)
    assert not _goes_on(["a", "b", "c"], ["a"], seeds=2)
    assert _goes_on({"k.py": "1"}, {"k.py": "1"}, seeds=2)
    assert not _goes_on({"k.py": "2"}, {"k.py": "1"}, seeds=2)


def with_metric(given, values):
    metrics = {**given.outputs["out"].metrics, "sharpness": values}
    return replace(given, outputs={"out": BaselineOutput("float16", (8,), given.outputs["out"].digests, metrics)})


def test_a_further_analyzer_extends_an_entry_and_one_less_does_not():
    former = entry()
    more = succeed_entry(with_metric(entry(), [1.0, 2.0]), former)
    assert is_extension(more, former)
    assert not is_extension(former, more)
    assert not is_extension(replace(more, sketch={}), former)
    assert not is_extension(with_metric(more, [1.0, 2.0]), with_metric(former, [1.0, 3.0]))


def test_the_file_of_an_extension_has_every_line_of_the_former_in_its_order(project):
    """So a reviewer sees digests and values that were added, and none that changed."""
    before = json.loads(project.read(MEANS))["cases"][CASE.rpartition("/")[2]]
    extended(project)
    now = json.loads(project.read(MEANS))["cases"][CASE.rpartition("/")[2]]
    for metric, values in before["outputs"]["out"]["metrics"].items():
        assert now["outputs"]["out"]["metrics"][metric][:2] == values


def test_another_environment_with_the_same_bits_may_extend(project):
    """A further seed that is accepted elsewhere: the environment of the former is remembered."""
    extended(project)
    place = BaselineKey("generic", CASE)
    found = read_all_entries(project.root)[place]
    with lock_baselines(project.root):
        store_entries(project.root, {place: replace(found, fingerprint="00000000", seen=[found.fingerprint])})
    assert project.bar().findings == ()
