"""Write the recorded files: compile the kernel, run it on one input, and compute its reference.

With a device, run its program in place of the kernel that is compiled here.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent
RECORDED = ROOT / "suites" / "unit" / "recorded"
SHAPE, EPS = (8, 256), 1e-5

sys.path.append(str(RECORDED.parent))
from exact import layer_norm  # noqa: E402

x = np.random.default_rng(0).uniform(2, 6, SHAPE).astype("<f4")
layer_norm(x, EPS)["y"].astype("<f8").tofile(RECORDED / "rows.exact.bin")
with tempfile.TemporaryDirectory() as folder:
    program, inputs = f"{folder}/layer_norm", f"{folder}/x.bin"
    subprocess.run(
        ["cc", "-O2", "-ffp-contract=off", ROOT / "kernel" / "layer_norm.c", "-lm", "-o", program], check=True
    )
    x.tofile(inputs)
    subprocess.run([program, str(SHAPE[1]), str(EPS), inputs, RECORDED / "rows.device.bin"], check=True)
