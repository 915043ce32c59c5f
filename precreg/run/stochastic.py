"""Which outputs does a subject give under random noise, sample after sample?

A sample is one more run of the subject, whose operations round at random or whose inputs have moved last bits. Its
random numbers follow from the case's definition, the seed of the inputs and the number of the sample alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec.structs import replace

from precreg.errors import UserError
from precreg.measure import add_digits, has_digits
from precreg.subject import Call
from precreg.suite.inputs import has_last_bits, move_last_bits
from precreg.types import Case, Comparison, Stochastic

if TYPE_CHECKING:
    from precreg.run.computation import Arrays


def draw_samples(case: Case, seed: int, call: Call, actual: Arrays, run: Callable[[Call], Arrays]) -> list[Arrays]:
    """Return the outputs of each sample of a case at one seed; none without `stochastic:`.

    `actual` has the outputs without noise, and `run` gives those of a call. Raises UserError: idle-noise if the noise
    meets nothing of the subject, bad-outputs for a sample with other outputs.
    """
    if case.stochastic is None:
        return []
    if not any(has_digits(array.dtype) for array in actual.values()):
        given = ", ".join(f"{name}: {array.dtype.name}" for name, array in actual.items()) or "none"
        raise UserError("idle-noise", f"expected an output of real floating-point numbers but got {given}")
    noisy = _moved_calls if case.stochastic.noise == "inputs" else _rounded_calls
    samples = []
    for number, draw in enumerate(noisy(case, case.stochastic, seed, call, run), 1):
        _require_same_outputs(actual, draw, number)
        samples.append(draw)
    return samples


def _moved_calls(
    case: Case, settings: Stochastic, seed: int, call: Call, run: Callable[[Call], Arrays]
) -> Iterator[Arrays]:
    movable = [name for name, spec in case.inputs.items() if has_last_bits(spec) and call.inputs[name].any()]
    if not movable:
        given = ", ".join(case.inputs) or "none"
        message = f"expected an input whose last bits may move (normal, uniform, file, ...) but got inputs={given}"
        raise UserError("idle-noise", message)
    for number in range(settings.samples):
        moved = {name: move_last_bits(call.inputs[name], name, seed, number) for name in movable}
        yield run(replace(call, inputs={**call.inputs, **moved}))


def _rounded_calls(
    case: Case, settings: Stochastic, seed: int, call: Call, run: Callable[[Call], Arrays]
) -> Iterator[Arrays]:
    # Only a case with samples loads the simulator of devices (tests/run/test_main_road.py).
    from precreg.arithmetic.devices import NumpyArithmetic, WatchedArithmetic
    from precreg.arithmetic.faults import RandomRounding

    for number in range(settings.samples):
        rounding = RandomRounding(call.arithmetic or NumpyArithmetic(), sample_seed(case.definition, seed, number))
        watched = WatchedArithmetic(rounding)
        outputs = run(replace(call, arithmetic=watched))
        if not watched.has_computed:
            message = "expected floating-point operations on the inputs but random rounding met none of the subject"
            raise UserError("idle-noise", f"{message}; torch, math and numpy.asarray(x) leave it")
        yield outputs


def sample_seed(definition: str, seed: int, number: int) -> int:
    """Return the 64-bit seed of the random numbers of one sample."""
    return int.from_bytes(sha256(f"{definition} {seed} {number}".encode()).digest()[:8], "big")


def _require_same_outputs(actual: Arrays, sample: Arrays, number: int) -> None:
    """Refuse a sample without an output, or with one of another shape or dtype: its elements have no counterparts."""
    for name, array in actual.items():
        drawn = sample.get(name)
        if drawn is None or (drawn.shape, drawn.dtype) != (array.shape, array.dtype):
            found = "none" if drawn is None else f"{drawn.dtype.name} of shape {list(drawn.shape)}"
            wanted = f"{array.dtype.name} of shape {list(array.shape)}"
            message = f"expected every sample to give {name} as {wanted} but sample {number} gave {found}"
            raise UserError("bad-outputs", message)


def add_sample_digits(
    case: Case, comparisons: Sequence[Comparison], actual: Arrays, samples: Sequence[Arrays], oracle: Arrays
) -> list[Comparison]:
    """Add the significant digits of each output to its comparison; without samples, return the comparisons."""
    if case.stochastic is None:
        return [*comparisons]
    return [
        add_digits(
            each,
            actual[each.output],
            [sample[each.output] for sample in samples],
            oracle[each.output],
            case.stochastic,
        )
        # A run of a nondeterministic case may lack an output, which fails the case.
        if each.output in actual
        else each
        for each in comparisons
    ]
