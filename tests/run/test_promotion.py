"""The dtype in which a reference gets its inputs, and the failure of one that refuses it."""

import ml_dtypes
import numpy as np
import pytest
from msgspec.structs import replace

from precreg.report.sections import describe_warning
from precreg.run.pipeline import narrow_references
from precreg.run.promotion import promote_inputs
from precreg.run.workers.worker import CaseTask, run_in_process
from precreg.types.case import Computation, ReferenceDtype
from precreg.types.record import NARROW_FACT
from precreg.types.verdict import Reason
from precreg.types.warning import NarrowPart, NarrowReference

CHAIN = ("cpu-x86_64", "cpu", "generic")
LONG = np.dtype(np.longdouble)
DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128, np.int32]


@pytest.mark.parametrize(
    ("asked", "narrow_too", "wanted"),
    [
        ("longdouble", False, "float64 float64 float64 g g complex128 G int32"),
        ("longdouble", True, "g g g g g G G int32"),
        ("float64", True, "float64 float64 float64 float64 g complex128 complex128 int32"),
    ],
)
def test_floats_become_wider_and_never_narrower(asked, narrow_too, wanted):
    inputs = {str(place): np.array([1.5]).astype(dtype) for place, dtype in enumerate(DTYPES)}
    promoted = promote_inputs(inputs, ReferenceDtype(asked), narrow_too=narrow_too)
    assert [array.dtype for array in promoted.values()] == [np.dtype(name) for name in wanted.split()]
    assert all(np.array_equal(promoted[name].astype(array.dtype), array) for name, array in inputs.items())


@pytest.fixture
def run(project):
    def run(case, code):
        (project / "suites/unit/kernels.py").write_text(code)
        (outcome,) = run_in_process([case], CaseTask(project, CHAIN))
        return outcome

    return run


LINALG = "import numpy as np\ndef double(x):\n    return x * 2\ndef double_exactly(x):\n"
INVERTS = f"{LINALG}    np.linalg.inv(x.reshape(4, 4))\n    return x * 2\n"


def test_a_library_without_longdouble_fails_with_the_reason_and_the_remedy(run, case):
    failure = run(case(dtype="float64"), INVERTS).execution.failure
    assert failure.reason is Reason.REFERENCE_ERROR
    assert failure.message.startswith("TypeError: array type float")
    assert "; precreg widened x from float64 to longdouble for the reference" in failure.message
    assert failure.message.endswith("write reference_dtype: float64 in the suite to keep float64")
    assert 'File "' in failure.detail, "the traceback stays"


def test_the_remedy_helps(run, case):
    outcome = run(case(dtype="float64", reference_dtype=ReferenceDtype("float64")), INVERTS)
    assert outcome.execution.failure is None
    assert [each.reference_dtype for each in outcome.comparisons] == ["float64"]


def test_an_error_without_widened_inputs_keeps_its_message(run, case):
    failure = run(case(dtype="float32"), f"{LINALG}    return x + 'text'\n").execution.failure
    assert "precreg widened" not in failure.message


def test_a_reference_computes_with_mpmath_at_the_digits_asked_for(run, case):
    code = f"{LINALG}    import mpmath\n    assert isinstance(x[0], mpmath.mpf)\n"
    code += "    return [mpmath.mp.dps * (v - v + 1) for v in x][0] + x * 0\n"
    outcome = run(case(dtype="float64", reference_dtype=ReferenceDtype("mpmath", 33)), code)
    assert outcome.execution.failure is None, outcome.execution.failure
    (comparison,) = outcome.comparisons
    assert (comparison.reference_dtype, comparison.worst.reference[0]) == ("longdouble", "33.0")


def test_a_matrix_of_mpmath_is_an_output(run, case):
    code = f"{LINALG}    import mpmath\n    return (mpmath.matrix([list(x)]) * 2)\n"
    inputs = {"x": {"shape": [1, 5], "dtype": "float64", "normal": {}}}
    code = code.replace("[list(x)]", "x.tolist()")
    outcome = run(case(inputs=inputs, reference_dtype=ReferenceDtype("mpmath", 30)), code)
    assert outcome.execution.failure is None, outcome.execution.failure
    (comparison,) = outcome.comparisons
    assert comparison.reference_shape == (1, 5)
    assert comparison.metrics["max_abs_error"] == 0


def test_mpmath_explains_what_numpy_cannot_do_with_its_numbers(run, case):
    failure = run(
        case(dtype="float32", reference_dtype=ReferenceDtype("mpmath", 50)), f"{LINALG}    return np.exp(x)\n"
    ).execution.failure
    assert "no callable exp method; precreg widened x from float32 to mpmath" in failure.message


class Ran:
    """Stands for the result of a case, of which the warning reads the role and the dtypes."""

    def __init__(self, outcome):
        self.id, self.role, self.outcome = outcome.case, "reference", outcome


def test_a_reference_no_wider_than_float64_outputs_is_reported(run, case):
    asked = case(dtype="float64", reference_dtype=ReferenceDtype("float64"))
    ran = Ran(run(asked, f"{LINALG}    return x * 2\n"))
    assert [*narrow_references([asked], [ran], 16)] == [NarrowReference(asked.id, 1, "asked")]
    plain = case(dtype="float64")
    assert [*narrow_references([plain], [ran], 16)] == []
    (fact,) = narrow_references([plain], [ran, ran], 8)
    assert fact == NarrowReference(plain.id, 2, "platform")
    assert describe_warning(fact).startswith(f"{plain.id} and 1 more: the reference is not wider than the float64")
    wide = Ran(run(plain, f"{LINALG}    return x * 2\n"))
    if LONG.itemsize > 8:
        assert [*narrow_references([plain], [wide], 8)] == []


def test_a_reference_of_a_kind_without_longdouble_is_reported(run, case):
    asked = case(dtype="float64", reference_dtype=ReferenceDtype("float64"))
    ran = Ran(run(asked, f"{LINALG}    return x * 2\n"))
    program = replace(asked, reference_dtype=None, oracle=Computation("command", {}))
    assert [*narrow_references([program], [ran], 16)] == [NarrowReference(asked.id, 1, "kind")]


def test_a_reference_that_is_narrow_in_part_is_reported(run, case):
    plain = case(dtype="float32")
    outcome = run(plain, f"{LINALG}    return x * 2\n")
    execution = replace(outcome.execution, oracle_facts={NARROW_FACT: "float32, nodes of Erf"})
    (fact,) = narrow_references([plain], [Ran(replace(outcome, execution=execution))] * 2, 16)
    assert fact == NarrowPart(plain.id, "float32, nodes of Erf", 2)
    expected = "and 1 more: a part of the reference is in lower precision (float32, nodes of Erf)"
    assert describe_warning(fact) == f"{plain.id} {expected}"
