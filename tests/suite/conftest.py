"""A project in a temporary folder, from a mapping of paths to texts."""

from pathlib import Path
from textwrap import dedent

import pytest

# They take any arguments: most suites of the tests have no inputs, or those of one line.
KERNELS = """\
import numpy as np

def naive(x=0, **others):
    return x

def exact(x=0, **others):
    return x
"""

SUITE = """\
suite: softmax
subject: kernels:naive
reference: kernels:exact
"""


@pytest.fixture
def write(tmp_path):
    """Return the function that writes files into the project and returns its folder."""

    def write(files=None, **suites):
        (tmp_path / "suites").mkdir(exist_ok=True)
        texts = {"suites/unit/kernels.py": KERNELS, **(files or {})}
        texts |= {f"suites/unit/{name}.yaml": text for name, text in suites.items()}
        for path, text in texts.items():
            target: Path = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
        return tmp_path

    return write
