"""The limit of a container counts before the memory of the machine."""

from pathlib import Path

import pytest

from precreg.environment import usable_memory


@pytest.mark.parametrize("file", ["memory.max", "memory/memory.limit_in_bytes"])
def test_the_limit_of_a_container_counts(tmp_path, file):
    limit = tmp_path / "sys" / "fs" / "cgroup" / file
    limit.parent.mkdir(parents=True)
    limit.write_text("123456789\n")
    usable_memory.cache_clear()
    assert usable_memory(tmp_path) == 123456789


def test_no_limit_leaves_the_memory_of_the_machine(tmp_path):
    (tmp_path / "sys" / "fs" / "cgroup").mkdir(parents=True)
    (tmp_path / "sys" / "fs" / "cgroup" / "memory.max").write_text("max\n")
    lines = Path("/proc/meminfo").read_text().splitlines()
    total = next(line for line in lines if line.startswith("MemTotal:"))
    usable_memory.cache_clear()
    assert usable_memory(tmp_path) == int(total.split()[1]) * 1024
