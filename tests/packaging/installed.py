"""An installed precreg: its environment, and the backends that `precreg doctor` reports."""

import json
import subprocess
import sys

# The findings of doctor: of each core, and of the arithmetic or measuring that it serves.
CORES = ("core", "arithmetic core")
BACKENDS = ("measuring", "arithmetic")


def bare_environment(folder):
    """Make a virtual environment with nothing but pip, and return its folder of commands."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin"


def doctor(command, folder, variables):
    """Run `precreg doctor` in a folder, and return each finding by its name."""
    shown = subprocess.run(
        [*command, "doctor", "--json"], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return {finding["name"]: finding["says"] for finding in json.loads(shown.stdout)}


def assert_native(found, place):
    """Check that the cores in a folder serve."""
    assert all(str(place) in found[core] for core in CORES), found
    assert all(found[backend].startswith("the backend native gives") for backend in BACKENDS), found


def assert_numpy(found):
    """Check that there are no cores and that numpy serves."""
    assert all(found[core] == "not built: no C++ compiler was there when precreg was installed" for core in CORES)
    assert all(found[backend].startswith("the backend numpy gives") for backend in BACKENDS), found
