"""Drawing an input: from a specification, a name and a seed to an array, bit-identical everywhere.

Numbers are made in float64 and rounded once to the dtype. Work goes through blocks that stay in the cache; since
one word makes one number, the bits do not depend on the blocks.

Inputs moved in their last bits: what an operator makes of others that are as good as those it was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from os.path import relpath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic import COMPLEX_PARTS, cast, format_of, numpy_dtype
from precreg.errors import UserError
from precreg.storage import array_digest, read_npy, read_npz, resolve_inside
from precreg.suite.inputs.distributions import (
    RandomWords,
    Words,
    draw_integers,
    draw_log_uniform,
    draw_normal,
    draw_uniform,
    ill_conditioned_rows,
    unit_fraction,
    word_stream,
    words_per_row,
)
from precreg.suite.inputs.options import (
    Constant,
    DistributionOptions,
    File,
    IllConditionedSum,
    Integers,
    LegacyNormal,
    LogUniform,
    Normal,
    Special,
    Uniform,
    drawn_format,
    integer_bounds,
    special_values,
)
from precreg.suite.inputs.spec import InputSpec

_BLOCK = 4096
"""Elements at a time: temporaries stay in the cache, and below the size that malloc asks the system for each time."""

_REMEMBERED = 64
"""Drawn arrays of at most a block that are kept: the cases of a matrix share inputs, and draw one after the other."""


def draw_input(name: str, spec: InputSpec, seed: int, directory: Path, project: Path) -> NDArray[Any]:
    """Return the array of `spec.shape` and `spec.dtype`, in C order, for an input's name and a seed.

    Complex arrays take two numbers per element, real part first. A small array may be one that was given before, so
    it is read-only. `directory` is the suite's folder, which file paths
    start from. Raises UserError: unknown-dtype where the installed ml_dtypes lacks the dtype; missing-file,
    bad-array-file, outside-project for files, and bad-value where a file has another shape, or an array another digest.
    """
    dtype = numpy_dtype(spec.dtype)
    if isinstance(spec.distribution, LegacyNormal):
        return _legacy(spec.distribution, spec)
    if isinstance(spec.distribution, File):
        return _from_file(spec.distribution, spec, directory, project)
    if spec.dtype in COMPLEX_PARTS:
        parts = _draw(name, spec.distribution, seed, (*spec.shape, 2), COMPLEX_PARTS[spec.dtype])
        return parts.view(dtype).reshape(spec.shape)
    return _draw(name, spec.distribution, seed, spec.shape, spec.dtype)


def _draw(name: str, options: DistributionOptions, seed: int, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    if prod(shape) > _BLOCK:
        return _drawn(name, options, seed, shape, dtype)
    return _remembered(name, options, repr(options), seed, shape, dtype)


@lru_cache(_REMEMBERED)
def _remembered(
    name: str, options: DistributionOptions, _shown: str, seed: int, shape: tuple[int, ...], dtype: str
) -> NDArray[Any]:
    """Draw a small array once. Options are told apart as text too: 0.0 and -0.0 are equal, and draw other bits."""
    array = _drawn(name, options, seed, shape, dtype)
    array.flags.writeable = False
    return array


def _drawn(name: str, options: DistributionOptions, seed: int, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    array = np.empty(prod(shape), numpy_dtype(dtype))
    match options:
        case Special():
            _fill_special(array, name, options, seed, dtype)
        case IllConditionedSum():
            _fill_rows(array.reshape(-1, shape[-1]), word_stream(name, seed), options.condition, dtype)
        case _:
            _fill(array, word_stream(name, seed), options, dtype)
    return array.reshape(shape)


def _fill(array: NDArray[Any], words: Words, options: DistributionOptions, dtype: str) -> None:
    """Draw each element by itself."""
    for start in range(0, array.size, _BLOCK):
        block = array[start : start + _BLOCK]
        block[...] = _elements(words(block.size), options, dtype)


def _elements(words: RandomWords, options: DistributionOptions, dtype: str) -> NDArray[Any]:
    match options:
        case Normal(mean, std):
            return cast(draw_normal(words, mean, std), dtype)
        case Uniform(low, high):
            return cast(draw_uniform(words, low, high), dtype)
        case LogUniform(low, high, sign):
            return cast(draw_log_uniform(words, low, high, sign), dtype)
        case Integers(low, high):
            drawn = draw_integers(words, low, high)
            return drawn.astype(dtype) if format_of(dtype) is None else cast(drawn.astype(np.float64), dtype)
        case Constant(value):
            return _given([value], dtype).repeat(words.size)
    raise TypeError(options)


def _given(values: list[float], dtype: str) -> NDArray[Any]:
    """Return numbers of a suite in the dtype: integers as they are, for no float64 holds all of 64 bits."""
    return np.array(values, dtype) if format_of(dtype) is None else cast(np.array(values, np.float64), dtype)


def _fill_special(array: NDArray[Any], name: str, options: Special, seed: int, dtype: str) -> None:
    """Cycle the values through the array, or through the positions that the second stream chooses."""
    known = special_values(dtype)
    values = _given([known[value] for value in options.values or known], dtype)
    if options.rest is None or options.share is None:
        array[...] = np.resize(values, array.size)
        return
    _fill(array, word_stream(name, seed), options.rest.distribution, dtype)
    choices, cycled = word_stream(name, seed, "positions"), 0
    for start in range(0, array.size, _BLOCK):
        block = array[start : start + _BLOCK]
        chosen = np.flatnonzero(unit_fraction(choices(block.size)) < options.share)
        block[chosen] = values[np.arange(cycled, cycled + chosen.size) % values.size]
        cycled += chosen.size


def _fill_rows(rows: NDArray[Any], words: Words, condition: float, dtype: str) -> None:
    """Draw ill-conditioned sums, as many rows at once as fit a block."""
    length, format = rows.shape[1], drawn_format(dtype)
    taken, step = words_per_row(length), max(1, _BLOCK // length)
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        drawn = words(len(block) * taken).reshape(len(block), taken)
        block[...] = cast(ill_conditioned_rows(drawn, length, condition, format), dtype)


def _legacy(options: LegacyNormal, spec: InputSpec) -> NDArray[Any]:
    """Draw with numpy's legacy generator, whose logarithms are the platform's; so what it gave is held to a digest."""
    numbers = np.asarray(np.random.RandomState(options.seed).randn(*spec.shape))
    array = cast(numbers, spec.dtype)
    found = array_digest(array)
    if found != options.digest:
        raise _refusal(spec, f"numbers of digest={options.digest} but numpy {np.__version__} drew those of {found}")
    return array


def _from_file(options: File, spec: InputSpec, directory: Path, project: Path) -> NDArray[Any]:
    path = resolve_inside(project, directory / options.path, file=spec.source.file, line=spec.source.line)
    stored = _stored(path, relpath(directory / options.path, project), options.key)
    if stored.shape != spec.shape:
        raise _refusal(spec, f"shape={list(spec.shape)} in {options.path} but got shape={list(stored.shape)}")
    if not _holds(spec.dtype, stored):
        raise _refusal(spec, f"numbers that {spec.dtype} can hold in {options.path} but got dtype={stored.dtype}")
    array = np.empty(stored.size, numpy_dtype(spec.dtype))
    flat = stored.reshape(-1)
    for start in range(0, array.size, _BLOCK):
        array[start : start + _BLOCK] = _converted(flat[start : start + _BLOCK], spec.dtype)
    return array.reshape(spec.shape)


def _stored(path: Path, shown: str, key: str | None) -> NDArray[Any]:
    if key is None:
        return read_npy(path, shown)
    arrays = read_npz(path, shown)
    if key not in arrays:
        raise UserError("missing-key", f"expected one of {', '.join(arrays)} but got key={key}", file=shown)
    return arrays[key]


def _holds(dtype: str, stored: NDArray[Any]) -> bool:
    """Say whether a stored array fits: complex only in complex, and whole numbers in range only in integers."""
    if format_of(dtype) is not None:
        return dtype in COMPLEX_PARTS or stored.dtype.kind != "c"
    low, high = integer_bounds(dtype) or (0, 1)
    return stored.dtype.kind in "biu" and (
        not stored.size or bool(low <= int(stored.min()) and int(stored.max()) <= high)
    )


def _converted(numbers: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Round once, from float64 or what is wider than it; integers that fit stay as they are."""
    if format_of(dtype) is None:
        return numbers.astype(dtype)
    is_wide = numbers.dtype.kind == "c" or numbers.dtype == np.longdouble
    return cast(numbers if is_wide else numbers.astype(np.float64), dtype)


