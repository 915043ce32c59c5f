"""The self-test passes for every form, and names what a form does not give as the plain one does."""

import warnings
from math import inf, nan

import numpy as np
import pytest

from precreg.measure import plain
from precreg.measure.comparison import BACKENDS
from precreg.measure.tally import Counts, MeasureRules, Tally
from precreg.quality.self_test import adversarial_pairs, self_test_measure, tally_differences

RULES = MeasureRules(1e-3, 1e-5, 5)
PAIR = np.float32([1, 2.5, nan, 0]), np.float32([1, 2, 3, 1e-40])


@pytest.mark.parametrize("form", [name for name in BACKENDS if name != "plain"])
def test_every_form_passes_without_a_warning(form):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert self_test_measure(BACKENDS[form]) == (2100, [])


def test_the_pairs_are_hard():
    with np.errstate(all="ignore"):
        wide = [(actual.astype(np.float64), reference.astype(np.float64)) for actual, reference in adversarial_pairs()]
    references = np.concatenate([reference for _, reference in wide])
    assert np.isnan(references).any()
    assert {inf, -inf, 0.0, 5e-324} <= set(references.tolist())
    assert ((references != 0) & (np.abs(references) < 2.0**-1022)).any()


def changed(**fields):
    tally = plain.tally_reference(*PAIR, 0, (4,), RULES)
    return Tally(**{name: getattr(tally, name) for name in tally.__struct_fields__} | fields)


def test_a_tally_differs_in_what_was_changed():
    tally = changed()
    assert tally_differences(tally, changed()) == []
    assert tally_differences(tally, changed(counts=Counts())) == ["counts"]
    assert tally_differences(tally, changed(maxima=tally.maxima._replace(diff3=nan))) == ["maxima"]
    assert tally_differences(tally, changed(groups=())) == ["groups"]
    assert tally_differences(tally, changed(errors=[])) == ["errors"]


def test_sums_are_held_as_rational_numbers():
    """0.5 and what is left of a sum: 2**-61 of it is let through, 2**-59 is not, and neither is infinity."""
    tally = changed()
    same, other = ((tally.sums.absolute[0], 0.5 * 2.0**-exponent) for exponent in (62, 58))
    assert tally_differences(tally, changed(sums=tally.sums._replace(absolute=same))) == []
    assert tally_differences(tally, changed(sums=tally.sums._replace(absolute=other))) == ["absolute"]
    assert tally_differences(tally, changed(sums=tally.sums._replace(product=(inf,)))) == ["product"]
    assert tally_differences(tally, changed(scaled={("squared_error", 600): (1.0,)})) == ["squared_error"]
