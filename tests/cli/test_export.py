"""What `precreg export` understands, and what it refuses, in this process."""

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from precreg.cli.export import export_command
from precreg.errors import UserError
from precreg.storage.npy import read_npy, read_npz

MODEL = """\
import ml_dtypes
import numpy as np


def pair(x, y=None):
    return {"sum": x if y is None else x + y, "x": x}


def two(x):
    return x, x * 2


def short(x):
    return x.astype(ml_dtypes.bfloat16)


def nothing(x):
    return {}


def leaves(x):
    raise SystemExit(3)


def overwrites(x):
    x[:] = 7
    return x
"""


@pytest.fixture
def export(tmp_path, monkeypatch):
    """Return a function that runs the command in a folder with a model and its inputs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets.py").write_text(MODEL)
    np.save("x.npy", np.arange(4, dtype=">f4"))
    np.savez("both.npz", x=np.arange(3.0), y=np.ones(3))
    np.arange(6, dtype=np.float16).tofile("x.bin")

    def export(function, *arguments):
        result = CliRunner().invoke(export_command, [f"nets:{function}", *arguments], catch_exceptions=True)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    return export


def refused(export, slug, *arguments):
    with pytest.raises(UserError) as caught:
        export(*arguments)
    assert caught.value.slug == slug
    return caught.value.message


def test_one_node_is_an_array(export, tmp_path):
    assert export("pair", "--node", "sum", "--input", "x.npy", "-o", "s.npy") == "s.npy  sum: float32, shape 4\n"
    assert read_npy(tmp_path / "s.npy", "").tolist() == [0, 1, 2, 3]


def test_an_archive_gives_each_of_its_arrays(export, tmp_path):
    export("pair", "--input", "both.npz", "-o", "all.npz")
    assert {name: array.tolist() for name, array in read_npz(tmp_path / "all.npz", "").items()} == {
        "sum": [1, 2, 3],
        "x": [0, 1, 2],
    }


def test_nodes_are_written_in_the_order_they_were_named_in(export, tmp_path):
    export("two", "--node", "1", "--node", "0", "--input", "x=both.npz:y", "-o", "t.npz")
    assert list(read_npz(tmp_path / "t.npz", "")) == ["1", "0"]


def test_raw_inputs(export, tmp_path):
    said = ("--dtype", "float16", "--shape", "2x3")
    assert export("pair", "--node", "x", "--input", "x.bin", *said, "-o", "r.npy").endswith("float16, shape 2×3\n")
    assert read_npy(tmp_path / "r.npy", "").tolist() == [[0, 1, 2], [3, 4, 5]]


def test_bfloat16_survives(export, tmp_path):
    export("short", "--input", "x.npy", "-o", "y.bfloat16.npy")
    export("short", "--input", "x.npy", "-o", "y.npz")
    expected = np.arange(4).astype(ml_dtypes.bfloat16)
    for read in (read_npy(tmp_path / "y.bfloat16.npy", "y.bfloat16.npy"), read_npz(tmp_path / "y.npz", "")["out"]):
        assert (read.dtype, read.tobytes()) == (expected.dtype, expected.tobytes())
    assert "y.bfloat16.npy" in refused(export, "bad-value", "short", "--input", "x.npy", "-o", "y.npy")
    assert not (tmp_path / "y.npy").exists()
    assert export("pair", "--node", "x", "--input", "x=y.bfloat16.npy", "-o", "z.npz").endswith("bfloat16, shape 4\n")


def test_a_model_may_write_into_its_inputs(export, tmp_path):
    before = (tmp_path / "x.npy").read_bytes()
    export("overwrites", "--input", "x.npy", "-o", "y.npy")
    assert read_npy(tmp_path / "y.npy", "").tolist() == [7, 7, 7, 7]
    assert (tmp_path / "x.npy").read_bytes() == before


@pytest.mark.parametrize(
    ("slug", "arguments", "says"),
    [
        ("bad-value", ("pair", "--input", "x.npy", "-o", "y.txt"), "NAME.npy or NAME.npz"),
        ("bad-value", ("pair", "--input", "x.npy", "-o", "y.npy"), "one --node of sum, x"),
        ("bad-value", ("pair", "--node", "x", "--node", "sum", "--input", "x.npy", "-o", "y.npy"), "for 2 nodes"),
        ("bad-value", ("pair", "--input", "x.npy", "--input", "x=x.npy", "-o", "y.npz"), "got x twice"),
        ("bad-value", ("pair", "--input", "x=both.npz", "-o", "y.npz"), "both.npz has x, y"),
        ("bad-value", ("pair", "--input", ".", "-o", "y.npz"), "the folder"),
        ("unknown-array", ("pair", "--input", "x=both.npz:z", "-o", "y.npz"), "but got z"),
        ("missing-file", ("pair", "--input", "z.npy", "-o", "y.npz"), "there is none"),
        ("bad-raw-file", ("pair", "--input", "x.bin", "-o", "y.npz"), "--dtype"),
        ("unknown-file-format", ("pair", "--input", "nets.py", "-o", "y.npz"), "nets.py"),
        (
            "unknown-node",
            ("pair", "--input", "x.npy", "--node", "smu", "-o", "y.npz"),
            "(sum, x) but got node=smu; did",
        ),
        ("missing-function", ("pairs", "--input", "x.npy", "-o", "y.npz"), 'did you mean "pair"?'),
        ("bad-outputs", ("nothing", "--input", "x.npy", "-o", "y.npz"), "nets:nothing"),
        ("model-failed", ("two", "--input", "y=x.npy", "-o", "y.npz"), "unexpected keyword argument 'y'"),
        ("model-failed", ("leaves", "--input", "x.npy", "-o", "y.npz"), "exited with 3"),
        ("unknown-device", ("pair", "--input", "x.npy", "--device", "asend", "-o", "y.npz"), 'did you mean "ascend"?'),
        ("not-writable", ("two", "--input", "x.npy", "-o", "nets.py/y.npz"), "write"),
    ],
)
def test_what_is_refused_writes_nothing(export, tmp_path, slug, arguments, says):
    before = sorted(tmp_path.iterdir())
    assert says in refused(export, slug, *arguments)
    assert [path for path in sorted(tmp_path.iterdir()) if path.name != "__pycache__"] == before
