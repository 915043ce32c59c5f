import json
import os
import platform
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from precreg.environment.machine import (
    KERNEL_VARIABLES,
    LABEL_VARIABLE,
    THREAD_VARIABLES,
    _kernels,
    _loaded_openblas,
    _threads,
    count_processors,
    detect_environment,
    former_descriptions,
    former_fingerprints,
)
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
    assert facts["python"] == ".".join(map(str, sys.version_info[:2]))
    assert facts["python_version"] == ".".join(map(str, sys.version_info[:3]))
    assert all(facts.values())


def test_the_fingerprint_is_that_of_the_facts():
    assert detected()[1:] == detected()[1:]
    assert detected()[1] == detected(**{LABEL_VARIABLE: "mlu-370"})[1]


def test_explanations_have_no_effect_on_the_fingerprint():
    here = detect_environment()
    assert {"cpu", "python_version", "thread_variables", "os"} <= here.facts.keys() - here.decisive.keys()


def test_features_that_numpy_may_not_use_change_the_fingerprint():
    _, fingerprint, facts = detected()
    baseline = np.show_config(mode="dicts")["SIMD Extensions"]["baseline"]
    optional = [name for name in facts["cpu_features"].split() if name not in baseline]
    if not optional:
        pytest.skip("this processor has nothing beyond what numpy requires")
    _, other, fewer = detected(NPY_DISABLE_CPU_FEATURES=optional[-1])
    assert optional[-1] not in fewer["cpu_features"].split()
    assert other != fingerprint


needs_openblas = pytest.mark.skipif(_loaded_openblas() is None, reason="numpy has another BLAS than OpenBLAS")
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels of x86 processors")


@needs_openblas
@on_x86
def test_kernels_of_another_processor_change_the_fingerprint():
    _, fingerprint, facts = detected(OPENBLAS_CORETYPE="Haswell")
    _, other, chosen = detected(OPENBLAS_CORETYPE="Nehalem")
    assert (facts["kernels"].split()[-1], chosen["kernels"].split()[-1]) == ("Haswell", "Nehalem")
    assert other != fingerprint


@needs_openblas
def test_a_variable_that_chooses_the_same_kernels_changes_nothing(monkeypatch):
    # OpenBLAS takes the name Prescott and reports the kernels as Katmai, so a name of the caller proves nothing.
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    _, fingerprint, facts = detected()
    assert detected(OPENBLAS_CORETYPE=facts["kernels"].split()[-1])[1] == fingerprint
    # OpenBLAS ignores a name that it does not know.
    assert detected(OPENBLAS_CORETYPE="no-such-processor")[1] == fingerprint


@needs_openblas
def test_the_variable_of_a_library_that_reveals_nothing_is_a_fact():
    _, fingerprint, facts = detected(MKL_CBWR="COMPATIBLE")
    assert facts["kernels"].endswith(" MKL_CBWR=COMPATIBLE")
    assert fingerprint != detected()[1]


@needs_openblas
def test_blas_uses_one_thread_unless_the_user_decides():
    alone = detected()
    assert alone[2]["threads"] == "1"
    chosen = detected(OMP_NUM_THREADS="4")
    # OpenBLAS never takes more threads than there are processors.
    assert chosen[2]["threads"] == str(min(4, count_processors()))
    assert (chosen[1] == alone[1]) == (count_processors() == 1)


@needs_openblas
@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"])
def test_a_variable_that_gives_the_same_threads_changes_nothing(name):
    assert detected(**{name: "1"})[1] == detected()[1]


