import json
import os
import subprocess
import sys

import numpy as np
import pytest

from precreg.environment.machine import KERNEL_VARIABLES, LABEL_VARIABLE, THREAD_VARIABLES, detect_environment
from precreg.errors import UserError


@pytest.fixture(autouse=True)
def _no_label(monkeypatch):
    monkeypatch.delenv(LABEL_VARIABLE, raising=False)


def detected(**variables):
    """Detect in a fresh process, where numpy is not yet loaded, and return label, fingerprint and facts."""
    code = (
        "import json; from precreg.environment.machine import detect_environment; e = detect_environment(); "
        "print(json.dumps([e.label, e.fingerprint, e.facts]))"
    )
    inherited = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    out = subprocess.run(
        [sys.executable, "-c", code], env=inherited | variables, capture_output=True, text=True, check=True
    ).stdout
    return json.loads(out)


def test_the_default_label_is_the_machine(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "AMD64")
    assert detect_environment().chain == ("cpu-x86_64", "cpu", "generic")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert detect_environment().chain == ("cpu-arm64", "cpu", "generic")


def test_a_label_falls_back_to_its_family():
    assert detect_environment("ascend-910b-cann8").chain == ("ascend-910b-cann8", "ascend", "generic")
    assert detect_environment("generic").chain == ("generic",)


def test_the_label_given_wins_over_the_variable(monkeypatch):
    monkeypatch.setenv(LABEL_VARIABLE, "mlu-370")
    assert detect_environment().label == "mlu-370"
    assert detect_environment("ascend-910b").label == "ascend-910b"


@pytest.mark.parametrize("label", ["../elsewhere", "a/b", "-x", "two words", "."])
def test_a_label_is_the_name_of_a_folder(label):
    with pytest.raises(UserError, match="environment=") as caught:
        detect_environment(label)
    assert caught.value.slug == "bad-value"


def test_the_facts_name_what_computes():
    facts = detect_environment().facts
    assert facts["numpy"] == np.__version__
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert all(facts.values())


def test_the_fingerprint_is_that_of_the_facts():
    assert detected()[1:] == detected()[1:]
    assert detected()[1] == detected(**{LABEL_VARIABLE: "mlu-370"})[1]


def test_features_that_numpy_may_not_use_change_the_fingerprint():
    _, fingerprint, facts = detected()
    baseline = np.show_config(mode="dicts")["SIMD Extensions"]["baseline"]
    optional = [name for name in facts["cpu_features"].split() if name not in baseline]
    if not optional:
        pytest.skip("this processor has nothing beyond what numpy requires")
    _, other, fewer = detected(NPY_DISABLE_CPU_FEATURES=optional[-1])
    assert optional[-1] not in fewer["cpu_features"].split()
    assert other != fingerprint


def test_kernels_of_another_processor_change_the_fingerprint():
    _, fingerprint, facts = detected(OPENBLAS_CORETYPE="Haswell")
    _, other, chosen = detected(OPENBLAS_CORETYPE="Prescott")
    assert (facts["kernels"], chosen["kernels"]) == ("OPENBLAS_CORETYPE=Haswell", "OPENBLAS_CORETYPE=Prescott")
    assert other != fingerprint


def test_kernels_that_nobody_chose_are_no_fact(monkeypatch):
    for name in KERNEL_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert "kernels" not in detected()[2]


def test_blas_uses_one_thread_unless_the_user_decides():
    alone = detected()
    assert "OPENBLAS_NUM_THREADS=1" in alone[2]["threads"]
    chosen = detected(OMP_NUM_THREADS="4")
    assert chosen[2]["threads"] == "OMP_NUM_THREADS=4"
    assert chosen[1] != alone[1]


def test_a_numpy_that_is_loaded_keeps_its_threads():
    code = (
        "import os, numpy; from precreg.environment.machine import detect_environment as e; print(e().facts['threads'])"
    )
    inherited = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    result = subprocess.run([sys.executable, "-c", code], env=inherited, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("all of ")
