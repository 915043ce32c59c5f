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
from precreg.types.verdict import Reason
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
        floats = any(str(spec["dtype"]).startswith(("float", "bfloat")) for spec in case.inputs.values())
        computes = floats and case.suite != "hops"  # its operands are moved as they are, without a device
        python = case.subject.kind == "python" and computes
        if python and case.device is None and case.tier != "model" and 0 < size <= LONG:
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
    x + 1
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
    (project / "suites/unit/asked.py").write_text(KERNEL_OF_TWO)
    computed = Computation("python", "asked:names_of_types")
    inputs = {
        "x": {"shape": [4], "dtype": "int16", "integers": {"low": 0, "high": 9}},
        "y": {"shape": [4], "dtype": "float32", "uniform": {"low": 0, "high": 9}},
    }
    outcome = run_case(replace(case(inputs=inputs, device="ascend"), subject=computed, oracle=computed), project, CHAIN)
    assert outcome.execution.failure is None, outcome.execution.failure
    assert [comparison.metrics["max_abs_error"] for comparison in outcome.comparisons] == [0, 1]


KERNEL_OF_TWO = """\
import numpy as np


def names_of_types(x, y):
    y + 1
    return tuple(np.array([type(each).__name__ == "SimulatedArray"], np.float64) for each in (x, y))
"""

IDLE = """\
import array
import math

import numpy as np


def by_math(x):
    return np.array([math.sqrt(abs(value)) for value in x.tolist()], np.float32)


def by_bytes(x):
    return np.frombuffer(array.array("f", x.tobytes()), np.float32) * np.float32(3)


def by_plain_numpy(x):
    return np.sqrt(np.abs(np.asarray(x)))


def after_a_comparison(x):
    return by_plain_numpy(x) if np.isfinite(x).all() else None


def moved(x):
    return x[::-1].reshape(-1, 2).T.copy()


def in_place(x):
    np.asarray(x)[:] *= 3
    return x


def partly(x):
    return by_plain_numpy(x + 1)


def relu(x):
    return np.maximum(x, 0)


def converted(x):
    return x.astype(np.float16)


def at_places(x):
    from precreg.arithmetic.devices import cast_through_device

    return cast_through_device(x)["register"]


def by_index(x):
    np.add.at(x, [0, 0, 1], 0.1)
    return x


def product(x):
    return np.dot(x, x)
"""


def on_device(case, project, function, device="mlu370"):
    (project / "suites/unit/idle.py").write_text(IDLE)
    subject, oracle = Computation("python", f"idle:{function}"), Computation("python", "idle:by_plain_numpy")
    return run_case(replace(case(device=device), subject=subject, oracle=oracle), project, CHAIN).execution.failure


@pytest.mark.parametrize("device", ["ascend", "cpu", "gpu-tf32", "mlu370"])
@pytest.mark.parametrize("function", ["by_math", "by_bytes", "by_plain_numpy", "after_a_comparison"])
def test_a_subject_that_leaves_its_device_at_once_is_an_error(case, project, function, device):
    failure = on_device(case, project, function, device)
    assert failure.reason is Reason.SUBJECT_ERROR
    assert f"device={device} computed none of the subject" in failure.message
    assert "error[idle-device]" in failure.detail


@pytest.mark.parametrize("function", ["moved", "in_place"])
def test_a_subject_without_an_operation_on_the_device_is_an_error(case, project, function):
    assert "computed none of the subject" in on_device(case, project, function).message


@pytest.mark.parametrize("function", ["partly", "relu", "converted", "at_places", "by_index", "product"])
def test_one_operation_on_the_device_is_enough(case, project, function):
    assert on_device(case, project, function) is None


def test_without_a_device_any_library_may_compute(case, project):
    assert on_device(case, project, "by_math", None) is None


def test_what_a_device_gives_is_stored_as_a_plain_array(case, project):
    outcome = run_case(case("double", device="mlu370"), project, CHAIN)
    (comparison,) = outcome.comparisons
    assert comparison.dtype == "float32"
    assert 0 < comparison.metrics["max_rel_error"] < 2**-19
