"""Which model, optimizer, data and loss make a training, as a user's function returns them?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from precreg.errors import UserError, nearest

_REQUIRED = ("model", "optimizer", "data", "loss")


@dataclass
class Recipe:
    """A training: precreg owns the loop that runs it, unless `step` is the user's own step.

    `data` gives (inputs, target) batches, and `loss` takes (output, target). An update takes `accumulate` batches.
    """

    model: Any
    optimizer: Any
    data: Iterable[Any]
    loss: Callable[[Any, Any], Any]
    scaler: Any = None
    # The norm to which gradients are clipped.
    clip: float | None = None
    # The dtype of autocast, such as "float16".
    autocast: str | None = None
    accumulate: int = 1
    step: Callable[[Recipe, Any], Any] | None = None


def read_recipe(made: object, target: str) -> Recipe:
    """Return the recipe that a user's function returned: a tuple, a dict, or an object with these attributes.

    Raises UserError: bad-outputs for a missing or unknown member.
    """
    names = [field.name for field in fields(Recipe)]
    hint = "return the members: return dict(model=model, optimizer=optimizer, data=batches, loss=loss)"
    if isinstance(made, tuple) and not hasattr(made, "_fields"):
        if len(made) != len(_REQUIRED):
            raise UserError(
                "bad-outputs",
                f"expected {target} to return (model, optimizer, data, loss) but got {len(made)} values",
                hint=hint,
            )
        found: dict[str, Any] = dict(zip(_REQUIRED, made, strict=True))
    elif isinstance(made, Mapping):
        found = dict(made)
    else:
        found = {name: getattr(made, name) for name in names if hasattr(made, name)}
    missing = [name for name in _REQUIRED if name not in found]
    unknown = [str(name) for name in found if name not in names]
    if missing or unknown:
        lacks = f"it lacks {', '.join(missing)}" if missing else ""
        # A member that lacks is the likely meaning of a name that is not known.
        near = nearest(unknown[0], missing or names) if unknown else ""
        has = f"it has {', '.join(unknown)}, which no training has{near}" if unknown else ""
        got = "; ".join(filter(None, (lacks, has)))
        if not missing:
            hint = f"leave {unknown[0]} out; optional members are {', '.join(names[len(_REQUIRED) :])}"
        raise UserError("bad-outputs", f"expected {target} to return a training but {got}", hint=hint)
    return Recipe(**found)
