"""Drawing an input: from a specification, a name and a seed to an array, bit-identical everywhere.

Numbers are made in float64 and rounded once to the dtype. Work goes through blocks that stay in the cache; since
one word makes one number, the bits do not depend on the blocks.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from os.path import relpath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.arithmetic.arith_rounding import cast
from precreg.arithmetic.formats import PARTS, format_of, numpy_dtype
from precreg.errors import UserError
from precreg.storage.digest import array_digest
from precreg.storage.npy import read_array
from precreg.storage.npz import read_arrays
from precreg.storage.paths import inside
from precreg.suite.inputs import distributions
from precreg.suite.inputs.bits import Words, word_stream
from precreg.suite.inputs.options import (
    Constant,
    File,
    IllConditionedSum,
    Integers,
    LegacyNormal,
    LogUniform,
    Normal,
    Options,
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


def draw(name: str, spec: InputSpec, seed: int, directory: Path, project: Path) -> NDArray[Any]:
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
    if spec.dtype in PARTS:
        parts = _draw(name, spec.distribution, seed, (*spec.shape, 2), PARTS[spec.dtype])
        return parts.view(dtype).reshape(spec.shape)
    return _draw(name, spec.distribution, seed, spec.shape, spec.dtype)


def _draw(name: str, options: Options, seed: int, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    if prod(shape) > _BLOCK:
        return _drawn(name, options, seed, shape, dtype)
    return _remembered(name, options, repr(options), seed, shape, dtype)


@lru_cache(_REMEMBERED)
def _remembered(
    name: str, options: Options, _shown: str, seed: int, shape: tuple[int, ...], dtype: str
) -> NDArray[Any]:
    """Draw a small array once. Options are told apart as text too: 0.0 and -0.0 are equal, and draw other bits."""
    array = _drawn(name, options, seed, shape, dtype)
    array.flags.writeable = False
    return array


def _drawn(name: str, options: Options, seed: int, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    array = np.empty(prod(shape), numpy_dtype(dtype))
    match options:
        case Special():
            _fill_special(array, name, options, seed, dtype)
        case IllConditionedSum():
            _fill_rows(array.reshape(-1, shape[-1]), word_stream(name, seed), options.condition, dtype)
        case _:
            _fill(array, word_stream(name, seed), options, dtype)
    return array.reshape(shape)


def _fill(array: NDArray[Any], words: Words, options: Options, dtype: str) -> None:
    """Draw each element by itself."""
    for start in range(0, array.size, _BLOCK):
        block = array[start : start + _BLOCK]
        block[...] = _elements(words(block.size), options, dtype)


def _elements(words: distributions.Bits, options: Options, dtype: str) -> NDArray[Any]:
    match options:
        case Normal(mean, std):
            return cast(distributions.normal(words, mean, std), dtype)
        case Uniform(low, high):
            return cast(distributions.uniform(words, low, high), dtype)
        case LogUniform(low, high, sign):
            return cast(distributions.log_uniform(words, low, high, sign), dtype)
        case Integers(low, high):
            drawn = distributions.integers(words, low, high)
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
        chosen = np.flatnonzero(distributions.fraction(choices(block.size)) < options.share)
        block[chosen] = values[np.arange(cycled, cycled + chosen.size) % values.size]
        cycled += chosen.size


def _fill_rows(rows: NDArray[Any], words: Words, condition: float, dtype: str) -> None:
    """Draw ill-conditioned sums, as many rows at once as fit a block."""
    length, format = rows.shape[1], drawn_format(dtype)
    taken, step = distributions.words_per_row(length), max(1, _BLOCK // length)
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        drawn = words(len(block) * taken).reshape(len(block), taken)
        block[...] = cast(distributions.ill_conditioned_rows(drawn, length, condition, format), dtype)


def _legacy(options: LegacyNormal, spec: InputSpec) -> NDArray[Any]:
    """Draw with numpy's legacy generator, whose logarithms are the platform's; so what it gave is held to a digest."""
    numbers = np.asarray(np.random.RandomState(options.seed).randn(*spec.shape))
    array = cast(numbers, spec.dtype)
    found = array_digest(array)
    if found != options.digest:
        raise _refusal(spec, f"numbers of digest={options.digest} but numpy {np.__version__} drew those of {found}")
    return array


def _from_file(options: File, spec: InputSpec, directory: Path, project: Path) -> NDArray[Any]:
    path = inside(project, directory / options.path, file=spec.source.file, line=spec.source.line)
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
        return read_array(path, shown)
    arrays = read_arrays(path, shown)
    if key not in arrays:
        raise UserError("missing-key", f"expected one of {', '.join(arrays)} but got key={key}", file=shown)
    return arrays[key]


def _holds(dtype: str, stored: NDArray[Any]) -> bool:
    """Say whether a stored array fits: complex only in complex, and whole numbers in range only in integers."""
    if format_of(dtype) is not None:
        return dtype in PARTS or stored.dtype.kind != "c"
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
