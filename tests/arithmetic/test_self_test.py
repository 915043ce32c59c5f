"""Known results of arithmetic: every form gives them, they hold in rational arithmetic, and a wrong one is named."""

import numpy as np
import pytest

from precreg.arithmetic.exact import exact_dot, exact_round
from precreg.arithmetic.formats import Rounding, format_named
from precreg.arithmetic.unit import Unit
from precreg.quality import self_test


@pytest.mark.parametrize("form", ["", "numpy"])
def test_every_form_gives_what_is_known(form, monkeypatch):
    monkeypatch.setenv("PRECREG_FORM", form)
    assert self_test.self_test_arithmetic() == (36, [])


def test_what_is_known_holds_in_rational_arithmetic():
    for name, rounding, value, expected in self_test._ROUNDED:
        assert repr(exact_round(value, format_named(name), Rounding(rounding))) == repr(expected)
    for name, rounding, order, width, term, expected in self_test._SUMS:
        format = format_named(name)
        unit = Unit(format_named("fp16"), format, format, rounding=Rounding(rounding), order=order, width=width)
        assert exact_dot([term] * 4096, [1.0] * 4096, unit) == expected


def test_a_wrong_sum_is_named(monkeypatch):
    monkeypatch.setattr(self_test, "matmul", lambda a, b, unit: np.full((3, 5), 4096.0))
    checked, wrong = self_test.self_test_arithmetic()
    assert checked == 36
    assert "4096 times 1.0 in fp16, nearest_even, sequential" in wrong
    assert "4096 times 1.0 in fp16, nearest_even, blocks" not in wrong
