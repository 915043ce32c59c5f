"""A project whose one subject is as coarse as a file says, read at every call: another code, without changing any."""

from click.testing import CliRunner

from precreg.cli.main import precreg
from tests.e2e.command import OUTSIDE

KERNELS = '''\
from pathlib import Path

import numpy as np


def coarse(x):
    """As exact as the file says, with errors that are as large as `scale` for every element."""
    scale = float(Path(__file__).with_name("scale").read_text())
    wide = x.astype(np.float64)
    return (np.sin(wide) * (1 + scale * 1e-4 * np.cos(1e4 * wide))).astype(x.dtype)


def unsteady(x):
    """Never twice the same bits, and always about as coarse."""
    return coarse(x + np.spacing(x) * np.random.default_rng().integers(-9, 10, x.shape).astype(x.dtype))


def exact(x):
    return np.sin(x)
'''
SUITE = """\
suite: {name}
subject: k:{subject}
reference: k:exact
matrix: {{n: [64, 65]}}
inputs: {{x: {{shape: [64, $n], dtype: float32, normal: {{mean: 0, std: 1}}}}}}
seeds: 3
tolerance: {{rtol: 1e-2, atol: 1e-2}}
"""
A, B = "unit/s/n=64", "unit/s/n=65"


class Project:
    """The project in a folder; `run` is the command in this process, and `scale` is what the kernel reads."""

    def __init__(self, folder, subject="coarse", name="s"):
        self.folder = folder
        place = folder / "suites" / "unit"
        place.mkdir(parents=True, exist_ok=True)
        (place / "k.py").write_text(KERNELS)
        (place / f"{name}.yaml").write_text(SUITE.format(name=name, subject=subject))
        self.scale(1.0)

    def scale(self, value):
        (self.folder / "suites" / "unit" / "scale").write_text(repr(value))

    def run(self, *arguments, **variables):
        """Run `precreg ARGUMENTS` in this process, as in a developer's shell, and return click's result."""
        given = ["--project", str(self.folder), *map(str, arguments)]
        # Causes are searched where a test is about them: each of the first failures would cost seconds.
        env = {**dict.fromkeys(OUTSIDE), "PRECREG_DIAGNOSE": "0", **variables}
        done = CliRunner(env=env).invoke(precreg, given)
        if done.exception is not None and not isinstance(done.exception, SystemExit | KeyboardInterrupt):
            raise done.exception
        return done

    def accepted(self, scale, reason, *arguments):
        """Run at a scale, and accept everything; return what accepting printed."""
        self.scale(scale)
        self.run("run", "--jobs", "0", "--output", self.folder / "reports")
        done = self.run("baseline", "accept", "--all", "--reason", reason, *arguments)
        assert done.exit_code == 0, done.output
        return done.output

    def proposed(self, scale):
        """Run at a scale, and leave what it proposes."""
        self.scale(scale)
        return self.run("run", "--jobs", "0", "--output", self.folder / "reports")
