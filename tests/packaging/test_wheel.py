"""The wheel serves every Python from 3.11 on, and installs where there is no compiler."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

from tests.e2e.command import ROOT
from tests.packaging.installed import assert_native, bare_environment, doctor


def test_one_wheel_serves_every_later_python_and_many_systems(wheel):
    tags = parse_wheel_filename(wheel.name)[3]
    assert {(tag.interpreter, tag.abi) for tag in tags} == {("cp311", "abi3")}
    system = {"linux": "manylinux_", "darwin": "macosx_"}[sys.platform]
    assert all(tag.platform.startswith(system) for tag in tags)


def test_auditwheel_had_to_bundle_no_library(wheel):
    folders = {Path(name).parts[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"precreg"}


def test_the_wheel_installs_without_a_compiler_and_its_cores_serve(wheel, no_compiler, tmp_path):
    commands = bare_environment(tmp_path / "bare")
    variables = {**no_compiler, "CC": "/bin/false", "CXX": "/bin/false"}
    pip = [commands / "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    subprocess.run([*pip, "-c", ROOT / "constraints.txt", wheel], env=variables, check=True)
    assert_native(doctor([commands / "precreg"], tmp_path, variables), tmp_path / "bare")


TARGETS = {
    ("linux", "x86_64"): {"cp311-manylinux_x86_64"},
    ("linux", "aarch64"): {"cp311-manylinux_aarch64"},
    ("macos", ""): {"cp311-macosx_x86_64", "cp311-macosx_arm64"},
}


@pytest.mark.parametrize(("system", "processor"), TARGETS)
def test_the_pipeline_of_a_tag_builds_one_wheel_for_each_target(system, processor):
    command = [Path(sys.executable).with_name("cibuildwheel"), "--platform", system, "--print-build-identifiers"]
    if processor:
        command += ["--archs", processor]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(shown.stdout.split()) == TARGETS[system, processor]


def test_the_sdist_has_neither_tests_nor_projects_to_copy(sdist):
    with tarfile.open(sdist) as archive:
        folders = {Path(name).parts[1] for name in archive.getnames() if len(Path(name).parts) > 2}
    assert folders == {"precreg", "precreg.egg-info"}
