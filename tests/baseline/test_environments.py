import json

import pytest
from msgspec.structs import replace

from precreg.baseline.environments import (
    ACCEPTED,
    PROPOSED,
    accept,
    between,
    changes,
    explained,
    facts,
    forget_others,
    remember,
    remember_this,
)
from precreg.baseline.write import locked
from precreg.errors import UserError
from precreg.types.records import Baseline, Environment
from tests.baseline.samples import ENTRY

FACTS = {"blas": "openblas 0.3", "cpu": "Xeon", "cpu_features": "X86_V2 AVX2", "numpy": "2.3.5", "python": "3.11.7"}
HERE = Environment("cpu-x86_64", ("cpu-x86_64", "generic"), "aaaaaaaa", {**FACTS, "os": "Linux 6.1"})
BASELINE = Baseline(ENTRY, "generic", "baselines/generic/unit/a.json")


def keep(project, known, file=ACCEPTED):
    with locked(project):
        remember(project, known, file)


def test_facts_stand_sorted_one_a_line_and_are_read_again(tmp_path):
    keep(tmp_path, {"bbbbbbbb": {"numpy": "2.5.1"}})
    keep(tmp_path, {"aaaaaaaa": {"python": "3.11.7", "numpy": "2.3.5"}})
    assert (
        (tmp_path / ACCEPTED).read_text()
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
    assert facts(tmp_path) == {"aaaaaaaa": {"numpy": "2.3.5", "python": "3.11.7"}, "bbbbbbbb": {"numpy": "2.5.1"}}


def test_the_system_has_no_effect_on_bits_and_is_not_kept(tmp_path):
    with locked(tmp_path):
        remember_this(tmp_path, HERE)
    assert facts(tmp_path, PROPOSED) == {"aaaaaaaa": FACTS}


def test_what_is_accepted_brings_its_facts_and_no_others(tmp_path):
    keep(tmp_path, {"aaaaaaaa": FACTS, "cccccccc": FACTS}, PROPOSED)
    with locked(tmp_path):
        accept(tmp_path, {"aaaaaaaa", "unknown"})
    assert facts(tmp_path) == {"aaaaaaaa": FACTS}


def test_what_no_baseline_has_any_more_is_forgotten(tmp_path):
    keep(tmp_path, {"aaaaaaaa": FACTS, "bbbbbbbb": FACTS})
    with locked(tmp_path):
        forget_others(tmp_path, {"bbbbbbbb"})
        assert list(facts(tmp_path)) == ["bbbbbbbb"]
        forget_others(tmp_path, set())
    assert not (tmp_path / ACCEPTED).exists()


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ({}, ""),
        ({"numpy": "2.5.1"}, "numpy 2.3.5 -> 2.5.1"),
        ({"cpu_features": "X86_V2"}, "cpu_features without AVX2"),
        ({"cpu_features": "X86_V2 AVX2 AVX512F"}, "cpu_features with AVX512F"),
        ({"cpu_features": "X86_V2 AVX512F"}, "cpu_features without AVX2 and with AVX512F"),
        ({"torch": "2.13"}, "torch 2.13 new"),
        ({"driver": "7", "cpu": "EPYC", "numpy": "2.5.1"}, "numpy 2.3.5 -> 2.5.1, cpu Xeon -> EPYC, driver 7 new"),
    ],
)
def test_a_change_is_told_in_words(now, words):
    assert changes(FACTS, {**FACTS, **now}) == words


def test_a_fact_that_is_gone_is_told():
    assert changes({**FACTS, "torch": "2.13"}, FACTS) == "torch 2.13 gone"


def test_a_baseline_of_another_environment_says_what_is_different_here():
    known = {ENTRY.fingerprint: {**FACTS, "numpy": "2.1.0"}}
    assert explained(BASELINE, known, HERE).change == "numpy 2.1.0 -> 2.3.5"
    assert "nothing is kept" in explained(BASELINE, {}, HERE).change
    assert explained(None, known, HERE) is None


def test_a_baseline_of_this_environment_says_nothing():
    here = Environment("cpu", ("cpu",), ENTRY.fingerprint, {})
    assert explained(BASELINE, {ENTRY.fingerprint: FACTS}, here) == BASELINE


def test_what_is_different_between_two_entries_is_told():
    known = {ENTRY.fingerprint: FACTS, "cccccccc": {**FACTS, "numpy": "2.5.1"}}
    now = replace(ENTRY, fingerprint="cccccccc")
    assert between(ENTRY, now, known) == "numpy 2.3.5 -> 2.5.1"
    assert between(ENTRY, ENTRY, {}) == between(None, now, known) == ""
    assert between(ENTRY, now, {"cccccccc": FACTS}) == f"nothing is kept of the environment {ENTRY.fingerprint}"


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
    (tmp_path / ACCEPTED).write_text(text)
    with pytest.raises(UserError) as caught:
        facts(tmp_path)
    assert (caught.value.slug, caught.value.file) == (slug, ACCEPTED)


def test_the_file_is_json(tmp_path):
    keep(tmp_path, {'a"b': {"cpu": 'Intel "R"\\'}})
    assert json.loads((tmp_path / ACCEPTED).read_text())["environments"] == {'a"b': {"cpu": 'Intel "R"\\'}}
