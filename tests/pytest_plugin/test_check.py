"""Hand-written tests with the fixture `precision`, from their own arrays to `precreg baseline accept`."""

import pytest

from tests.e2e.command import change, precreg, repository
from tests.pytest_plugin.session import ABSENT, MIXED, accept, counted, project, pytest_, record, verdicts

TESTS = """
import numpy as np
import pytest

X = np.linspace(-3, 3, 256).reshape(16, 16)
FACTOR = 1


def softmax(x):
    terms = np.exp(x - x.max(axis=-1, keepdims=True))
    return FACTOR * terms / terms.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_softmax(precision, dtype):
    x = X.astype(dtype)
    precision.check(softmax(x), reference=softmax(x.astype(float)), inputs={"x": x}, rtol=1e-2)


class TestMoments:
    @pytest.mark.integration
    def test_both(self, precision):
        x = X.astype("float32")
        precision.check(x.mean(axis=0), golden=x.mean(axis=0), name="mean")
        result = precision.check({"var": x.var(axis=0)}, golden={"var": x.var(axis=0)}, name="variance", tier="model")
        assert result.outcome.comparisons[0].metrics["match_ratio"] == 1


def test_of_its_own():
    assert softmax(X).shape == X.shape
"""
IDS = [
    "integration/tests.ops.test_ops/TestMoments.test_both-mean",
    "model/tests.ops.test_ops/TestMoments.test_both-variance",
    "unit/tests.ops.test_ops/test_softmax[float16]",
    "unit/tests.ops.test_ops/test_softmax[float32]",
]


