import json

import pytest
from msgspec.structs import replace

from precreg.baseline.environments import (
    ACCEPTED_ENVIRONMENTS_FILE,
    PROPOSED_ENVIRONMENTS_FILE,
    accept_environment_facts,
    add_environment_facts,
    differing_facts,
    environment_difference,
    expected_environment,
    explain_baseline,
    propose_environment_facts,
    prune_environment_facts,
    read_environment_facts,
)
from precreg.baseline.store import lock_baselines
from precreg.errors import UserError
from precreg.types.case import Computation
from precreg.types.outcome import Execution
from precreg.types.record import Baseline, Environment, decisive_facts
from precreg.types.verdict import ChangedEnvironment, EnvironmentFact, SameDescription, UnknownEnvironment
from tests.baseline.samples import ENTRY
from tests.verdict.made import case

FACTS = {
    "blas": "openblas 0.3",
    "cpu_features": "X86_V2 AVX2",
    "kernels": "OpenBLAS 0.3 Haswell",
    "libc": "glibc 2.36",
    "libm": "58fc18e0",
    "numpy": "2.3.5",
    "python": "3.11",
    "threads": "1",
}
LIMITS = "OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 OMP_NUM_THREADS=1 BLIS_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1"
EXPLANATIONS = {"cpu": "Xeon", "os": "Linux 6.1", "python_version": "3.11.7", "thread_variables": "OMP_NUM_THREADS=1"}
HERE = Environment("cpu-x86_64", ("cpu-x86_64", "generic"), "aaaaaaaa", {**FACTS, **EXPLANATIONS})
# The same environment, in the terms of version 0.1.0.
FORMER = {
    "blas": "openblas 0.3",
    "cpu": "Xeon",
    "cpu_features": "X86_V2 AVX2",
    "libc": "glibc 2.36",
    "numpy": "2.3.5",
    "python": "3.11.7",
    "threads": LIMITS,
}
NUMPY = EnvironmentFact("numpy", "2.3.5", "2.5.1")
BASELINE = Baseline(ENTRY, "generic", "baselines/generic/unit/a.json")


def keep(project, known, file=ACCEPTED_ENVIRONMENTS_FILE):
    with lock_baselines(project):
        add_environment_facts(project, known, file)


def test_facts_stand_sorted_one_a_line_and_are_read_again(tmp_path):
    keep(tmp_path, {"bbbbbbbb": {"numpy": "2.5.1"}})
    keep(tmp_path, {"aaaaaaaa": {"python": "3.11.7", "numpy": "2.3.5"}})
    assert (
        (tmp_path / ACCEPTED_ENVIRONMENTS_FILE).read_text()
        == """\
{
  "schema": "precreg-environments/1",
  "environments": {
    "aaaaaaaa": {
      "numpy": "2.3.5",
      "python": "3.11.7"
    },
    "bbbbbbbb": {
      "numpy": "2.5.1"
    }
  }
}
"""
    )
    assert read_environment_facts(tmp_path) == {
        "aaaaaaaa": {"numpy": "2.3.5", "python": "3.11.7"},
        "bbbbbbbb": {"numpy": "2.5.1"},
    }


def test_explanations_have_no_effect_on_bits_and_are_not_kept_with_baselines(tmp_path):
    with lock_baselines(tmp_path):
        propose_environment_facts(tmp_path, HERE)
        assert read_environment_facts(tmp_path, PROPOSED_ENVIRONMENTS_FILE) == {"aaaaaaaa": HERE.facts}
        accept_environment_facts(tmp_path, {"aaaaaaaa"})
    assert read_environment_facts(tmp_path) == {"aaaaaaaa": FACTS}


def test_what_is_accepted_brings_its_facts_and_no_others(tmp_path):
    keep(tmp_path, {"aaaaaaaa": FACTS, "cccccccc": FACTS}, PROPOSED_ENVIRONMENTS_FILE)
    with lock_baselines(tmp_path):
        accept_environment_facts(tmp_path, {"aaaaaaaa", "unknown"})
    assert read_environment_facts(tmp_path) == {"aaaaaaaa": FACTS}


def test_what_no_baseline_has_any_more_is_forgotten(tmp_path):
    keep(tmp_path, {"aaaaaaaa": FACTS, "bbbbbbbb": FACTS})
    with lock_baselines(tmp_path):
        prune_environment_facts(tmp_path, {"bbbbbbbb"})
        assert list(read_environment_facts(tmp_path)) == ["bbbbbbbb"]
        prune_environment_facts(tmp_path, set())
    assert not (tmp_path / ACCEPTED_ENVIRONMENTS_FILE).exists()


@pytest.mark.parametrize(
    ("now", "differing"),
    [
        ({}, ()),
        ({"numpy": "2.5.1"}, (EnvironmentFact("numpy", "2.3.5", "2.5.1"),)),
        ({"torch": "2.13"}, (EnvironmentFact("torch", None, "2.13"),)),
        (
            {"driver": "7", "kernels": "OpenBLAS 0.3 Zen", "numpy": "2.5.1"},
            (
                NUMPY,
                EnvironmentFact("kernels", "OpenBLAS 0.3 Haswell", "OpenBLAS 0.3 Zen"),
                EnvironmentFact("driver", None, "7"),
            ),
        ),
    ],
)
def test_facts_that_differ_come_in_the_order_of_causes(now, differing):
    assert differing_facts(FACTS, {**FACTS, **now}) == differing


def test_a_fact_that_is_gone_differs():
    assert differing_facts({**FACTS, "torch": "2.13"}, FACTS) == (EnvironmentFact("torch", "2.13", None),)


