"""The fixture `precreg_capture`: calls of all tests of a session become one suite at its end."""

from tests.e2e.command import precreg, repository
from tests.pytest_plugin.session import pytest_

TESTS = """
import numpy as np
import layers
import kernels


def test_by_name(precreg_capture):
    precreg_capture("softmax", limit=5)
    layers.attend(np.ones((2, 3), np.float32))


def test_by_function(precreg_capture):
    precreg_capture(kernels.softmax)
    kernels.softmax(np.ones((2, 4), np.float32))


def test_without():
    kernels.softmax(np.ones((2, 5), np.float32))
    assert kernels.softmax is layers.softmax
    assert not hasattr(kernels.softmax, "__wrapped__")
"""
KERNELS = "def softmax(x):\n    return x * 2\n"
LAYERS = "from kernels import softmax\n\n\ndef attend(x):\n    return softmax(x)\n"


def test_calls_of_all_tests_become_one_suite(tmp_path):
    (tmp_path / "suites").mkdir()
    for name, text in {"test_k.py": TESTS, "kernels.py": KERNELS, "layers.py": LAYERS, "suites/.keep": ""}.items():
        (tmp_path / name).write_text(text)
    repository(tmp_path)
    done = pytest_(tmp_path)
    assert "3 passed" in done.stdout, done.stdout
    assert "kept 2 of 2 calls of kernels:softmax in suites/unit/softmax.yaml" in done.stderr + done.stdout
    listed = precreg(tmp_path, "list").stdout
    assert "unit/softmax/call0-float32-2x3\nunit/softmax/call1-float32-2x4\n" in listed
