"""The kind "files": outputs that were recorded earlier, read from the project."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from precreg.storage.npy import read_array
from precreg.storage.npz import read_arrays
from precreg.storage.paths import inside
from precreg.subject.call import Call
from precreg.subject.outputs import Outputs, require_numeric

EVERY_MEMBER = "*"


def run(spec: dict[str, str], call: Call) -> Outputs:
    """Read each output's .npy file; the name "*" stands for every member of an .npz file.

    Paths are relative to the project. A file that is not there gives no output, which is a fact about the recording
    and no mistake. Raises UserError (bad-array-file, outside-project). The duration is 0.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for output, name in spec.items():
        path = inside(call.project, name)
        if not path.exists():
            continue
        arrays |= read_arrays(path, name) if output == EVERY_MEMBER else {output: read_array(path, name)}
    return Outputs({output: require_numeric(output, array) for output, array in arrays.items()}, 0.0)
