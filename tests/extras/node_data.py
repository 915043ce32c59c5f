"""The backend tests in the wheel of onnx 1.17.0, read as data: later wheels have none."""

import fcntl
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

VERSION = "1.17.0"
# Beside the virtual environments, so that one download serves all runs. Git ignores the folder.
CACHE = Path(__file__).parents[2] / "build" / f"onnx-{VERSION}"
NODE_TESTS = 1288


@cache
def node_tests():
    """Return the folder of the node tests; the first call downloads the wheel."""
    folder = CACHE / "onnx/backend/test/data/node"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (CACHE / "complete").exists():
            wheel = [f"onnx=={VERSION}", "--no-deps", "--only-binary", ":all:", "--dest", str(CACHE)]
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *wheel], check=True)
            (path,) = CACHE.glob("onnx-*.whl")
            with zipfile.ZipFile(path) as archive:
                members = [name for name in archive.namelist() if name.startswith("onnx/backend/test/data/node/")]
                archive.extractall(CACHE, members)
            path.unlink()
            (CACHE / "complete").touch()
    return folder
