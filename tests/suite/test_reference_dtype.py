"""`reference_dtype:` of a suite: its values, what it requires, and what is refused."""

import pytest

from precreg.errors import UserError
from precreg.suite.expand import definition_digest, load_cases
from precreg.types.case import ReferenceDtype
from tests.suite.conftest import SUITE


@pytest.mark.parametrize(
    ("text", "dtype", "requires"),
    [
        ("", None, ()),
        ("reference_dtype: float64\n", ReferenceDtype("float64"), ()),
        ("reference_dtype: longdouble\n", ReferenceDtype("longdouble"), ()),
        ("reference_dtype: mpmath\n", ReferenceDtype("mpmath", 50), ("mpmath",)),
        ("reference_dtype: {mpmath: 50}\n", ReferenceDtype("mpmath", 50), ("mpmath",)),
        ("reference_dtype: {mpmath: 33}\n", ReferenceDtype("mpmath", 33), ("mpmath",)),
    ],
)
def test_a_suite_chooses_the_dtype_of_its_reference(write, text, dtype, requires):
    (case,) = load_cases(write(softmax=SUITE + text))
    assert (case.reference_dtype, case.requires) == (dtype, requires)
    computed = case.subject, case.oracle, case.role, case.inputs, case.params
    assert case.definition == definition_digest(*computed, reference_dtype=dtype)
    assert (case.definition == definition_digest(*computed)) == (dtype is None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("reference_dtype: flaot64\n", 'reference_dtype=flaot64; did you mean "float64"?'),
        ("reference_dtype: 64\n", "expected one of float64, longdouble, mpmath, or {mpmath: 50} but got"),
        ("reference_dtype: {mpmath: 5}\n", "expected 20 to 10000 decimal digits but got mpmath=5"),
        ("reference_dtype: {mpmath: true}\n", "expected 20 to 10000 decimal digits but got mpmath=true"),
        ("reference_dtype: {longdouble: 3}\n", "expected one of float64"),
        ("reference_dtype: [mpmath]\n", "expected one of float64"),
    ],
)
def test_another_dtype_is_refused_with_its_line(write, text, said):
    with pytest.raises(UserError) as caught:
        load_cases(write(softmax=SUITE + text))
    assert (caught.value.slug, caught.value.line) == ("bad-value", 4)
    assert said in caught.value.message


def test_a_golden_and_recorded_files_take_none(write):
    golden = SUITE.replace("reference:", "golden:") + "reference_dtype: float64\n"
    with pytest.raises(UserError, match="a golden gets the inputs as they are"):
        load_cases(write(softmax=golden))
    files = "suite: s\nfiles: {actual: a.npy, reference: b.npy}\nreference_dtype: float64\n"
    with pytest.raises(UserError, match="expected reference_dtype or files but got both"):
        load_cases(write(softmax=files))
