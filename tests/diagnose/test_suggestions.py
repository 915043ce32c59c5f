"""Suggestions: the rewrites that a shape of an error brings to the front."""

from typing import get_args

from precreg.diagnose.rewrites.suggestions import _SUGGESTED, suggested_rewrites
from precreg.report.rewrite_words import _REWRITES
from precreg.types import Fingerprint, FingerprintKind


def test_a_sure_shape_suggests_and_an_unsure_one_does_not():
    assert "tail" in suggested_rewrites([Fingerprint("last_block", "out", 0.99)])
    assert suggested_rewrites([Fingerprint("last_block", "out", 0.2)]) == frozenset()
    assert suggested_rewrites([]) == frozenset()


def test_suggestions_are_rewrites_that_exist():
    assert set(_SUGGESTED) <= set(get_args(FingerprintKind))
    assert {name for names in _SUGGESTED.values() for name in names} <= set(_REWRITES)
