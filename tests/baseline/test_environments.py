import json

import pytest
from msgspec.structs import replace

from precreg.baseline.environments import (
    ACCEPTED_ENVIRONMENTS_FILE,
    PROPOSED_ENVIRONMENTS_FILE,
    accept_environment_facts,
    add_environment_facts,
    differing_facts,
    entry_environment_difference,
    explain_baseline,
    propose_environment_facts,
    prune_environment_facts,
    read_environment_facts,
)
from precreg.baseline.store import lock_baselines
from precreg.errors import UserError
from precreg.types.record import Baseline, Environment
from precreg.types.verdict import ChangedEnvironment, EnvironmentFact, SameDescription, UnknownEnvironment
from tests.baseline.samples import ENTRY

FACTS = {"blas": "openblas 0.3", "cpu": "Xeon", "cpu_features": "X86_V2 AVX2", "numpy": "2.3.5", "python": "3.11.7"}
HERE = Environment("cpu-x86_64", ("cpu-x86_64", "generic"), "aaaaaaaa", {**FACTS, "os": "Linux 6.1"})
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


def test_the_system_has_no_effect_on_bits_and_is_not_kept(tmp_path):
    with lock_baselines(tmp_path):
        propose_environment_facts(tmp_path, HERE)
    assert read_environment_facts(tmp_path, PROPOSED_ENVIRONMENTS_FILE) == {"aaaaaaaa": FACTS}


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
            {"driver": "7", "cpu": "EPYC", "numpy": "2.5.1"},
            (NUMPY, EnvironmentFact("cpu", "Xeon", "EPYC"), EnvironmentFact("driver", None, "7")),
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


def test_what_is_different_between_two_entries_is_told():
    known = {ENTRY.fingerprint: FACTS, "cccccccc": {**FACTS, "numpy": "2.5.1"}}
    now = replace(ENTRY, fingerprint="cccccccc")
    assert entry_environment_difference(ENTRY, now, known) == ChangedEnvironment((NUMPY,))
    assert entry_environment_difference(ENTRY, ENTRY, {}) is None
    assert entry_environment_difference(None, now, known) is None
    same = {ENTRY.fingerprint: FACTS, "cccccccc": FACTS}
    assert entry_environment_difference(ENTRY, now, same) == SameDescription(ENTRY.fingerprint, "cccccccc")
    unknown = UnknownEnvironment(ENTRY.fingerprint)
    assert entry_environment_difference(ENTRY, now, {"cccccccc": FACTS}) == unknown


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
