import shutil
from pathlib import Path

import pytest

from precreg.types.case import Case, Computation, Layer, Location

SOURCE = Path(__file__).parent / "kernels.py"


@pytest.fixture
def project(tmp_path):
    """A project whose one suite's folder has the functions of kernels.py."""
    directory = tmp_path / "suites" / "unit"
    directory.mkdir(parents=True)
    shutil.copy(SOURCE, directory / "kernels.py")
    return tmp_path


def python(function):
    return Computation("python", f"kernels:{function}")


def case_of(subject="double", reference="double_exactly", name="case", dtype="float32", **fields):
    """Make a case on one input x of 16 numbers; `fields` are those of Case."""
    source = Location("suites/unit/s.yaml", 1)
    known = {
        "id": f"unit/s/{name}",
        "tier": "unit",
        "suite": "s",
        "name": name,
        "source": source,
        "definition": f"1:{name}",
        "baseline_id": f"unit/s/{name}",
        "baseline_definition": f"1:{name}",
        "directory": "suites/unit",
        "subject": python(subject),
        "oracle": python(reference),
        "role": "reference",
        "inputs": {"x": {"shape": [16], "dtype": dtype, "normal": {"mean": 0, "std": 1}}},
        "params": {},
        "parameters": {},
        "layers": (Layer("suite", source, {"rtol": 1e-3, "atol": 1e-5}),),
    }
    return Case(**known | fields)


@pytest.fixture
def case():
    return case_of