@needs_openblas
def test_a_numpy_that_is_loaded_keeps_its_threads():
    code = (
        "import os, numpy; from precreg.environment.machine import detect_environment as e; print(e().facts['threads'])"
    )
    inherited = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    result = subprocess.run([sys.executable, "-c", code], env=inherited, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(count_processors())


@on_x86
def test_another_code_of_the_c_library_changes_the_fingerprint():
    flags = re.search("^flags.*$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    if "glibc" not in detect_environment().facts["libc"] or flags is None or " fma " not in flags[0]:
        pytest.skip("only glibc on a processor with FMA has two codes")
    _, fingerprint, facts = detected()
    # glibc 2.32 and earlier call the same feature AVX2_Usable.
    _, other, without = detected(GLIBC_TUNABLES="glibc.cpu.hwcaps=-FMA,-AVX2,-FMA_Usable,-AVX2_Usable")
    assert without["libm"] != facts["libm"]
    assert without["libc"] == facts["libc"]
    assert other != fingerprint


def test_a_blas_that_reveals_nothing_is_described_by_the_processor_and_variables(monkeypatch):
    for name in (*KERNEL_VARIABLES, *THREAD_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    assert _kernels(None, "EPYC") == "not readable: EPYC MKL_CBWR=AVX2"
    assert _threads(None) == "not readable: MKL_NUM_THREADS=3"


# As version 0.1.0 stored them in baselines/environments.json.
STORED = {
    "blas": "scipy-openblas 0.3.31.188.0",
    "cpu": "AMD EPYC",
    "cpu_features": "X86_V2 X86_V3 X86_V4 AVX512_ICL",
    "kernels": "OPENBLAS_CORETYPE=Haswell",
    "libc": "glibc 2.36",
    "numpy": "2.4.6",
    "python": "3.11.7",
    "threads": "OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 OMP_NUM_THREADS=1 BLIS_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1",
}
STORED_FINGERPRINT = "1d4bdb14"
# The same machine as it is described today.
TODAY = {
    "python": "3.11",
    "numpy": "2.4.6",
    "blas": "scipy-openblas 0.3.31.188.0",
    "kernels": "OpenBLAS 0.3.31.188.0 Haswell",
    "threads": "1",
    "cpu_features": "X86_V2 X86_V3 X86_V4 AVX512_ICL",
    "libc": "glibc 2.36",
    "libm": "58fc18e0",
    "cpu": "AMD EPYC",
    "python_version": "3.11.7",
    "thread_variables": STORED["threads"],
    "kernel_variables": "OPENBLAS_CORETYPE=Haswell",
    "os": "Linux 6.1",
}


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"thread_variables": "OMP_NUM_THREADS=1"},
        {"thread_variables": "OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=8"},
        {"kernel_variables": "OPENBLAS_CORETYPE=haswell"},
        {"os": "Linux 6.6"},
    ],
)
def test_a_fingerprint_that_is_stored_matches_its_machine(facts):
    assert STORED in former_descriptions(TODAY | facts)
    assert STORED_FINGERPRINT in former_fingerprints(TODAY | facts)


@pytest.mark.parametrize(
    "facts",
    [
        {"threads": "2", "thread_variables": "OMP_NUM_THREADS=2"},
        {"kernels": "OpenBLAS 0.3.31.188.0 Zen", "kernel_variables": ""},
        {"cpu_features": "X86_V2 X86_V3"},
        {"numpy": "2.5.0"},
        {"cpu": "Xeon"},
        {"torch": "2.13.0"},
        {"kernels": "OpenBLAS 0.3.31.188.0 Haswell MKL_CBWR=AVX2", "kernel_variables": "MKL_CBWR=AVX2"},
    ],
)
def test_a_fingerprint_that_is_stored_matches_no_other_machine(facts):
    assert STORED_FINGERPRINT not in former_fingerprints(TODAY | facts)


# A copy of the scheme of version 0.1.0, without torch.
FORMER_SCHEME = """
import hashlib, os, platform, re
from precreg.environment.machine import _blas, _cpu_features, _libc, detect_environment, limit_blas_threads
limit_blas_threads()
import numpy as np
found = re.search(r"^(?:model name|CPU part)\\s*:\\s*(.+)$", open("/proc/cpuinfo").read(4096), re.MULTILINE)
texts = lambda names: " ".join(f"{name}={os.environ[name]}" for name in names if name in os.environ)
limits = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
facts = {
    "python": platform.python_version(), "numpy": np.__version__, "blas": _blas(), "cpu": found[1],
    "cpu_features": _cpu_features(), "libc": _libc(), "threads": texts(limits) or f"all of {os.cpu_count()} cores",
}
if kernels := texts(("OPENBLAS_CORETYPE", "MKL_CBWR")):
    facts["kernels"] = kernels
fingerprint = hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:8]
print(fingerprint in detect_environment().former)
"""


@pytest.mark.skipif(platform.system() != "Linux", reason="the copy reads /proc")
@pytest.mark.skipif(find_spec("torch") is not None, reason="the copy has no torch")
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OMP_NUM_THREADS": "1"},
        {"OMP_NUM_THREADS": "2"},
        {"OPENBLAS_CORETYPE": "Haswell"},
        {"OPENBLAS_NUM_THREADS": "1", "OPENBLAS_CORETYPE": "Prescott", "MKL_CBWR": "AVX2"},
    ],
)
def test_the_former_fingerprint_of_this_machine_is_known(variables):
    inherited = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    command = [sys.executable, "-c", FORMER_SCHEME]
    done = subprocess.run(command, env=inherited | variables, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
