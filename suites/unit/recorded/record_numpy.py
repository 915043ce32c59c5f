"""Record float32 arctan2 of two released versions of numpy, and the correctly rounded answer beside them.

    python suites/unit/recorded/record_numpy.py

needs Python 3.11, mpmath, and a package index for pip; each version is installed into an environment in a temporary
folder, which is deleted afterwards. It writes under arctan2/, beside this file: inputs/NAME.npy (2, 4096) float32, the
rows y and x; outputs/VERSION/NAME.npy float32; golden/NAME.npy float64, rounded once from 200 bits; metadata.json.

numpy 1.24 computes arctan2 with a vector library where the processor has AVX-512, and one element at a time before:
on other processors the two versions give the same bits, so the script refuses to record there.
"""

import json
import platform
import subprocess
import tempfile
import venv
from datetime import UTC, datetime
from pathlib import Path

import mpmath
import numpy as np
import numpy.typing as npt

VERSIONS = ("1.23.5", "1.24.4")
COUNT = 4096
FOLDER = Path(__file__).parent / "arctan2"
RECORD_ONE = """
import sys
from pathlib import Path
import numpy
if not numpy.core._multiarray_umath.__cpu_features__["AVX512_SKX"]:
    sys.exit("expected a processor with AVX-512 (AVX512_SKX) but this one has none: both versions would agree")
folder = Path(sys.argv[1])
for path in sorted((folder / "inputs").glob("*.npy")):
    y, x = numpy.load(path)
    target = folder / "outputs" / numpy.__version__ / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    numpy.save(target, numpy.arctan2(y, x))
"""


def main() -> None:
    """Write inputs, answers, each version's outputs, and where they come from."""
    for name, points in inputs().items():
        save(FOLDER / "inputs" / f"{name}.npy", points)
        save(FOLDER / "golden" / f"{name}.npy", correctly_rounded(*points))
    for version in VERSIONS:
        record(version)
    metadata = {
        "function": "numpy.arctan2(y, x), float32",
        "versions": list(VERSIONS),
        "golden": "mpmath.atan2 at 200 bits, rounded once to float64",
        "mpmath": mpmath.__version__,
        "command": "python suites/unit/recorded/record_numpy.py",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": processor(),
        "date": datetime.now(UTC).date().isoformat(),
    }
    (FOLDER / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n")


def inputs() -> dict[str, npt.NDArray[np.float32]]:
    """Give points (y, x) by name, made from raw bits by exact arithmetic.

    unit_square: both of [-1, 1). wide_range: both +-[1, 2) 2^k, k of -20..20. near_axis: y as in unit_square but
    2^-12 smaller than x.
    """
    raw = np.random.Philox(key=2024).random_raw(3 * 2 * COUNT).reshape(3, 2, COUNT)
    uniform = ((raw >> 40).astype(np.int64) - 2**23).astype(np.float32) * np.float32(2.0**-23)
    significand = 1 + (raw >> 41).astype(np.float32) * np.float32(2.0**-23)
    exponent = ((raw & 0xFFFF) % 41).astype(np.int64) - 20
    sign = np.where(raw & 0x10000, np.float32(-1), np.float32(1))
    near = uniform[2] * np.float32([[2.0**-12], [1.0]])
    return {"unit_square": uniform[0], "wide_range": (sign * np.ldexp(significand, exponent))[1], "near_axis": near}


def correctly_rounded(y: npt.NDArray[np.float32], x: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Give arctan2(y, x), rounded once to float64."""
    with mpmath.workprec(200):
        return np.array([float(mpmath.atan2(float(b), float(a))) for b, a in zip(y, x, strict=True)])


def record(version: str) -> None:
    """Install that version of numpy in an environment of its own and let it compute every input."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"numpy=={version}"], check=True)
        subprocess.run([python, "-c", RECORD_ONE, str(FOLDER)], check=True)


def save(path: Path, array: npt.NDArray) -> None:
    """Write an array and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)


def processor() -> str:
    """Name the processor as Linux does, or as Python does elsewhere."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
