"""Cases of small projects for the tests of searches."""

from precreg.diagnose.worst_inputs.evaluation import CaseEvaluator
from precreg.diagnose.worst_inputs.search import SearchSettings, search_case
from precreg.suite.expand import load_cases

SUITE = """\
suite: s
subject: {module}:subject
reference: {module}:exact
inputs:
"""

# Each test has a module of its own, because Python keeps a loaded module.
_NUMBER = iter(range(10_000))


def case_of(folder, kernels, **inputs):
    """Write a project of one case, and return the case. Inputs are texts such as "{shape: [4], ...}"."""
    place = folder / "suites" / "unit"
    place.mkdir(parents=True, exist_ok=True)
    module = f"searched_{next(_NUMBER)}"
    (place / f"{module}.py").write_text(f"import numpy as np\n\n\n{kernels}")
    lines = "".join(f"  {name}: {text}\n" for name, text in inputs.items())
    (place / "s.yaml").write_text(SUITE.format(module=module) + lines)
    return load_cases(folder)[0]


def found(folder, kernels, trials=20_000, metric="max_ulp", ranges=None, seed=0, **inputs):
    """Search a case of these kernels with a number of trials."""
    case = case_of(folder, kernels, **inputs)
    return search_case(case, folder, SearchSettings(metric, trials=trials, ranges=ranges or {}, seed=seed))


def evaluator(folder, kernels, metric="max_ulp", **inputs):
    return CaseEvaluator(case_of(folder, kernels, **inputs), folder, metric, ("generic",))


def drawn(shape, dtype="float32", distribution="normal: {}"):
    return f"{{shape: {shape}, dtype: {dtype}, {distribution}}}"
