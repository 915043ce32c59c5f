"""The demonstration of a cluster ends with equal results, a lost worker, another environment and a refused one."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.command import PATIENCE_S, environ

ROOT = Path(__file__).resolve().parents[3]


def test_the_demonstration_shows_each_kind_of_worker():
    command = [sys.executable, "benchmarks/cluster_demo.py"]
    ran = subprocess.run(command, cwd=ROOT, env=environ(), capture_output=True, text=True, timeout=PATIENCE_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = {line.split()[0]: line for line in ran.stdout.splitlines()}
    assert lines["alpha"].endswith(", lost")
    assert lines["beta"].endswith(" as here")
    assert "numpy 2.2.6" in lines["numpy"]
    assert "refused: precreg 0.0.1" in lines["old"]
    assert lines["verdicts:"] == "verdicts: {'passed': 40}"
