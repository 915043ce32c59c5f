"""A plain run loads neither planted faults nor simulated devices, in the command's process and in its worker."""

import subprocess
import sys

import pytest

from tests.e2e.command import environ, with_suite

SELF_TESTS = ("precreg.quality", "precreg.arithmetic.faults")
DEVICES = "precreg.arithmetic.devices"
# Two seeds: the second run of the subject sees all that measuring the first has loaded.
SUITE = """suite: s
subject: k:listed
reference: k:same
inputs: {{x: {{shape: [8], dtype: float32, normal: {{}}}}}}
seeds: 2
{more}"""
KERNEL = """import os
import sys


def listed(x):
    with open(os.environ["LOADED"] + str(os.getpid()), "w") as file:
        file.write(" ".join(sys.modules))
    return x


def same(x):
    return x
"""
COMMAND = """import atexit, os, sys
from pathlib import Path

def write():
    Path(os.environ["LOADED"] + "command").write_text(" ".join(sys.modules))

atexit.register(write)
from precreg.__main__ import main
main()
"""


@pytest.fixture
def loaded(tmp_path):
    """Return a function that runs the command, and gives the modules that each of its processes loaded."""

    def run(*arguments, more=""):
        project = with_suite(tmp_path / "project", SUITE.format(more=more), KERNEL)
        (tmp_path / "loaded").mkdir()
        variables = environ(LOADED=f"{tmp_path}/loaded/")
        command = [sys.executable, "-c", COMMAND, *arguments]
        subprocess.run(command, cwd=project, env=variables, capture_output=True, timeout=120, check=False)
        return {path.name: path.read_text().split() for path in (tmp_path / "loaded").iterdir()}

    return run


def below(modules, *roots):
    return [name for name in modules if any(f"{name}.".startswith(f"{root}.") for root in roots)]


@pytest.mark.parametrize("jobs", ["0", "1"])
def test_a_plain_case_loads_neither_self_tests_nor_devices(loaded, jobs):
    found = loaded("run", "--jobs", jobs)
    assert len(found) == 2, "the command writes one list, and the subject writes one"
    for modules in found.values():
        assert below(modules, *SELF_TESTS, DEVICES) == []
    computing = found[next(name for name in found if name != "command")]
    assert below(computing, "precreg.run.case_run")


def test_a_case_on_a_device_loads_the_devices_alone(loaded):
    for modules in loaded("run", "--jobs", "1", more="device: cpu\n").values():
        assert below(modules, DEVICES)
        assert below(modules, *SELF_TESTS) == []


def test_workers_of_a_self_test_load_what_it_needs(loaded):
    found = loaded("calibrate", "--jobs", "1", "--replicates", "1")
    assert all(below(modules, "precreg.quality.variants") for modules in found.values())