def test_a_baseline_of_another_environment_says_what_is_different_here():
    known = {ENTRY.fingerprint: {**FACTS, "numpy": "2.1.0"}}
    upgraded = ChangedEnvironment((EnvironmentFact("numpy", "2.1.0", "2.3.5"),))
    assert explain_baseline(BASELINE, known, HERE).difference == upgraded
    assert explain_baseline(BASELINE, {}, HERE).difference == UnknownEnvironment(ENTRY.fingerprint)
    assert explain_baseline(None, known, HERE) is None


def test_a_baseline_of_this_environment_says_nothing():
    here = Environment("cpu", ("cpu",), ENTRY.fingerprint, {})
    assert explain_baseline(BASELINE, {ENTRY.fingerprint: FACTS}, here) == BASELINE


def test_a_baseline_whose_bits_were_seen_here_says_nothing():
    for known_here in (replace(ENTRY, seen=["aaaaaaaa"]), replace(ENTRY, fingerprint="aaaaaaaa")):
        assert explain_baseline(replace(BASELINE, entry=known_here), {}, HERE).difference is None
    former = replace(HERE, former=(ENTRY.fingerprint,))
    assert explain_baseline(BASELINE, {}, former).difference is None
    stranger = replace(BASELINE, entry=replace(ENTRY, fingerprint="x", seen=["y"]))
    assert explain_baseline(stranger, {}, former).difference == UnknownEnvironment("x")


def test_two_environments_differ_in_facts_with_an_effect():
    known = {"bbbbbbbb": FACTS, "cccccccc": {**FACTS, "numpy": "2.5.1"}}
    assert environment_difference("bbbbbbbb", "cccccccc", known) == ChangedEnvironment((NUMPY,))
    assert environment_difference("bbbbbbbb", "bbbbbbbb", {}) is None
    same = {"bbbbbbbb": FACTS, "cccccccc": HERE.facts}
    assert environment_difference("bbbbbbbb", "cccccccc", same) == SameDescription("bbbbbbbb", "cccccccc")
    assert environment_difference("bbbbbbbb", "cccccccc", {"cccccccc": FACTS}) == UnknownEnvironment("bbbbbbbb")


@pytest.mark.parametrize(
    ("before", "differing"),
    [
        ({}, ()),
        # This text gives the same threads as the one here.
        ({"threads": "OPENBLAS_NUM_THREADS=1"}, ()),
        ({"cpu": "EPYC"}, (EnvironmentFact("cpu", "EPYC", "Xeon"),)),
        ({"numpy": "2.1.0", "python": "3.10.1"}, ("python", "numpy")),
        ({"threads": "OMP_NUM_THREADS=8"}, (EnvironmentFact("threads", "OMP_NUM_THREADS=8", "OMP_NUM_THREADS=1"),)),
    ],
)
def test_facts_of_variables_are_compared_with_the_variables_here(before, differing):
    found = environment_difference("old", "aaaaaaaa", {"old": FORMER | before, "aaaaaaaa": HERE.facts})
    facts = found.facts if isinstance(found, ChangedEnvironment) else ()
    assert facts == differing or tuple(fact.name for fact in facts) == differing


def test_facts_of_variables_are_compared_in_common_terms_with_stored_ones():
    """Stored facts have no variables, so only facts that mean the same in both are compared."""
    found = environment_difference("old", "new", {"old": FORMER | {"libc": "musl"}, "new": FACTS})
    assert found == ChangedEnvironment((EnvironmentFact("libc", "musl", "glibc 2.36"),))
    both_old = environment_difference("old", "older", {"old": FORMER, "older": FORMER | {"cpu": "EPYC"}})
    assert both_old == ChangedEnvironment((EnvironmentFact("cpu", "Xeon", "EPYC"),))


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ('{"schema": "precreg-environments/1", "environments": {"a": {"numpy": 2}}}', "unreadable-baseline"),
        ('{"schema": "precreg-environments/1"}', "unreadable-baseline"),
        ('{"schema": "precreg-environments/2", "environments": {}}', "future-schema"),
        ("<<<<<<< HEAD\n{}\n=======\n", "conflicted-baseline"),
    ],
)
def test_a_damaged_file_is_a_clear_error(tmp_path, text, slug):
    (tmp_path / "baselines").mkdir()
    (tmp_path / ACCEPTED_ENVIRONMENTS_FILE).write_text(text)
    with pytest.raises(UserError) as caught:
        read_environment_facts(tmp_path)
    assert (caught.value.slug, caught.value.file) == (slug, ACCEPTED_ENVIRONMENTS_FILE)


def test_the_file_is_json(tmp_path):
    keep(tmp_path, {'a"b': {"cpu": 'Intel "R"\\'}})
    assert json.loads((tmp_path / ACCEPTED_ENVIRONMENTS_FILE).read_text())["environments"] == {
        'a"b': {"cpu": 'Intel "R"\\'}
    }


def test_before_a_run_the_accepted_facts_of_its_kind_stand_for_those_of_a_case():
    computed = HERE.of_case(Execution(facts={"device": "cpu", "driver": "550.54", "about_clock": "3"}))
    baseline = Baseline(replace(ENTRY, fingerprint=computed.fingerprint), "generic", "a.json")
    known = {computed.fingerprint: decisive_facts(computed.facts)}
    torch, python = case(subject=Computation("torch", {"torch": "k:f"})), case()
    assert expected_environment(torch, baseline, known, HERE).has_seen(baseline.entry)
    assert expected_environment(python, baseline, known, HERE) is HERE
    assert expected_environment(torch, None, known, HERE) is HERE
    newer = replace(HERE, facts={**HERE.facts, "numpy": "2.5.1"})
    expected = expected_environment(torch, baseline, known, newer)
    assert explain_baseline(baseline, known, expected).difference == ChangedEnvironment((NUMPY,))
