"""All node tests of onnx 1.17.0 by the real command: each failure is a known disagreement, and no other is reported."""

import json
import shutil

import numpy as np
import pytest
import yaml
from onnx import OptionalProto, SequenceProto, TensorProto, helper, numpy_helper

from tests.e2e.command import precreg, repository, started
from tests.extras.node_data import NODE_TESTS, node_tests
from tests.extras.onnx_models import FLOAT, model, node, save, value

# By pattern, with the reason: the failures of ONNX Runtime 1.32, as docs/onnx.md lists them.
KNOWN = {
    "test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True": "onnx corrected the outputs later",
    "test_cast_FLOAT*_to_*INT4": "ONNX Runtime wraps around; the stored outputs are saturated",
    "test_cast*FLOAT_to_BFLOAT16*": "the stored outputs are truncated; ONNX Runtime rounds to nearest",
    "test_cast*FLOAT_to_STRING*": "ONNX Runtime writes more digits than the shortest text",
    "test_dft*": "the float32 errors of elements near zero are above the tolerance",
    "test_maxunpool_export_with_output_shape": "ONNX Runtime takes the indices in the given output shape",
    "test_qlinearmatmul_*_int8_*": "the stored outputs wrap around; ONNX Runtime saturates",
    "test_resize_downsample_scales_*_align_corners": "ONNX Runtime aligns the corners of the rounded size",
    "test_stft*": "the float32 errors of elements near zero are above the tolerance",
    "test_training_dropout": "the random numbers are those of another generator",
    "test_training_dropout_default*": "the random numbers are those of another generator",
    "test_training_dropout_mask": "the random numbers are those of another generator",
}
KNOWN_FAILURES = 30
# Operators that ONNX Runtime 1.32 does not implement on its CPU provider.
UNIMPLEMENTED = [
    "test_adagrad",
    "test_adam",
    "test_bernoulli",
    "test_gru_batchwise",
    "test_image_decoder",
    "test_lstm_batchwise",
    "test_max_int16",
    "test_max_uint16",
    "test_min_int16",
    "test_min_uint16",
    "test_momentum",
    "test_nesterov",
    "test_pow_types_float32_uint",
    "test_roialign",
    "test_simple_rnn_batchwise",
]
# They need the locale en_US.UTF-8, which some systems lack.
BY_LOCALE = "test_strnormalizer_export_monday"


def results(project):
    return json.loads((project / "reports/record.json").read_text())["results"]


@pytest.fixture
def project(tmp_path):
    """A project whose suite is the folder suites/unit/node."""
    (tmp_path / "suites/unit/node").mkdir(parents=True)
    (tmp_path / "suites/unit/node.yaml").write_text("suite: node\nonnx_tests: node\n")
    return tmp_path


def test_every_node_test_is_a_case_and_every_failure_is_known(project):
    shutil.rmtree(project / "suites/unit/node")
    shutil.copytree(node_tests(), project / "suites/unit/node")
    cases = [{"match": name, "expect": "fail", "reason": reason} for name, reason in KNOWN.items()]
    (project / "suites/unit/node.yaml").write_text(
        yaml.safe_dump({"suite": "node", "onnx_tests": "node", "cases": cases}, sort_keys=False)
    )
    repository(project)
    done = started(project, "run", "--jobs", "2")
    found = results(project)
    assert len(found) == NODE_TESTS, done.stdout + done.stderr
    by_reason = {}
    for result in found:
        by_reason.setdefault(result["verdict"]["reason"], []).append(result["name"])
    assert set(by_reason) == {"new", "expected_failure", "unavailable"}
    assert len(by_reason["expected_failure"]) == KNOWN_FAILURES
    skipped = [name for name in by_reason["unavailable"] if not name.startswith(BY_LOCALE)]
    assert [name for name in skipped if not name.startswith(tuple(UNIMPLEMENTED))] == []
    assert len(skipped) == 34
    assert [result["name"] for result in found if result["outcome"]["execution"]["left"]] == []


def write_test(project, made, inputs, outputs, name="test_one", number=0):
    """Write a test of a model, with values that are protobufs of their own, or arrays."""
    folder = project / "suites/unit/node" / name
    save(folder / "model.onnx", made)
    data = folder / f"test_data_set_{number}"
    data.mkdir(exist_ok=True)
    for role, values in (("input", inputs), ("output", outputs)):
        for place, each in enumerate(values):
            proto = numpy_helper.from_array(each) if isinstance(each, np.ndarray) else each
            (data / f"{role}_{place}.pb").write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())


