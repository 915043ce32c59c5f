"""Arrays reach another process with all their bits, and in the layout that numpy's sums depend on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from precreg.diagnose.bisection.process import _with_flags, _write_arrays, read_arrays
from precreg.types import Computation

KINDS = st.sampled_from(["float16", "float32", "float64", "complex64", "int8", "uint64", "bool"])


@given(st.data())
def test_arrays_keep_bits_and_layout(tmp_path_factory, data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, max_side=4))
    array = data.draw(hnp.arrays(data.draw(KINDS), shape))
    axes = data.draw(st.permutations(range(array.ndim)))
    moved = array.transpose(axes)
    file = tmp_path_factory.mktemp("arrays") / "file"
    _write_arrays(file, [{"x": moved}, {}])
    first, second = read_arrays(file)
    assert second == {}
    found = first["x"]
    assert (found.dtype, found.shape, found.tobytes()) == (moved.dtype, moved.shape, moved.tobytes())
    # An axis of one element has no place in memory.
    assert [found.strides[axis] for axis in range(found.ndim) if found.shape[axis] > 1] == [
        moved.strides[axis] for axis in range(moved.ndim) if moved.shape[axis] > 1
    ]


def test_a_dtype_of_another_library_keeps_its_bits(tmp_path):
    import ml_dtypes

    array = np.arange(-8, 8).astype(ml_dtypes.bfloat16).reshape(4, 4).T
    _write_arrays(tmp_path / "file", [{"x": array}])
    ((found,),) = (each.values() for each in read_arrays(tmp_path / "file"))
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("program", "is_compiler"),
    [
        *[(name, True) for name in ("cc", "gcc-13", "/usr/bin/g++", "clang++-17", "nvcc", "aarch64-linux-gnu-gcc")],
        *[(name, False) for name in ("make", "cmake", "ld", "python", "occ")],
    ],
)
def test_flags_reach_compilers_alone(program, is_compiler):
    build = {"steps": [[program, "-O1", "k.c"]], "sources": ["k.c"], "produces": ["k"]}
    (step,) = _with_flags(Computation("command", {"build": build}), ("-O3", "-g")).spec["build"]["steps"]
    assert step == [program, "-O1", "k.c", *(("-O3", "-g") if is_compiler else ())]
    assert build["steps"] == [[program, "-O1", "k.c"]]
