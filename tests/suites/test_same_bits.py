"""Kernels whose docstring promises the same bits on every CPU keep them where numpy may use no vector unit."""

import json

from precreg.suite.load import load
from tests.e2e.command import ROOT, copy_of, precreg

PROMISE = "same bits on every CPU"
FEATURES = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR AVX2 FMA3 X86_V3 X86_V4"


def promises(suite):
    """Tell whether the module of a suite's subject makes the promise."""
    if not isinstance(suite.file.subject, str):
        return False
    module = suite.file.subject.partition(":")[0].replace(".", "/")
    return PROMISE in " ".join((ROOT / suite.directory / f"{module}.py").read_text().split())


def test_promised_bits_are_kept_without_vector_units(tmp_path):
    suites = [suite.id for suite in load(ROOT) if promises(suite)]
    assert {"unit/sum", "unit/variance", "unit/matmul", "unit/apply_adam"} <= set(suites)
    project = copy_of(ROOT, tmp_path)
    chosen = [argument for suite in suites for argument in ("--suite", suite)]
    precreg(project, "run", *chosen, NPY_DISABLE_CPU_FEATURES=FEATURES, OPENBLAS_CORETYPE="Prescott")
    results = json.loads((project / "reports" / "record.json").read_text())["results"]
    assert {result["suite"] for result in results} == {suite.partition("/")[2] for suite in suites}
    other = [result["id"] for result in results if result["verdict"]["reason"] not in ("identical", "expected_failure")]
    assert other == []
