"""Cases on devices: on `cpu` they have the bits that they have without one, and the oracle is on none."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from precreg.arithmetic.devices.computation import DeviceArithmetic
from precreg.run.case_run import run_case
from precreg.run.computation import arithmetic_of
from precreg.suite.expand import load_cases
from precreg.types.case import Computation
from tests.shipped import project_of_suites

ROOT = Path(__file__).parents[2]
CHAIN = ("cpu-x86_64", "cpu", "generic")
LONG = 2**15
"""Inputs of more elements than this are left out: one case of each suite is enough, and a quick one."""


def one_of_each_suite():
    """Return the case with the fewest elements of every shipped suite of Python functions that names no device."""
    chosen = {}
    for case in load_cases(ROOT):
        size = sum(int(np.prod(spec["shape"])) for spec in case.inputs.values())
        if case.subject.kind == "python" and case.device is None and case.tier != "model" and 0 < size <= LONG:
            key = (case.tier, case.suite, case.parameters.get("dtype"))
            if key not in chosen or size < chosen[key][0]:
                chosen[key] = (size, case)
    return [replace(case, seeds=1, repeats=1) for _, case in chosen.values()]


@pytest.mark.parametrize("case", one_of_each_suite(), ids=lambda case: case.id)
def test_on_cpu_a_shipped_case_has_the_bits_it_has_without_a_device(case):
    plain = run_case(case, project_of_suites(), CHAIN)
    on_cpu = run_case(replace(case, device="cpu"), project_of_suites(), CHAIN)
    assert plain.execution.outputs
    assert on_cpu.execution.outputs == plain.execution.outputs
    assert on_cpu.comparisons == plain.comparisons


def test_without_a_device_there_is_no_arithmetic(case, project):
    assert arithmetic_of(case(), project) is None


def test_a_device_is_read_once(case, project):
    first = arithmetic_of(case(device="mlu370"), project)
    assert isinstance(first, DeviceArithmetic)
    assert first.device.name == "mlu370"
    assert arithmetic_of(case("other", device="mlu370"), project) is first


KERNEL = """\
import numpy as np


def is_simulated(x):
    return np.array([type(x).__name__ == "SimulatedArray"], np.float64)
"""


def test_only_the_subject_is_given_the_device(case, project):
    (project / "suites/unit/asked.py").write_text(KERNEL)
    computed = Computation("python", "asked:is_simulated")
    on_ascend = replace(case(device="ascend"), subject=computed, oracle=computed)
    outcome = run_case(on_ascend, project, CHAIN)
    assert outcome.execution.failure is None, outcome.execution.failure
    (comparison,) = outcome.comparisons
    assert comparison.metrics["max_abs_error"] == 1


def test_integers_and_recorded_arrays_stay_plain(case, project):
    inputs = {"x": {"shape": [4], "dtype": "int16", "integers": {"low": 0, "high": 9}}}
    outcome = run_case(case("dtype_given", "dtype_given", inputs=inputs, device="ascend"), project, CHAIN)
    assert [comparison.metrics["max_abs_error"] for comparison in outcome.comparisons] == [0, 0]


def test_what_a_device_gives_is_stored_as_a_plain_array(case, project):
    outcome = run_case(case("double", device="mlu370"), project, CHAIN)
    (comparison,) = outcome.comparisons
    assert comparison.dtype == "float32"
    assert 0 < comparison.metrics["max_rel_error"] < 2**-19