def verdict(project):
    precreg(project, "run")
    (result,) = results(project)
    return result["verdict"]["reason"], result["verdict"]["message"]


def unary(op, kind=FLOAT, given=FLOAT, shape=(None,), **attributes):
    return model([node(op, ["x"], ["y"], **attributes)], [value("x", given, shape)], [value("y", kind, shape)])


def numbers(*items, dtype=np.float32):
    return np.array(items, dtype)


TEXT = np.array(["a", "", "größer"], object)
UPPER = {"case_change_action": "UPPER"}
IDENTITY = {"op": "Identity", "kind": TensorProto.STRING, "given": TensorProto.STRING}


@pytest.mark.parametrize(
    ("made", "given", "wanted", "reason"),
    [
        ({"op": "Neg"}, numbers(1, 2), numbers(-1, -2), "new"),
        ({"op": "Neg"}, numbers(1, 2), numbers(-1, -2.01), "out_of_tolerance"),
        ({"op": "Neg"}, numbers(1, 2), numbers(-1, -2, dtype=np.float64), "dtype_mismatch"),
        ({"op": "Neg"}, numbers(1, 2), numbers(-1, -2, -3), "shape_mismatch"),
        ({"op": "Neg"}, numbers(), numbers(), "new"),
        ({"op": "Neg"}, numbers(), numbers(1), "shape_mismatch"),
        ({"op": "Neg"}, numbers(1), numbers(), "shape_mismatch"),
        ({"op": "Log"}, numbers(0, 0), numbers(-np.inf, -np.inf), "new"),
        ({"op": "Log"}, numbers(0, 0), numbers(-np.inf, np.inf), "non_finite_mismatch"),
        ({"op": "Sqrt"}, numbers(-1, -2), numbers(np.nan, np.nan), "new"),
        ({"op": "Abs", "kind": 7, "given": 7}, numbers(-5000, dtype=np.int64), numbers(5000, dtype=np.int64), "new"),
        (
            {"op": "Abs", "kind": 7, "given": 7},
            numbers(-5000, dtype=np.int64),
            numbers(5001, dtype=np.int64),
            "out_of_tolerance",
        ),
        ({"op": "Not", "kind": 9, "given": 9}, numbers(True, dtype=bool), numbers(False, dtype=bool), "new"),
        (
            {"op": "Not", "kind": 9, "given": 9},
            numbers(True, dtype=bool),
            numbers(True, dtype=bool),
            "out_of_tolerance",
        ),
        (IDENTITY, TEXT, TEXT, "new"),
        (IDENTITY, TEXT, np.array(["a", "", "größes"], object), "out_of_tolerance"),
        (IDENTITY, TEXT, np.array(["a", "", "länger noch"], object), "shape_mismatch"),
    ],
)
def test_outputs_are_compared_by_their_kind(project, made, given, wanted, reason):
    write_test(project, unary(**made), [given], [wanted])
    assert verdict(project)[0] == reason


def test_a_run_counts_the_tests_that_want_no_finite_element(project):
    write_test(project, unary("Neg"), [numbers()], [numbers()])
    done = precreg(project, "run")
    assert "the golden has outputs without a finite element" in done.stdout, done.stdout + done.stderr


def sequence(*arrays):
    return SequenceProto(
        elem_type=SequenceProto.TENSOR, tensor_values=[numpy_helper.from_array(each) for each in arrays]
    )


def sequence_model(op, **attributes):
    kind = helper.make_tensor_sequence_value_info("y", FLOAT, None)
    return model(
        [node(op, ["x"] if op == "SequenceConstruct" else [], ["y"], **attributes)],
        [value("x")] if op == "SequenceConstruct" else [],
        [kind],
    )


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (sequence(np.ones((1, 4), np.float32)), "new"),
        (sequence(np.zeros((1, 4), np.float32)), "out_of_tolerance"),
        (sequence(np.ones((1, 4), np.float32), np.ones((1, 4), np.float32)), "missing_output"),
        (sequence(), "reference_error"),
    ],
)
def test_sequences_are_compared_element_by_element(project, wanted, reason):
    write_test(project, sequence_model("SequenceConstruct"), [np.ones((1, 4), np.float32)], [wanted])
    assert verdict(project)[0] == reason


