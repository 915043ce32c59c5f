"""The environment of these tests has all extras, in the versions of constraints.txt."""

import re
from importlib.metadata import requires, version

import pytest
from packaging.requirements import Requirement

from tests.e2e.command import ROOT

EXTRAS = ("torch", "onnx", "parquet", "stores", "dask")
CONSTRAINTS = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))


def packages():
    """Return the packages of the extras, as precreg's own metadata name them."""
    needed = map(Requirement, requires("precreg"))
    return sorted(
        each.name
        for each in needed
        if each.marker is not None and any(each.marker.evaluate({"extra": extra}) for extra in EXTRAS)
    )


def test_the_extras_name_the_packages():
    names = ["distributed", "fsspec", "gcsfs", "onnx", "onnxruntime", "pyarrow", "s3fs", "safetensors", "torch"]
    assert packages() == names


@pytest.mark.parametrize("package", packages())
def test_a_package_has_the_tested_version(package):
    # A local version such as 2.13.0+cpu is the same release.
    assert version(package).partition("+")[0] == CONSTRAINTS[package]