def _refusal(spec: InputSpec, expectation: str) -> UserError:
    return UserError("bad-value", f"expected {expectation}", file=spec.source.file, line=spec.source.line)


Array = NDArray[Any]


_MEASURED = frozenset({"normal", "uniform", "log_uniform", "legacy_normal", "file"})
"""Distributions whose last bits are as good as others. Bits of constants, special values, whole numbers and sums of a
chosen condition are chosen: to move them is to ask for something else."""


def has_last_bits(mapping: Mapping[str, Any]) -> bool:
    """Tell whether an input, {shape, dtype, DISTRIBUTION: options}, has last bits to move."""
    return format_of(mapping["dtype"]) is not None and bool(_MEASURED & mapping.keys())


def move_last_bits(array: Array, name: str, seed: int, number: int) -> Array:
    """Return the array with each element moved to a neighbour in its dtype, up or down, or left, by equal chance.

    The moves follow from the input's name, its seed and the number of the move, and are the same everywhere. Zeros,
    NaN and infinities stay: their neighbours are of another kind. So does what would become one of them. The parts of
    complex numbers move by themselves; integers and booleans do not move. Returns an array in C order.
    """
    if array.dtype.name in COMPLEX_PARTS:
        parts = np.ascontiguousarray(array).reshape(*array.shape, 1).view(numpy_dtype(COMPLEX_PARTS[array.dtype.name]))
        return move_last_bits(parts, name, seed, number).view(array.dtype).reshape(array.shape)
    number_format = format_of(array.dtype.name)
    if number_format is None:
        return array
    steps = (word_stream(name, seed, f"last bits {number}")(array.size) % np.uint64(3)).reshape(array.shape)
    largest = np.finfo(array.dtype).max if array.dtype.char == "g" else array.dtype.type(number_format.largest)
    up, down = np.nextafter(array, largest), np.nextafter(array, -largest)
    neighbours = np.where(steps == 0, array, np.where(steps == 1, up, down))
    stays = ~np.isfinite(array) | (array == 0) | (neighbours == 0)
    return np.where(stays, array, neighbours).astype(array.dtype)