def test_an_empty_sequence_may_be_wanted(project):
    write_test(project, sequence_model("SequenceEmpty"), [], [sequence()])
    assert verdict(project)[0] == "new"


@pytest.mark.parametrize(("given", "wanted"), [(None, False), (np.ones(3, np.float32), True)])
def test_an_optional_input_may_be_absent(project, given, wanted):
    inner = helper.make_tensor_type_proto(FLOAT, None)
    x = helper.make_value_info("x", helper.make_optional_type_proto(inner))
    made = model([node("OptionalHasElement", ["x"], ["y"])], [x], [value("y", TensorProto.BOOL, [])], opset=18)
    stored = OptionalProto(elem_type=OptionalProto.TENSOR, name="x")
    if given is not None:
        stored.tensor_value.CopyFrom(numpy_helper.from_array(given))
    write_test(project, made, [stored], [np.array(wanted)])
    assert verdict(project)[0] == "new"
    write_test(project, made, [stored], [np.array(not wanted)])
    assert verdict(project)[0] == "out_of_tolerance"


def test_every_data_set_is_compared(project):
    write_test(project, unary("Neg"), [numbers(1)], [numbers(-1)])
    write_test(project, unary("Neg"), [numbers(2)], [numbers(-3)], number=1)
    assert verdict(project) == ("out_of_tolerance", verdict(project)[1])
    assert "set1.y" in verdict(project)[1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no protobuf", "expected a value of tensor_type but: "),
        (numpy_helper.from_array(numbers(1, 2)).SerializeToString()[:-3], "expected a value of tensor_type but: "),
        (TensorProto(dims=[2**40], data_type=FLOAT, raw_data=b"1234"), "expected a value of tensor_type but: "),
        (TensorProto(dims=[2], data_type=TensorProto.FLOAT8E5M2, raw_data=b"1"), "has 2 bytes, and the file 1"),
        (TensorProto(dims=[1], data_type=99), "data_type=99 is no type of a tensor"),
        (TensorProto(dims=[1], data_type=FLOAT, data_location=TensorProto.EXTERNAL), "the data is in another file"),
    ],
)
@pytest.mark.parametrize("role", ["input", "output"])
def test_a_damaged_value_is_one_error(project, content, words, role):
    values = {"input": [numbers(1)], "output": [numbers(-1)], role: [content]}
    write_test(project, unary("Neg"), values["input"], values["output"])
    reason, message = verdict(project)
    assert reason == ("subject_error" if role == "input" else "reference_error")
    assert words in message


def test_a_test_without_outputs_does_not_pass(project):
    write_test(project, unary("Neg"), [numbers(1)], [])
    assert verdict(project) == (
        "reference_error",
        "expected output_0.pb to output_0.pb, as the graph has, but got numbers []",
    )


def test_an_accepted_test_is_identical_and_other_stored_outputs_make_it_stale(project):
    write_test(project, unary("Neg"), [numbers()], [numbers()])
    repository(project)
    assert verdict(project)[0] == "new"
    precreg(project, "baseline", "accept", "--all", "--reason", "first version")
    assert verdict(project)[0] == "identical"
    write_test(project, unary("Neg"), [numbers(1)], [numbers(-1)])
    assert verdict(project)[0] in ("inputs_changed", "shape_mismatch")


def test_a_changed_file_of_a_test_selects_its_case_alone(project):
    for name in ("test_one", "test_other"):
        write_test(project, unary("Neg"), [numbers(1)], [numbers(-1)], name)
    repository(project)
    path = project / "suites/unit/node/test_other/test_data_set_0/output_0.pb"
    path.write_bytes(numpy_helper.from_array(numbers(-2)).SerializeToString())
    precreg(project, "run", "--changed-since", "HEAD")
    assert [result["id"] for result in results(project)] == ["unit/node/test_other"]


def test_a_new_test_is_a_case_of_the_next_run(project):
    write_test(project, unary("Neg"), [numbers(1)], [numbers(-1)])
    repository(project)
    assert precreg(project, "run", "--changed-since", "HEAD").returncode == 0
    write_test(project, unary("Neg"), [numbers(2)], [numbers(-2)], "test_new")
    precreg(project, "run", "--changed-since", "HEAD")
    assert [result["id"] for result in results(project)] == ["unit/node/test_new"]
