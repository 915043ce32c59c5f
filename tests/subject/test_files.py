import ml_dtypes
import numpy as np
import pytest

from precreg.errors import UserError
from precreg.subject.python import run_files


@pytest.fixture
def recorded(project):
    (project / "outputs").mkdir()
    np.save(project / "outputs" / "y.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.savez(project / "outputs" / "all.npz", loss=np.array(0.5), grad=np.ones(3, np.float16))


@pytest.mark.usefixtures("recorded")
def test_an_output_by_file(call):
    outputs = run_files({"y": "outputs/y.npy"}, call())
    assert outputs.arrays["y"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert outputs.arrays["y"].dtype == np.float32
    assert outputs.duration_s == 0


@pytest.mark.usefixtures("recorded")
def test_every_member_of_an_archive(call):
    outputs = run_files({"*": "outputs/all.npz"}, call())
    assert {name: array.dtype.name for name, array in outputs.arrays.items()} == {"loss": "float64", "grad": "float16"}


@pytest.mark.usefixtures("recorded")
def test_a_dtype_that_numpy_cannot_store_stands_in_the_name(project, call):
    array = np.arange(4).astype(ml_dtypes.bfloat16)
    np.save(project / "outputs" / "y.bfloat16.npy", array)
    outputs = run_files({"y": "outputs/y.bfloat16.npy"}, call())
    assert outputs.arrays["y"].dtype == array.dtype
    assert outputs.arrays["y"].tolist() == [0, 1, 2, 3]


@pytest.mark.usefixtures("recorded")
def test_a_file_that_was_not_recorded_is_an_absent_output(call):
    assert list(run_files({"y": "outputs/y.npy", "z": "outputs/z.npy"}, call()).arrays) == ["y"]
    assert run_files({"*": "outputs/none.npz"}, call()).arrays == {}


@pytest.mark.parametrize(
    ("name", "slug"), [("outputs/torn.npy", "bad-array-file"), ("../elsewhere.npy", "outside-project")]
)
@pytest.mark.usefixtures("recorded")
def test_a_file_that_cannot_be_used(project, call, name, slug):
    (project / "outputs" / "torn.npy").write_bytes((project / "outputs" / "y.npy").read_bytes()[:-1])
    with pytest.raises(UserError, match="expected") as caught:
        run_files({"y": name}, call())
    assert caught.value.slug == slug
