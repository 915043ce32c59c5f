"""benchmarks/hindsight_study.py in small: its labels, its score, and the F1 that the page promises."""

import importlib.util
import itertools
import sys

import pytest

from tests.e2e.command import ROOT

_SPEC = importlib.util.spec_from_file_location("hindsight_study", ROOT / "benchmarks" / "hindsight_study.py")
study = importlib.util.module_from_spec(_SPEC)
sys.modules["hindsight_study"] = study
_SPEC.loader.exec_module(study)


def test_a_reported_change_finds_one_labelled_change_within_the_margin():
    labelled = study.Labelled([], [20, 40])
    assert study.score(labelled, [15, 46]) == (1, 2, 2)
    assert study.score(labelled, [18, 22]) == (1, 2, 2)
    assert study.score(labelled, [20, 40]).f1 == 1
    assert study.score(study.Labelled([], []), []).f1 == 1


@pytest.mark.parametrize("kind", study.KINDS)
def test_labels_lie_inside_the_series_and_apart(kind):
    for seed in range(5):
        values, changes = study.draw(kind, seed)
        assert all(value > 0 for value in values)
        assert all(0 < place < len(values) for place in changes)
        assert all(later - earlier >= study.GAP for earlier, later in itertools.pairwise(changes))
        assert (not changes) == kind.startswith("no change")


def test_f1_is_above_nine_tenths_on_series_that_chose_no_constant():
    scores = [study.study(kind, range(1, 13, 2), study.precreg) for kind in study.KINDS]
    assert study.sum_scores(scores).f1 >= 0.9
