"""Cases of ONNX models: inputs and outputs of every dtype, inner nodes, options, and what goes wrong."""

import shutil
import threading

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto

from precreg.errors import UserError
from precreg.subject import Call, CaseFailed
from precreg.subject.onnx.model import run_model
from tests.extras.onnx_models import FLOAT, constant, gelu_net, model, node, save, value


@pytest.fixture
def run(tmp_path):
    """Return a function that saves a model and runs it."""

    def run(made, inputs, params=None, **options):
        if made is not None:
            save(tmp_path / "net.onnx", made)
        return run_model({"model": "net.onnx", **options}, Call(inputs, params or {}, tmp_path, tmp_path))

    return run


def mistake(call, *arguments, **options):
    with pytest.raises(UserError) as caught:
        call(*arguments, **options)
    return caught.value.slug, caught.value.message


def cast_model(before, after):
    nodes = [node("Cast", ["x"], ["y"], to=after)]
    return model(nodes, [value("x", before, ["n"])], [value("y", after, ["n"])], opset=21)


FORMATS = {
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "float8_e4m3fn": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "float8_e5m2": (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
    "float8_e4m3fnuz": (TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz),
    "float8_e5m2fnuz": (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
    "float64": (TensorProto.DOUBLE, np.float64),
    "int8": (TensorProto.INT8, np.int8),
    "uint16": (TensorProto.UINT16, np.uint16),
    "int64": (TensorProto.INT64, np.int64),
    "bool": (TensorProto.BOOL, np.bool_),
}


@pytest.mark.parametrize("name", FORMATS)
def test_outputs_have_the_dtype_of_the_model_and_inputs_return_from_it(run, name):
    kind, dtype = FORMATS[name]
    # 1, 2 and 5 are numbers of every format here.
    x = np.array([0, 1, 2, 5, 1], np.float32)
    y = run(cast_model(FLOAT, kind), {"x": x}).arrays["y"]
    assert y.dtype == dtype
    assert (y == x.astype(dtype)).all()
    back = run(cast_model(kind, FLOAT), {"x": x.astype(dtype)}).arrays["y"]
    assert back.dtype == np.float32
    assert (back == x.astype(dtype).astype(np.float32)).all()


@pytest.mark.parametrize(("kind", "wider", "least"), [(TensorProto.INT4, "int8", -8), (TensorProto.UINT4, "uint8", 0)])
@pytest.mark.parametrize("size", [0, 1, 5, 6])
def test_four_bits_return_in_eight(run, kind, wider, least, size):
    x = (np.arange(size) * 3 % 8 + least).astype(np.float32)
    y = run(cast_model(FLOAT, kind), {"x": x}).arrays["y"]
    assert y.dtype == wider
    assert (y == x).all()
    dtype = ml_dtypes.int4 if kind == TensorProto.INT4 else ml_dtypes.uint4
    assert (run(cast_model(kind, FLOAT), {"x": x.astype(dtype)}).arrays["y"] == x).all()


def test_inner_tensors_come_in_the_order_of_execution(run):
    x = np.ones((3, 64), np.float32)
    found = run(gelu_net(), {"x": x}, nodes=["gelu", "linear", "erf"])
    assert list(found.arrays) == ["h", "erf", "gelu", "y"]
    assert list(run(None, {"x": x}, nodes=["e*"], outputs=["y"]).arrays) == ["erf", "y"]
    assert np.allclose(found.arrays["y"].sum(1), 1)


def test_facts_name_what_computed(run):
    facts = run(gelu_net(), {"x": np.ones((3, 64), np.float32)}, optimization="basic", deterministic=True).facts
    import onnxruntime

    assert facts == {
        "onnxruntime": onnxruntime.__version__,
        "onnxruntime providers": "CPUExecutionProvider",
        "onnxruntime optimization": "basic",
        "onnxruntime deterministic": "true",
    }


def test_params_are_inputs_too_and_sequences_are_dotted(run):
    nodes = [node("Mul", ["x", "a"], ["m"]), node("SequenceConstruct", ["x", "m"], ["s"])]
    kind = onnx.helper.make_tensor_sequence_value_info("s", FLOAT, None)
    made = model(nodes, [value("x", shape=["n"]), value("a", shape=[])], [kind])
    found = run(made, {"x": np.array([1, 2], np.float32)}, {"a": 0.5})
    assert {name: array.tolist() for name, array in found.arrays.items()} == {"s.0": [1, 2], "s.1": [0.5, 1]}


def test_a_changed_model_is_read_again(run):
    def times(factor):
        return model([node("Mul", ["x", "f"], ["y"])], [value("x")], [value("y")], [constant("f", np.float32(factor))])

    x = {"x": np.ones((1, 4), np.float32)}
    assert run(times(2), x).arrays["y"][0, 0] == 2
    assert run(None, x).arrays["y"][0, 0] == 2
    assert run(times(3), x).arrays["y"][0, 0] == 3


def test_a_run_starts_no_thread(run):
    before = threading.active_count()
    run(gelu_net(), {"x": np.ones((3, 64), np.float32)})
    assert threading.active_count() == before


def matmul():
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["y"])]
    inputs = [value("x", shape=["n", 4]), value("b", shape=["n", 3])]
    return model(nodes, inputs, [value("y", shape=["n", 3])], [constant("w", np.ones((4, 3), np.float32))])


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"x": zeros(2, 4)}, "x: tensor(float), b: tensor(float)) but the case lacks b"),
        ({"x": zeros(2, 4), "c": zeros(2, 3)}, "but the case lacks b and has also c"),
        (
            {"x": zeros(2, 5), "b": zeros(2, 3)},
            "expected x of shape n×4 but got 2×5: axis 1 of x is 5, and the model has 4",
        ),
        ({"x": zeros(2, 4), "b": zeros(1, 3)}, "axis 0 of b is 1, and the model has n=2 in x"),
        ({"x": zeros(2, 4, 1), "b": zeros(2, 3)}, "expected x of shape n×4, as in the model, but got 2×4×1"),
        ({"x": zeros(2, 4) + 0.1, "b": zeros(2, 3)}, None),
        (
            {"x": zeros(2, 4, dtype=np.float64) + 0.1, "b": zeros(2, 3)},
            "expected x of dtype=float32, as in the model, but got dtype=float64",
        ),
        ({"x": zeros(2, 4, dtype=np.float64) + 0.5, "b": zeros(2, 3)}, None),
    ],
)
def test_inputs_that_do_not_fit_are_named(run, inputs, words):
    if words is None:
        assert run(matmul(), inputs).arrays["y"].shape == (2, 3)
    else:
        slug, message = mistake(run, matmul(), inputs)
        assert slug == "bad-model-inputs"
        assert words in message


