"""Which outputs does a case of the kind "training" have: the losses of a training, and the shares of lost figures?

The reference is the float64 twin, which starts from the same weights and sees the same batches. Its shares are zeros.
"""

from __future__ import annotations

from math import isfinite, log2
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from precreg.errors import UserError
from precreg.subject import (
    KIND_IMPORT,
    Call,
    Outputs,
    SurroundingsRestored,
    first_line,
    note_use,
    use_module_space,
    watch_import,
)
from precreg.training.advice.user_recipe import make_of_target, report_training
from precreg.training.kind import EXACT

if TYPE_CHECKING:
    from precreg.training.advice.rerun import Rerun, ShortRuns

# The prefixes of the outputs of a parameter. precreg/tolerance/monitored.py knows them, too.
LOST, UNDERFLOW, OVERFLOW = "lost.", "underflow.", "overflow."
_IMPORT = (KIND_IMPORT, "training")


def run_training_subject(spec: dict[str, Any], call: Call) -> Outputs:
    """Return the losses of a training by step, and its shares, in float32; for a reference in float64.

    Raises UserError: bad-value for a case with inputs, missing-function, bad-outputs, no-gradients, out-of-memory,
    model-failed.
    """
    if call.inputs:
        raise UserError(
            "bad-value",
            f"expected no inputs beside a training but got {', '.join(call.inputs)}",
            hint="remove inputs:, because the data of the training are its inputs",
        )
    with watch_import(_IMPORT):
        from precreg.subject.torch import settings_of
        from precreg.training.advice.rerun import ShortRuns
    note_use(_IMPORT)
    target = spec["training"]
    with SurroundingsRestored(), settings_of({}), use_module_space(call.directory, call.project):
        started = perf_counter_ns()
        runs = ShortRuns(make_of_target(target, call.directory, call.project), spec["steps"])
        with report_training(target, call.project):
            found = _outputs(runs, spec)
        return Outputs(found, (perf_counter_ns() - started) / 1e9)


def _outputs(runs: ShortRuns, spec: dict[str, Any]) -> dict[str, Any]:
    seed = spec["seed"]
    twin = _twin(runs, seed, spec["training"])
    if spec.get(EXACT):
        return _arrays(twin, dict.fromkeys(_shares(twin, twin), 0.0), np.float64)
    run = runs.run(seed)
    return _arrays(run, _shares(run, twin), np.float32)


def _twin(runs: ShortRuns, seed: int, target: str) -> Rerun:
    """Return the run in float64. Raises UserError: model-failed with the reason."""
    try:
        return runs.run(seed, is_wide=True)
    except UserError:
        raise
    # The user's code may refuse float64 with any exception. An unaltered run then has its own message.
    except Exception as error:
        runs.run(seed)
        raise UserError(
            "model-failed",
            f"expected the training of {target} to run in float64, as its reference, but it failed: "
            f"{first_line(error)}",
            hint="compute in the dtype of the weights: x = x.to(self.weight.dtype) in place of x.half()",
        ) from None


def _arrays(run: Rerun, shares: dict[str, float], dtype: type) -> dict[str, Any]:
    losses = [float("nan") if each is None else each for each in run.figures.losses]
    is_reference = dtype is np.float64
    first = run.scales[0]
    moved = [0.0 if is_reference else _binades(each, first) for each in run.scales]
    arrays = {"loss": losses, "scale": moved} | {name: [share] for name, share in shares.items()}
    return {name: np.asarray(values, dtype) for name, values in arrays.items()}


def _binades(scale: float, first: float) -> float:
    # A scaler that backs off for ever ends at zero.
    return log2(scale / first) if scale > 0.0 and isfinite(scale / first) else float("nan")


def _shares(run: Rerun, twin: Rerun) -> dict[str, float]:
    """Return the shares of a run by output.

    A run without any update has lost all of them. Zeros that the twin has, such as those of a ReLU, do not count.
    """
    counts, shares = run.counts, {"skipped": run.figures.skipped / run.figures.steps}
    for name in twin.counts.nonfinite_of:
        shares[f"{LOST}{name}"] = _share(counts.updates_of.get(name)) if counts.updates else 1.0
        zeros = _share(counts.zeros_of.get(name)) - _share(twin.counts.zeros_of.get(name))
        shares[f"{UNDERFLOW}{name}"] = max(0.0, zeros)
        shares[f"{OVERFLOW}{name}"] = _share(counts.nonfinite_of.get(name))
    return shares


def _share(counts: list[int] | None) -> float:
    return counts[1] / counts[0] if counts and counts[0] else 0.0
