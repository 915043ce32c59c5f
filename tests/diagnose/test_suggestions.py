"""Suggestions: the rewrites that a shape of an error brings to the front."""

from typing import get_args

import numpy as np

from precreg.diagnose.bases import hypotheses_of, prepare_base
from precreg.diagnose.rewrites.suggestions import _SUGGESTED, suggested_rewrites
from precreg.report.causes.rewrite_words import _REWRITES
from precreg.types import Fingerprint, FingerprintKind
from tests.diagnose.bases import base_of, normal


def test_a_sure_shape_suggests_and_an_unsure_one_does_not():
    assert "tail" in suggested_rewrites([Fingerprint("last_block", "out", 0.99)])
    assert suggested_rewrites([Fingerprint("last_block", "out", 0.2)]) == frozenset()
    assert suggested_rewrites([]) == frozenset()


def test_suggestions_are_rewrites_that_exist():
    assert set(_SUGGESTED) <= set(get_args(FingerprintKind))
    assert {name for names in _SUGGESTED.values() for name in names} <= set(_REWRITES)


def double(x):
    return x + x


def test_suggested_rewrites_come_first():
    x = normal(4, 20)
    prepared = prepare_base(base_of(double, {"x": x}), {"out": x})
    assert hypotheses_of(prepared)[0].rewrite == "hop"
    assert hypotheses_of(prepared, frozenset({"tail"}))[0].rewrite == "tail"


def test_rounding_to_the_dtype_of_the_subject_is_no_rewrite_of_an_exact_result():
    x = normal(4, 20)
    prepared = prepare_base(base_of(double, {"x": x.astype("float64")}), {"out": x}, is_exact=True)
    formats = {each.options.get("format") for each in hypotheses_of(prepared)}
    assert "float16" in formats
    assert "float32" not in formats


def normalized(x, eps=1e-3):
    return x / np.sqrt(x * x + np.float32(eps))


def test_an_epsilon_is_tried_before_the_numbers_in_its_place():
    x = normal(4, 20)
    prepared = prepare_base(base_of(normalized, {"x": x}), {"out": x})
    names = [each.rewrite for each in hypotheses_of(prepared, suggested_rewrites([_FACTOR]))]
    assert names.index("dropped_epsilon") < names.index("other_constant")


_FACTOR = Fingerprint("constant_factor", "out", 0.99)