def test_a_wrong_name_of_a_node_or_an_output_has_the_nearest(run):
    x = {"x": np.ones((3, 64), np.float32)}
    assert mistake(run, gelu_net(), x, nodes=["gleu"])[0] == "unknown-node"
    assert 'did you mean "gelu"?' in mistake(run, gelu_net(), x, nodes=["gleu"])[1]
    assert mistake(run, gelu_net(), x, outputs=["z"])[1] == "expected outputs of the model (y) but got outputs=z"


def test_a_free_dimension_that_the_model_lacks_is_refused(run):
    x = {"x": np.ones((3, 64), np.float32)}
    assert run(gelu_net(), x, free_dimensions={"n": 3}).arrays["y"].shape == (3, 32)
    slug, message = mistake(run, gelu_net(), x, free_dimensions={"m": 3})
    assert slug == "bad-value"
    assert message.startswith("expected a named dimension of the model's inputs (n) but got free_dimensions=m")


def broken(tmp_path, content):
    (tmp_path / "net.onnx").write_bytes(content)


@pytest.mark.parametrize("kind", ["text", "truncated", "empty", "without input", "new opset"])
def test_a_broken_model_is_one_error(run, tmp_path, kind):
    whole = gelu_net()
    if kind == "without input":
        del whole.graph.input[:]
    if kind == "new opset":
        whole.opset_import[0].version = 99
    content = {"text": b"suite: net\n" * 9, "truncated": whole.SerializeToString()[:-900], "empty": b""}
    (tmp_path / "net.onnx").write_bytes(content.get(kind, whole.SerializeToString()))
    slug, message = mistake(run, None, {"x": np.ones((3, 64), np.float32)})
    assert slug == "bad-model"
    assert message.startswith("expected a model that onnxruntime")
    assert "x" in message if kind == "without input" else True


def test_an_operator_that_nobody_implements_is_an_error(run):
    made = model([node("Frobnicate", ["x"], ["y"], domain="our")], [value("x")], [value("y")], domains=["our"])
    assert mistake(run, made, {"x": zeros(1, 4)})[0] in ("unsupported-model", "bad-model")


def test_a_string_is_no_output_of_a_measurement(run):
    made = model([node("Cast", ["x"], ["y"], to=TensorProto.STRING)], [value("x")], [value("y", TensorProto.STRING)])
    slug, message = mistake(run, made, {"x": zeros(1, 4)})
    assert (slug, message.partition(";")[0]) == ("bad-outputs", "expected an output of numbers but y has strings")


def test_external_data_is_read_beside_the_model_and_never_outside_the_project(run, tmp_path):
    x = {"x": np.ones((3, 64), np.float32)}
    expected = run(gelu_net(), x).arrays["y"]
    save(tmp_path / "net.onnx", gelu_net(), external="net.bin")
    assert (run(None, x).arrays["y"] == expected).all()
    moved = tmp_path / "project"
    moved.mkdir()
    shutil.move(tmp_path / "net.onnx", moved / "net.onnx")
    (moved / "net.bin").symlink_to(tmp_path / "net.bin")
    call = Call(x, {}, moved, moved)
    assert mistake(run_model, {"model": "net.onnx"}, call)[0] == "outside-project"
    (moved / "net.bin").unlink()
    slug, message = mistake(run_model, {"model": "net.onnx"}, call)
    assert (slug, message) == ("missing-file", "expected the weights of the model in net.bin but the file is not there")


def test_an_absent_provider_is_unavailable(run):
    with pytest.raises(CaseFailed, match=r"needs ROCMExecutionProvider, but onnxruntime .* has .*CPUExecutionProvider"):
        run(gelu_net(), {"x": np.ones((3, 64), np.float32)}, providers=["ROCMExecutionProvider"])
