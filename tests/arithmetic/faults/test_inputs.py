"""What a subject is given: inputs on a hop, a tail that is read askew, params that count steps."""

import numpy as np

from precreg.arithmetic.faults.planting import alter_inputs, alter_params, one_step_less
from precreg.arithmetic.faults.table import fault_named
from tests.arithmetic.faults.planting import run, same_bits


@np.errstate(over="ignore")
def test_inputs_pass_through_a_narrower_dtype():
    x = np.array([1.12156456132, 70000.0, 1e-9], np.float32)
    assert run("hop_float16", lambda x: x * 1, x).tolist() == [1.12109375, np.inf, 0]
    assert run("hop_bfloat16", lambda x: x * 1, x)[0] == 1.125
    half = x.astype(np.float16)
    assert same_bits(run("hop_float16", lambda x: x * 1, half), half)


def test_the_tail_is_read_one_element_too_early():
    x = np.arange(2 * 20, dtype=np.float32).reshape(2, 20)
    expected = x.copy()
    expected[:, 16:] = [[15, 16, 17, 18], [35, 36, 37, 38]]
    assert same_bits(run("misaligned_tail", lambda x: x * 1, x), expected)


def test_full_blocks_and_short_rows_have_no_tail():
    for shape in ((3, 32), (3, 15), (), (2, 0)):
        x = np.ones(shape, np.float32)
        assert same_bits(alter_inputs({"x": x}, fault_named("misaligned_tail"))["x"], x)
    whole = np.arange(20)
    assert alter_inputs({"x": whole}, fault_named("misaligned_tail"))["x"] is whole


def test_steps_are_one_less():
    params = {"steps": 10, "terms": 2, "iterations": 1, "eps": 1e-5, "newton_steps": 64, "step": 1000}
    assert one_step_less(params) == params | {"steps": 9, "terms": 1, "newton_steps": 63}
    assert one_step_less({"steps": 800, "terms": True, "iterations": "2"}) == {
        "steps": 800,
        "terms": True,
        "iterations": "2",
    }


def test_a_fault_alters_what_it_says_and_nothing_else():
    params, inputs = {"steps": 10}, {"x": np.ones(20)}
    assert alter_params(params, fault_named("hop_float16")) is params
    assert alter_inputs(inputs, fault_named("one_step_less")) is inputs
    assert params == {"steps": 10}
