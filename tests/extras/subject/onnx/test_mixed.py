"""Nodes of a narrow model in float32, and results that are rounded: beside numpy, node by node."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precreg.errors import UserError
from precreg.subject import Call
from precreg.subject.onnx import ModelFile, mixed_file, node_groups, read_model
from precreg.subject.onnx.mixed import with_mixed_nodes
from precreg.subject.onnx.model import run_model
from tests.extras.onnx_models import FLOAT, FLOAT16, INT64, constant, gelu_net, model, node, save, value

HALF, SINGLE = np.float16, np.float32
RANDOM = np.random.default_rng(11)
WEIGHT = (RANDOM.standard_normal((64, 16)) / 8).astype(HALF)
X = RANDOM.standard_normal((5, 64)).astype(HALF)

# In order: name, operator, inputs, and the same in numpy. Each result is between float16 and float32 in its error.
STEPS = [
    ("linear", "MatMul", ["x", "w"], np.matmul),
    ("square", "Mul", ["linear", "linear"], np.multiply),
    ("sum", "Add", ["square", "linear"], np.add),
    ("scaled", "Mul", ["sum", "third"], np.multiply),
    ("less", "Sub", ["scaled", "linear"], np.subtract),
    ("again", "Mul", ["less", "scaled"], np.multiply),
]
CONSTANTS = {"w": WEIGHT, "third": HALF(1 / 3)}


def chain(kind=FLOAT16, outputs=("again",)):
    nodes = [node(operator, inputs, [name], name) for name, operator, inputs, _ in STEPS]
    given = [value("x", kind, ("n", 64))]
    return model(
        nodes,
        given,
        [value(name, kind, ("n", 16)) for name in outputs],
        [constant(*each) for each in CONSTANTS.items()],
    )


def in_numpy(kept, rounds=True):
    """Return each value of the chain: kept steps take what kept steps gave, in float32, and others round."""
    wide = {"x": X.astype(SINGLE), **{name: np.asarray(each).astype(SINGLE) for name, each in CONSTANTS.items()}}
    narrow = {name: each.astype(HALF) for name, each in wide.items()}
    for name, _, inputs, compute in STEPS:
        is_kept = name in kept
        given = [wide[each] if is_kept and each in kept else narrow[each].astype(SINGLE) for each in inputs]
        wide[name] = compute(*given)
        narrow[name] = wide[name].astype(HALF)
    return narrow


@pytest.fixture
def run(tmp_path):
    def run(made, **options):
        save(tmp_path / "net.onnx", made)
        return run_model({"model": "net.onnx", **options}, Call({"x": X}, {}, tmp_path, tmp_path)).arrays

    return run


@settings(max_examples=30, deadline=None)
@given(st.sets(st.sampled_from([name for name, *_ in STEPS])), st.sampled_from(["all", "disabled"]))
def test_any_kept_nodes_have_the_bits_of_the_same_casts_in_numpy(tmp_path_factory, kept, optimization):
    folder = tmp_path_factory.mktemp("net")
    save(folder / "net.onnx", chain())
    spec = {"model": "net.onnx", "round_nodes": True, "optimization": optimization}
    if kept:
        spec["keep_in"] = {"float32": sorted(kept)}
    found = run_model(spec, Call({"x": X}, {}, folder, folder)).arrays["again"]
    assert found.dtype == HALF
    assert found.tobytes() == in_numpy(kept)["again"].tobytes()


def test_the_runtime_rounds_a_chain_once_and_round_nodes_each_result(run):
    once, each = run(chain())["again"], run(chain(), round_nodes=True)["again"]
    assert once.tobytes() == in_numpy({name for name, *_ in STEPS})["again"].tobytes()
    assert each.tobytes() == in_numpy(())["again"].tobytes() != once.tobytes()


def test_a_value_that_kept_and_other_nodes_read_is_rounded_for_the_others(run):
    found = run(chain(outputs=("scaled", "again")), round_nodes=True, keep_in={"float32": ["linear", "square", "less"]})
    expected = in_numpy({"linear", "square", "less"})
    assert all(found[name].tobytes() == expected[name].tobytes() for name in ("scaled", "again"))


def test_an_inner_tensor_of_a_kept_node_can_be_returned(run):
    found = run(chain(), round_nodes=True, keep_in={"float32": ["l*"]}, nodes=["linear", "less"])
    expected = in_numpy({"linear", "less"})
    assert all(found[name].tobytes() == expected[name].tobytes() for name in ("linear", "less"))


def test_a_mixed_model_is_valid_and_casts_at_its_borders_alone():
    mixed = onnx.load_from_string(mix(chain(), keep_in={"float32": ["square", "sum"]}).content)
    onnx.checker.check_model(mixed, full_check=True)
    operators = [each.op_type for each in mixed.graph.node]
    # linear and third up, sum down; what square gives sum stays float32.
    assert operators == ["MatMul", "Cast", "Mul", "Add", "Cast", "Mul", "Sub", "Mul"]


def mix(made, **spec):
    return with_mixed_nodes(ModelFile("net.onnx", made.SerializeToString(), None), spec)


def test_nodes_whose_type_an_attribute_fixes_stay_as_they_are(run):
    nodes = [
        node("Cast", ["x"], ["wide"], "up", to=FLOAT),
        node("Exp", ["wide"], ["exp"], "exp"),
        node("Cast", ["exp"], ["down"], "down", to=FLOAT16),
        node("Mul", ["down", "down"], ["y"], "mul"),
    ]
    made = model(nodes, [value("x", FLOAT16, ("n", 64))], [value("y", FLOAT16, ("n", 64))])
    down = np.exp(X.astype(SINGLE)).astype(HALF).astype(SINGLE)
    expected = (down * down).astype(HALF)
    kept = run(made, round_nodes=True, keep_in={"float32": ["*"]})["y"]
    assert np.max(np.abs(kept.astype(float) - expected) / expected) <= 2**-10
    assert list(node_groups(ModelFile("net.onnx", made.SerializeToString(), None))) == ["mul"]


def test_a_subgraph_reads_a_value_of_a_kept_node(run):
    branch = [
        onnx.helper.make_graph([node(kind, ["e"], [f"{kind}_out"])], kind, [], [value(f"{kind}_out", FLOAT16, None)])
        for kind in ("Neg", "Abs")
    ]
    nodes = [
        node("Exp", ["x"], ["e"], "exp"),
        node("If", ["yes"], ["y"], "choose", then_branch=branch[0], else_branch=branch[1]),
    ]
    made = model(
        nodes, [value("x", FLOAT16, ("n", 64))], [value("y", FLOAT16, None)], [constant("yes", np.array(True))]
    )
    found = run(made, keep_in={"float32": ["exp"]})["y"]
    assert found.dtype == HALF
    assert np.max(np.abs(found + np.exp(X.astype(SINGLE)).astype(HALF))) <= 2**-7


def test_groups_are_modules_that_exporters_write():
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "/blocks.0/up/MatMul"),
        node("Mul", ["a", "a"], ["b"], "/blocks.0/norm/Mul"),
        node("Sqrt", ["b"], ["c"], "/blocks.0/norm/Sqrt"),
        node("Exp", ["c"], ["d"], "alone"),
        node("Shape", ["d"], ["s"], "shape"),
        node("Log", ["d"], ["y"]),
    ]
    scopes = nodes[4].metadata_props.add()
    scopes.key, scopes.value = "pkg.torch.onnx.name_scopes", "['', 'head', 'head.shape', 'shape']"
    scopes = nodes[5].metadata_props.add()
    scopes.key, scopes.value = "pkg.torch.onnx.name_scopes", "['', 'head', 'log']"
    made = model(
        nodes,
        [value("x", FLOAT16, ("n", 64))],
        [value("y", FLOAT16, ("n", 16)), value("s", INT64, (2,))],
        [constant("w", WEIGHT)],
    )
    groups = node_groups(ModelFile("net.onnx", made.SerializeToString(), None))
    assert {name: (each.nodes, each.weights) for name, each in groups.items()} == {
        "/blocks.0/up": (("/blocks.0/up/MatMul",), 64 * 16),
        "/blocks.0/norm": (("/blocks.0/norm/Mul", "/blocks.0/norm/Sqrt"), 0),
        "alone": (("alone",), 0),
        "head.shape": (("shape",), 0),
        "head": (("y",), 0),
    }


def test_names_that_no_node_has_and_models_without_a_narrow_node(run):
    for options, made, slug, expected in (
        ({"keep_in": {"float32": ["squares"]}}, chain(), "unknown-node", 'keep_in=squares; did you mean "square"?'),
        ({"round_nodes": True}, gelu_net(), "bad-value", "expected nodes in float16 or bfloat16"),
    ):
        with pytest.raises(UserError) as error:
            run(made, **options)
        assert (error.value.slug, expected in error.value.message) == (slug, True), error.value.message


def test_the_same_in_bfloat16():
    nodes = [node("Mul", ["x", "x"], ["a"], "square"), node("Add", ["a", "x"], ["y"], "sum")]
    kind = onnx.TensorProto.BFLOAT16
    mixed = mix(model(nodes, [value("x", kind)], [value("y", kind)]), keep_in={"float32": ["square"]}, round_nodes=True)
    onnx.checker.check_model(mixed.content, full_check=True)
    assert {each.dtype for each in node_groups(mixed).values()} <= {"bfloat16"}


def test_weights_beside_a_model_are_inside_the_written_one(tmp_path):
    save(tmp_path / "net.onnx", chain(), external="weights.bin")
    written = mixed_file(read_model("net.onnx", tmp_path, tmp_path), {"float32": ["square", "sum"]})
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mixed.onnx").write_bytes(written)
    call = Call({"x": X}, {}, tmp_path, tmp_path)
    alone = run_model({"model": "other/mixed.onnx"}, call).arrays["again"]
    kept = {"keep_in": {"float32": ["square", "sum"]}}
    assert alone.tobytes() == run_model({"model": "net.onnx", **kept}, call).arrays["again"].tobytes()
