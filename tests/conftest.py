"""What tests of several rooms need."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def unprivileged():
    """A folder of its own for a user whom permissions hold, which they do not hold root."""
    folder = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
        yield folder
        os.seteuid(0)
    else:
        yield folder
        folder.chmod(0o700)
    shutil.rmtree(folder)
