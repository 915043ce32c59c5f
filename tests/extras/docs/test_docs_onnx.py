"""docs/onnx.md: its suites run, and its tables are those of the program and of the tests."""

import re
from pathlib import Path

import yaml

from precreg.subject.onnx.kind import MODEL_OPTIONS
from tests.docs.test_docs import table
from tests.e2e.command import precreg
from tests.extras.e2e.test_onnx_node_tests import KNOWN, KNOWN_FAILURES, UNIMPLEMENTED, results, unary, write_test
from tests.extras.onnx_models import gelu_net, save

PAGE = (Path(__file__).parents[3] / "docs/onnx.md").read_text()
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]


def test_the_suites_of_the_page_run(tmp_path):
    first, *others = [block for block in BLOCKS if "onnx_tests" not in block]
    suites = [first, *({**first, "suite": f"net{place}", **block} for place, block in enumerate(others))]
    for suite in suites:
        # The level of optimization and the reference are separate examples, on a machine that may have no GPU.
        path = tmp_path / "suites/unit" / f"{suite['suite']}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(suite, sort_keys=False))
    save(tmp_path / "suites/unit/net.onnx", gelu_net())
    precreg(tmp_path, "run")
    reasons = {result["id"]: result["verdict"]["reason"] for result in results(tmp_path)}
    assert {name: reasons[name] for name in reasons if not name.startswith("unit/net1/")} == {
        "unit/net/default": "new",
        "unit/net0/disabled": "new",
        "unit/net0/all": "new",
    }
    assert reasons["unit/net1/default"] in ("new", "unavailable")


def test_the_suites_of_backend_tests_run(tmp_path):
    whole, selected = [block for block in BLOCKS if "onnx_tests" in block]
    for name in ("test_neg", "test_resize_x", "test_resize_cubic_y"):
        write_test(tmp_path, unary("Neg"), [], [], name)
    (tmp_path / "suites/unit/data").mkdir()
    (tmp_path / "suites/unit/node").rename(tmp_path / "suites/unit/data/node")
    for place, suite in enumerate((whole, {"suite": "selected", **selected})):
        (tmp_path / f"suites/unit/s{place}.yaml").write_text(yaml.safe_dump(suite))
    listed = precreg(tmp_path, "list").stdout
    assert listed.count("unit/onnx-node/test_") == 3
    assert re.findall(r"unit/selected/(\w+)", listed) == ["test_resize_x"]


def test_the_options_of_the_table_are_those_of_the_kind():
    rows = table(PAGE, "option beside `onnx`", "value", "default")
    assert [row["option beside `onnx`"] for row in rows] == list(MODEL_OPTIONS)


def test_the_failures_of_the_table_are_those_that_the_test_expects():
    rows = table(PAGE, "tests", "number", "reason")
    assert sum(int(row["number"]) for row in rows) == KNOWN_FAILURES
    named = {name.strip("`") for row in rows for name in row["tests"].split("`") if name.startswith("test_")}
    assert named == {name for name in KNOWN if not name.startswith("test_training_dropout_")}
    assert f"Of\nthe other 1,250 tests, 1,220 pass and {KNOWN_FAILURES} fail" in PAGE
    assert len(UNIMPLEMENTED) < 34
