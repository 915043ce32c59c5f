"""benchmarks/quantization/fragile.py finds its planted layers; without planting, it reports that it does not."""

import re
import subprocess
import sys

from tests.e2e.command import PATIENCE_S, ROOT, environ

# The control leaves the planting out. Everything else is the code of the script.
CONTROL = """
import sys, torch
torch.set_num_threads(1)
sys.path.insert(0, "benchmarks/quantization")
import fragile
fragile.plant_transformer = lambda blocks: None
print(*fragile.report("gpt"), sep="\\n")
"""


def printed(*arguments):
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environ(PYTHONPATH=ROOT),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_planted_layers_of_a_decoder_are_first_and_second_by_both_methods():
    shown = printed("benchmarks/quantization/fragile.py", "gpt")
    assert "planted layers first and second by first order: True" in shown
    assert "planted layers first and second by alone: True" in shown
    assert float(re.search(r"Spearman first order to alone (\S+)", shown)[1]) > 0.98
    assert float(re.search(r"difference to a direct computation, 4 layers: (\S+)", shown)[1]) < 1e-6


def test_without_planted_faults_the_same_layers_are_not_the_first():
    shown = printed("-c", CONTROL)
    assert "planted layers first and second by first order: False" in shown
    assert "planted layers first and second by alone: False" in shown
