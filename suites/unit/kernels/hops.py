"""The way of an array from the host to a local buffer, with the value at each place as an output of its own.

Casts are rounded once by IEEE 754, so the outputs have the same bits on every CPU.
"""

import ml_dtypes
import numpy as np
import numpy.typing as npt

PLACES = ("host", "device_memory", "l1", "local_buffer")
NARROW = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def copied(x: npt.NDArray[np.float32], *, conversion: str) -> dict[str, npt.NDArray[np.float32]]:
    """Copy x from place to place, each of which holds float32.

    `conversion` is "none", or FORMAT_at_PLACE: the copy into that place passes through the format. What arrives is
    float32 again, and only its values tell.
    """
    format, _, converting = conversion.partition("_at_")
    places, values = {}, x
    for place in PLACES:
        values = values.astype(NARROW[format]).astype(np.float32) if place == converting else values.copy()
        places[place] = values
    return places


def unchanged(x: npt.NDArray[np.float32], *, conversion: str) -> dict[str, npt.NDArray[np.float32]]:
    """Give x at each place: moving data has one right answer. `conversion` is the subject's and means nothing here."""
    return dict.fromkeys(PLACES, x)