@pytest.fixture
def folder(tmp_path):
    """A project of hand-written tests alone."""
    (tmp_path / "tests" / "ops").mkdir(parents=True)
    (tmp_path / "tests" / "ops" / "test_ops.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return repository(tmp_path)


def test_from_a_first_run_to_a_regression(folder):
    first = pytest_(folder, "-n", "2")
    assert (first.returncode, counted(first)) == (1, {"passed": 1, "proposed": 3}), first.stdout
    assert verdicts(folder / "reports") == dict.fromkeys(IDS, ("proposed", "new"))
    assert "PROPOSED 2 cases of unit/tests.ops.test_ops   new" in first.stdout
    accept(folder, "*")
    assert (folder / "baselines/generic/model/tests.ops.test_ops.json").exists()
    second = pytest_(folder)
    assert (second.returncode, counted(second)) == (0, {"passed": 4}), second.stdout
    assert verdicts(folder / "reports") == dict.fromkeys(IDS, ("passed", "identical"))
    change(folder / "tests/ops/test_ops.py", "return FACTOR * terms", "return x.dtype.type(1.002) * terms")
    change(
        folder / "tests/ops/test_ops.py",
        "reference=softmax(x.astype(float))",
        "reference=softmax(x.astype(float)) / 1.002",
    )
    third = pytest_(folder, "-n", "2")
    assert (third.returncode, counted(third)) == (1, {"failed": 2, "passed": 2})
    assert verdicts(folder / "reports")[IDS[3]] == ("failed", "regressed")
    assert "regressed: out: bias grew by" in third.stdout
    assert "test      tests/ops/test_ops.py:17" in third.stdout
    assert "precreg explain" not in third.stdout, "explain knows suites alone"


def test_in_ci_a_case_without_a_baseline_fails(folder):
    done = pytest_(folder, CI="true")
    assert (done.returncode, counted(done)) == (1, {"failed": 3, "passed": 1})
    assert "accept    " not in done.stdout


def test_other_inputs_and_other_definitions_are_told_apart(folder):
    pytest_(folder)
    accept(folder, "*")
    change(folder / "tests/ops/test_ops.py", "np.linspace(-3, 3, 256)", "np.linspace(-3, 2, 256)")
    pytest_(folder, "-k", "softmax")
    assert verdicts(folder / "reports")[IDS[2]] == ("proposed", "inputs_changed")
    change(folder / "tests/ops/test_ops.py", "256).reshape(16, 16)", "512).reshape(32, 16)")
    pytest_(folder, "-k", "softmax")
    assert verdicts(folder / "reports")[IDS[2]] == ("proposed", "stale")


def test_the_command_neither_loses_nor_removes_what_tests_define(tmp_path):
    folder = project(tmp_path, unit_mixed=MIXED, integration_absent=ABSENT)
    (folder / "test_mean.py").write_text(
        "import numpy as np\n\n\ndef test_mean(precision):\n"
        "    x = np.arange(64, dtype=np.float32)\n"
        "    precision.check(x, golden=x, category='elementwise', name='all', exact=True)\n"
    )
    (folder / "suites" / "tolerances.yaml").write_text("categories: {elementwise: {max_ulp: 0.5}}\n")
    pytest_(folder, "test_mean.py")
    layers = [bound["layer"] for bound in record(folder / "reports")["results"][0]["tolerances"]["out"]["bounds"]]
    assert "category elementwise" in layers
    assert record(folder / "reports")["results"][0]["source"] == {"file": "test_mean.py", "line": 6}
    precreg(folder, "run")
    accept(folder, "unit/test_mean/test_mean-all")
    whole = precreg(folder, "run")
    assert "baselines without a case" not in whole.stdout
    pruned = precreg(folder, "baseline", "prune")
    assert pruned.stdout == "0 removed, 0 renamed\n"
    done = pytest_(folder, "test_mean.py", "suites/unit", "-n", "2")
    assert verdicts(folder / "reports")["unit/test_mean/test_mean-all"] == ("passed", "identical")
    assert len(verdicts(folder / "reports")) == 6
    assert counted(done)["passed"] == 1


MISTAKES = {
    "bad-value]: expected reference= or golden= but got neither": "precision.check(x)",
    "bad-value]: expected reference= or golden= but got both": "precision.check(x, reference=x, golden=x)",
    "bad-value]: expected a name of letters": "precision.check(x, golden=x, name='a b')",
    "bad-value]: expected one of unit, integration, model but got tier=mod": "precision.check(x, golden=x, tier='mod')",
    "duplicate-case]: expected a name= of its own": "precision.check(x, golden=x); precision.check(x, golden=x)",
    "unknown-metric]: expected the name of a metric": "precision.check(x, golden=x, tolerance={'max_ulps': 1})",
    "bad-outputs]: expected the golden to give every output": "precision.check({'a': x}, golden={'b': x})",
    "bad-outputs]: expected an array but got None": "precision.check(None, golden=x)",
    "bad-value]: expected a dict but got tolerance of type float": "precision.check(x, golden=x, tolerance=1e-3)",
    "bad-value]: expected a dict but got inputs of type list": "precision.check(x, golden=x, inputs=[x])",
    "bad-value]: expected an array but got inputs.x": "precision.check(x, golden=x, inputs={'x': [[1], [1, 2]]})",
    "bad-value]: expected a name of letters, digits and _ . + - but got name=3": "precision.check(x, golden=x, name=3)",
    "duplicate-suite]: expected a test file with another name": "precision.check(x, golden=x, tier='integration')",
}


def test_every_mistake_is_told_with_its_line_and_nothing_is_recorded_of_it(tmp_path):
    folder = project(tmp_path, integration_absent=ABSENT.replace("suite: absent", "suite: test_mistakes"))
    lines = ["import numpy as np", "x = np.ones(16)"]
    lines += [f"def test_{number}(precision): {call}" for number, call in enumerate(MISTAKES.values())]
    (folder / "test_mistakes.py").write_text("\n".join(lines) + "\n")
    done = pytest_(folder, "test_mistakes.py")
    assert counted(done) == {"failed": len(MISTAKES)}
    for line, message in enumerate(MISTAKES, 3):
        assert f"test_mistakes.py:{line}: error[{message}" in done.stdout
    assert "Traceback" not in done.stdout
    assert list(verdicts(folder / "reports")) == ["unit/test_mistakes/test_4"]


def test_a_bound_for_an_output_that_is_not_there_warns(folder):
    change(folder / "tests/ops/test_ops.py", "rtol=1e-2)", "tolerance={'outputs': {'put': {'rtol': 1}}})")
    done = pytest_(folder, "-k", "float32")
    assert (
        'PytestWarning: no output is called put (test, output put: tests/ops/test_ops.py:17); did you mean "out"?'
        in (done.stdout)
    )


def test_a_test_that_runs_again_is_recorded_as_it_ended(folder):
    (folder / "conftest.py").write_text(
        "from _pytest.runner import runtestprotocol\n\n\n"
        "def pytest_runtest_protocol(item, nextitem):\n"
        "    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)\n"
        "    for factor in (3, 1):\n"
        "        item.module.FACTOR = factor\n"
        "        for report in runtestprotocol(item, nextitem=nextitem, log=False):\n"
        "            item.ihook.pytest_runtest_logreport(report=report)\n"
        "        item._initrequest()\n"
        "    return True\n"
    )
    pytest_(folder, "-k", "float32 and softmax")
    assert verdicts(folder / "reports") == {IDS[3]: ("proposed", "new")}


def recorded(folder, *arguments):
    """Run pytest and return what it counts, its exit code, that of the record, and the record's verdicts."""
    done = pytest_(folder, *arguments)
    return counted(done), done.returncode, record(folder / "reports")["exit_code"], verdicts(folder / "reports")


def test_what_a_fixture_checks_goes_with_the_test_that_it_is_for(tmp_path):
    (tmp_path / "test_fixture.py").write_text(
        "import numpy as np\nimport pytest\n\nX = np.ones(16, np.float32)\n\n\n"
        "@pytest.fixture\ndef prepared(precision):\n"
        "    precision.check(X, golden=X, name='before')\n"
        "    yield X\n"
        "    precision.check(X, golden=X, name='after')\n\n\n"
        "def test_both(prepared, precision):\n    precision.check(2 * X, golden=2 * prepared, name='itself')\n\n\n"
        "def test_neither(prepared):\n    raise ValueError('the test itself ran')\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    counts, _, _, found = recorded(tmp_path)
    assert counts == {"failed": 1, "proposed": 3}, "both when it is called and when it is torn down, and so the other"
    names = ["test_both-after", "test_both-before", "test_both-itself", "test_neither-after", "test_neither-before"]
    assert found == {f"unit/test_fixture/{name}": ("proposed", "new") for name in names}


def test_the_record_and_pytest_agree_on_what_a_test_expects(tmp_path):
    (tmp_path / "test_expects.py").write_text(
        "import numpy as np\nimport pytest\n\nX = np.ones(16, np.float32)\n\n\n"
        "@pytest.mark.xfail(reason='twice too much')\n"
        "def test_known(precision):\n    precision.check(2 * X, golden=X)\n\n\n"
        "@pytest.mark.xfail\n"
        "def test_shape(precision):\n    precision.check(X[:8], golden=X)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    known, shape = "unit/test_expects/test_known", "unit/test_expects/test_shape"
    assert recorded(tmp_path, "test_expects.py::test_known") == (
        {"xfailed": 1},
        0,
        0,
        {known: ("passed", "expected_failure")},
    )
    assert "twice too much" in record(tmp_path / "reports")["results"][0]["verdict"]["message"]
    assert recorded(tmp_path, "test_expects.py::test_shape")[3] == {shape: ("failed", "shape_mismatch")}, (
        "it has no figures"
    )


def test_a_failed_check_whose_exception_is_caught_fails_its_test(tmp_path):
    (tmp_path / "test_caught.py").write_text(
        "import numpy as np\nimport pytest\n\n\n"
        "def test_caught(precision):\n"
        "    with pytest.raises(pytest.fail.Exception):\n        precision.check(np.ones(4), golden=np.zeros(4))\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    assert recorded(tmp_path)[:3] == ({"failed": 1}, 1, 1)


NO_BOUNDS = """
import numpy as np


def test_sum(precision):
    x = np.linspace(-3, 3, 256, dtype="float32")
    precision.check(x * np.float32(1.1), reference=x.astype(float), inputs={"x": x}, tolerance="none")


def test_word(precision):
    precision.check(np.float32([1]), reference=np.float32([1]), tolerance="nothing")
"""


def test_a_check_without_bounds_is_judged_by_its_baseline_alone(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_ops.py").write_text(NO_BOUNDS)
    repository(tmp_path)
    done = pytest_(tmp_path)
    assert verdicts(tmp_path / "reports")["unit/tests.test_ops/test_sum"] == ("proposed", "new")
    assert "expected a dict but got tolerance of type str" in done.stdout
    accept(tmp_path, "--all")
    pytest_(tmp_path)
    assert verdicts(tmp_path / "reports")["unit/tests.test_ops/test_sum"] == ("passed", "identical")
    change(tmp_path / "tests/test_ops.py", "1.1", "1.2")
    pytest_(tmp_path)
    assert verdicts(tmp_path / "reports")["unit/tests.test_ops/test_sum"] == ("failed", "regressed")


SCALAR = """
import numpy as np

ULP = 2.0**-23


def test_loss(precision):
    loss = np.float32(1.5 + 0 * ULP)
    precision.check(loss, reference=1.5 + 0.28 * ULP, inputs={"x": np.ones(3)}, rtol=1e-3, atol=1e-3)
"""


def test_a_scalar_that_is_1806_times_worse_fails(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_ops.py").write_text(SCALAR)
    repository(tmp_path)
    pytest_(tmp_path)
    accept(tmp_path, "--all")
    change(tmp_path / "tests/test_ops.py", "0 * ULP", "506 * ULP")
    done = pytest_(tmp_path)
    assert verdicts(tmp_path / "reports")["unit/tests.test_ops/test_loss"] == ("failed", "regressed")
    assert "mean_abs_error grew 1806x over the baseline" in done.stdout
