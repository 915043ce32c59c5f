"""Sentences of clipping say the figures of the sweep, and name a clip before unscaling."""

from math import inf

import numpy as np
import pytest

from precreg.report.training.clip_sentences import (
    CLIP_COLUMNS,
    clip_rows,
    describe_clip_order,
    describe_clipping,
    format_cosine,
)
from precreg.training.clipping import find_clipped_before_unscale, sweep_clipping
from precreg.types import ClippedStep
from tests.training.steps import MadeStep


def steps_of(*arrays):
    return [MadeStep(step, {"w": np.float64(each)}) for step, each in enumerate(arrays)]


def test_norms_and_the_limit_that_turns_most():
    lines = describe_clipping(sweep_clipping(steps_of([1.0, 0.0], [0.0, 9.0], [inf, 0.0]), [1.0]))
    assert lines == [
        "gradient norms of 2 steps: 1 to 9, median 9",
        "the norm 1 turns the sum over the steps most: cosine 0.7809, 1 of 2 steps clipped",
        "1 step without a finite norm are left out",
    ]


def test_a_sample_is_said():
    lines = describe_clipping(sweep_clipping(steps_of(np.ones(1000)), kept=10))
    assert lines[-1] == "cosines of sums and of clipped values come from a sample: 10 of 1,000 elements of each step"


def test_no_norm():
    lines = describe_clipping(sweep_clipping(steps_of([inf])))
    assert lines == ["clipping: no norm was measured (1 step, 1 of them without a finite norm)"]


def test_a_row_for_each_limit():
    rows = clip_rows(sweep_clipping(steps_of([1.0, 0.0], [0.0, 9.0]), [1.0], [0.5]))
    assert {len(row) for row in rows} == {len(CLIP_COLUMNS)}
    assert rows[0] == ("norm of all", "1", "given", "50 %", "1", "1", "0.7809", "0.1562")
    assert ("values", "0.5", "given", "100 %") in [row[:4] for row in rows]


def test_a_clip_before_unscaling_has_its_limit_and_its_remedy():
    fact = find_clipped_before_unscale([ClippedStep(4, 3072.0, 1.0, 1024.0, True), ClippedStep(9, 1.0, 1.0, 1.0, True)])
    assert describe_clip_order(fact) == [
        "clipped before unscaling: 1 of 2 clippings, first at step 4; the limit 1 acted as 0.000977 on the gradients",
        "it clipped 1 of 1 step; after unscaling it would clip 1",
        "unscale first: scaler.unscale_(optimizer); torch.nn.utils.clip_grad_norm_(model.parameters(), limit)",
    ]
    assert describe_clip_order(None) == []


@pytest.mark.parametrize(
    ("cosine", "text"),
    [(1.0, "1"), (0.9999, "0.9999"), (1 - 2.0**-20, "1 - 9.5e-07"), (0.5, "0.5"), (None, "not known")],
)
def test_a_cosine_below_1_never_reads_1(cosine, text):
    assert format_cosine(cosine) == text
