import sys

import pytest

from precreg.run.computation import missing_requirement
from precreg.subject.module_space import enter_module_space, leave_module_space

CHAIN = ("npu-910b", "npu", "generic")


@pytest.mark.parametrize(
    "requirement",
    ["numpy", "numpy>=1.26", "msgspec>=0.18,<1000", "decimal", "pyyaml", "device:npu", "device:npu-910b", "memory:1MB"],
)
def test_what_is_there(requirement):
    assert missing_requirement(requirement, CHAIN) is None


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("numpy>=1000", "is installed"),
        ("no_such_library", "needs no_such_library, which is not installed"),
        ("_no_such_module", "needs _no_such_module, which is not installed"),
        ("no-such-library>=2", "no-such-library is not installed"),
        ("device:mlu", "needs the device mlu, but the environment is npu-910b"),
        ("memory:4000TB", "needs 4000 TB of memory, but this machine has "),
    ],
)
def test_what_is_missing_is_named(requirement, said):
    assert said in missing_requirement(requirement, CHAIN)


def test_nothing_is_imported_to_find_out():
    assert "this" not in sys.modules
    assert missing_requirement("this", CHAIN) is None
    assert "this" not in sys.modules


def test_a_module_of_the_project_meets_nothing_whatever_ran_before(tmp_path):
    (tmp_path / "beside_the_suite.py").touch()
    enter_module_space(tmp_path, tmp_path)
    try:
        import beside_the_suite  # noqa: F401

        missing_requirement.cache_clear()
        assert missing_requirement("beside_the_suite", CHAIN) == "needs beside_the_suite, which is not installed"
    finally:
        sys.modules.pop("beside_the_suite", None)
        leave_module_space()
