"""Accelerators are found by the files and tools of their vendors, whose formats these texts have."""

import stat

import pytest

from precreg.environment import accelerators
from precreg.environment.accelerators import find_accelerators, with_accelerators
from precreg.types import Environment

INFORMATION = """\
Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 18
GPU UUID: \t GPU-00000000-0000-0000-0000-000000000000
Bus Type: \t PCIe
"""
VERSIONS = [
    ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n", "535.104.05"),
    ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (a@b)  Tue\n", "570.124.06"),
    ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  384.81  Wed Aug 17 22:24:07 PDT 2016\n", "384.81"),
]
NPU_SMI = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.1                   Version: 24.1.1                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B4               | OK            | 88.2        30                0    / 0             |
| 0     0                   | 0000:C1:00.0  | 0           0    / 0          26838/ 32768         |
+===========================+===============+====================================================+
| 1     910B4               | OK            | 87.0        30                0    / 0             |
| 0     1                   | 0000:C2:00.0  | 0           0    / 0          29356/ 32768         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 4321          | python                   | 26838                   |
+===========================+===============+====================================================+
"""
CANN = """\
package_name=Ascend-cann-toolkit
version=8.0.RC1
innerversion=V100R001C17SPC001B215
arch=aarch64
os=linux
"""
CNMON = """\
Card 0
    Product Name                   : MLU370-X8
    Firmware                       : v1.1.6
    Driver                         : v5.10.26
    Compute Mode                   : Default
"""


@pytest.fixture
def machine(tmp_path):
    """Return a function that writes files and tools of a machine, and returns the accelerators found on it."""
    root, tools = tmp_path / "root", tmp_path / "bin"
    tools.mkdir()

    def machine(files=None, variables=None, **scripts):
        for path, text in (files or {}).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        for name, script in scripts.items():
            tool = tools / name.replace("_", "-")
            tool.write_text(f"#!/bin/sh\n{script}")
            tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        found = find_accelerators(root, {"PATH": f"{tools}:/bin:/usr/bin", **(variables or {})})
        return [str(each) for each in found]

    return machine


def printing(text):
    return f"cat <<'END'\n{text}END\n"


def test_a_machine_without_files_and_tools_has_none(machine):
    assert machine() == []


@pytest.mark.parametrize(("line", "driver"), VERSIONS)
def test_the_driver_of_nvidia_describes_its_gpus(machine, line, driver):
    proc = "proc/driver/nvidia"
    gpus = {f"{proc}/gpus/0000:{bus}:00.0/information": INFORMATION for bus in ("01", "41")}
    toolkit = {"usr/local/cuda/version.json": '{"cuda" : {"name" : "CUDA SDK", "version" : "12.4.1"}}'}
    found = machine({f"{proc}/version": line, **gpus, **toolkit})
    assert found == [f"2 cuda NVIDIA H100 80GB HBM3 (driver {driver}, CUDA 12.4.1)"]


def test_a_container_without_these_files_asks_nvidia_smi(machine):
    script = '[ "$1" = --query-gpu=name,driver_version ] && echo "NVIDIA A100-SXM4-40GB, 550.54.15"'
    assert machine(nvidia_smi=script) == ["1 cuda NVIDIA A100-SXM4-40GB (driver 550.54.15)"]


def test_npu_smi_lists_a_row_for_each_device_and_one_for_each_chip(machine, tmp_path):
    home = "opt/cann"
    found = machine(
        {f"{home}/aarch64-linux/ascend_toolkit_install.info": CANN},
        {"ASCEND_HOME_PATH": str(tmp_path / "root" / home)},
        npu_smi='[ "$1" = info ] || exit 1\n' + printing(NPU_SMI),
    )
    assert found == ["2 npu Ascend910B4 (driver 24.1.1, CANN 8.0.RC1)"]


def test_the_name_of_an_npu_may_have_the_prefix_already(machine):
    table = NPU_SMI.replace("910B4    ", "Ascend910")
    assert machine(npu_smi=printing(table)) == ["2 npu Ascend910 (driver 24.1.1)"]


def test_cnmon_describes_a_card_by_lines(machine):
    found = machine({"usr/local/neuware/version.txt": "Neuware Version 3.9.0\n"}, cnmon=printing(CNMON + CNMON))
    assert found == ["2 mlu MLU370-X8 (driver 5.10.26, CNToolkit 3.9.0)"]


def test_a_tool_that_fails_finds_nothing(machine):
    assert machine(nvidia_smi="echo NVIDIA-SMI has failed; exit 9", npu_smi="exit 1", cnmon="kill -9 $$") == []


def test_a_tool_that_hangs_is_left_alone(machine, monkeypatch):
    monkeypatch.setattr(accelerators, "TOOL_TIMEOUT_S", 0.2)
    assert machine(nvidia_smi="exec sleep 3600") == []


def test_the_accelerators_of_a_machine_leave_its_fingerprint(machine, monkeypatch):
    here = Environment("cpu-x86_64", ("cpu-x86_64", "cpu", "generic"), "aaaaaaaa", {"numpy": "2"})
    assert with_accelerators(here).decisive == here.decisive
    monkeypatch.setattr(accelerators, "find_accelerators", lambda: (accelerators.Accelerator("mlu", "MLU370", 1, {}),))
    there = with_accelerators(here)
    assert there.facts["about_accelerators"] == "1 mlu MLU370"
    assert (there.decisive, there.fingerprint) == (here.decisive, here.fingerprint)
