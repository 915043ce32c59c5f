"""What a subject is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct
from numpy.typing import NDArray

from precreg.arithmetic.devices.arithmetic import Arithmetic


class Call(Struct, frozen=True):
    """The arguments of one computation, and where it belongs.

    `inputs` and `params` are the subject's own to change: whoever calls hands over copies. `directory` is the folder
    of the suite and `project` the root of the project, both absolute. `arithmetic` computes the operations on inputs;
    None leaves them to numpy.
    """

    inputs: dict[str, NDArray[Any]]
    params: dict[str, Any]
    directory: Path
    project: Path
    arithmetic: Arithmetic | None = None
