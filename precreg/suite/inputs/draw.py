"""Which array does a specification, a name and a seed determine, with the same bits everywhere?

Numbers are drawn in float64 and rounded once to the dtype. One word of random bits makes one number, so the bits do not
depend on blocks. `move_last_bits` makes variants of an input whose elements are as good as the originals.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import lru_cache
from math import prod
from os.path import relpath
from pathlib import Path
from typing import Any

import numpy as np

from precreg.arithmetic import COMPLEX_PARTS, DTYPE_NAMES, cast, format_of, numpy_dtype
from precreg.errors import UserError
from precreg.storage import RAW, Array, array_digest, read_recorded, read_single, resolve_inside
from precreg.subject import call_function
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
from precreg.suite.inputs.structured import STRUCTURED, PythonInput

# Elements drawn at a time. Buffers of 32 KiB stay in the cache. They are also below the size (128 KiB in glibc) from
# which malloc asks the system for memory at every call.
_BLOCK = 4096

# The drawn arrays of up to one block that are kept: the cases of a matrix share inputs, and draw one after the other.
_MAX_REMEMBERED = 64

# Distributions whose last bits are as good as any others. The bits of constants, special values, integers and
# ill-conditioned sums are chosen, and moving them would test something else.
_MOVABLE = frozenset({"normal", "uniform", "log_uniform", "legacy_normal", "file"})


def draw_input(name: str, spec: InputSpec, seed: int, directory: Path, project: Path) -> Array:
    """Return the array of `spec.shape` and `spec.dtype`, in C order, for an input's name and a seed.

    Complex arrays take two numbers per element, real part first. Small arrays are shared, and therefore read-only.
    `directory` is the suite's folder, from which file paths start.
    Raises UserError: unknown-dtype if the installed ml_dtypes lacks the dtype; missing-file, bad-array-file,
    outside-project for files; bad-value if a file has another shape or an array another digest.
    """
    dtype = numpy_dtype(spec.dtype)
    if isinstance(spec.distribution, LegacyNormal):
        return _draw_legacy(spec.distribution, spec)
    if isinstance(spec.distribution, File):
        return _read_file(spec.distribution, spec, directory, project)
    if isinstance(spec.distribution, PythonInput):
        return _call_function(name, spec.distribution, seed, spec, directory, project)
    if spec.dtype in COMPLEX_PARTS:
        parts = _draw(name, spec.distribution, seed, (*spec.shape, 2), COMPLEX_PARTS[spec.dtype])
        return parts.view(dtype).reshape(spec.shape)
    return _draw(name, spec.distribution, seed, spec.shape, spec.dtype)


def _call_function(
    name: str, options: PythonInput, seed: int, spec: InputSpec, directory: Path, project: Path
) -> Array:
    """Return the array that a function of the project makes, rounded once to the dtype if it has another.

    Raises UserError: bad-input for another shape, for numbers that the dtype cannot hold, and for any exception.
    """
    from precreg.suite.inputs.generators import InputGenerator

    target = options.function
    arguments = (InputGenerator(name, seed), spec.shape, spec.dtype)
    try:
        made = call_function(target, directory, project, *arguments, **deepcopy(options.args))
    except (UserError, KeyboardInterrupt):
        raise
    # Any code of the user may fail in any way, and the message names it. The traceback stays its cause.
    except BaseException as error:
        message = f"expected {target} to make input {name} but it raised {type(error).__name__}: {error}"
        raise UserError("bad-input", message, file=spec.source.file, line=spec.source.line) from error
    array = np.asarray(made)
    if array.shape != spec.shape:
        raise _input_error(spec, name, target, f"shape={list(spec.shape)}", f"shape={list(array.shape)}")
    if array.dtype == numpy_dtype(spec.dtype):
        return np.array(array, order="C")
    if not _can_be_numbers(array) or not _can_hold(spec.dtype, array):
        raise _input_error(spec, name, target, f"numbers that {spec.dtype} can hold", f"dtype={array.dtype}")
    converted = _convert(array.reshape(-1), spec.dtype).reshape(spec.shape)
    # An infinity that the function did not make would be equal in subject and reference, and check nothing.
    if format_of(spec.dtype) is not None and (lost := np.isfinite(array) & ~np.isfinite(converted)).any():
        largest = array[lost].flat[0]
        raise _input_error(spec, name, target, f"numbers that {spec.dtype} can hold", f"{largest}")
    return converted


def _can_be_numbers(array: Array) -> bool:
    return array.dtype.kind in "biufc" or array.dtype.name in DTYPE_NAMES


def _input_error(spec: InputSpec, name: str, target: str, expected: str, got: str) -> UserError:
    message = f"expected {expected} from {target} for input {name} but got {got}"
    return UserError("bad-input", message, file=spec.source.file, line=spec.source.line)


def _draw(name: str, options: DistributionOptions, seed: int, shape: tuple[int, ...], dtype: str) -> Array:
    if prod(shape) > _BLOCK:
        return _draw_anew(name, options, seed, shape, dtype)
    # repr separates 0.0 from -0.0, which are equal as keys of the cache but draw other bits.
    return _draw_once(name, options, repr(options), seed, shape, dtype)


@lru_cache(_MAX_REMEMBERED)
def _draw_once(
    name: str, options: DistributionOptions, _shown: str, seed: int, shape: tuple[int, ...], dtype: str
) -> Array:
    """Draw a small array, and keep it for later calls."""
    array = _draw_anew(name, options, seed, shape, dtype)
    array.flags.writeable = False
    return array


def _draw_anew(name: str, options: DistributionOptions, seed: int, shape: tuple[int, ...], dtype: str) -> Array:
    array = np.empty(prod(shape), numpy_dtype(dtype))
    match options:
        case Special():
            _fill_special(array, name, options, seed, dtype)
        case IllConditionedSum():
            _fill_rows(array.reshape(-1, shape[-1]), word_stream(name, seed), options.condition, dtype)
        case _ if isinstance(options, STRUCTURED):
            # Late, because most suites have none of these.
            from precreg.suite.inputs.generators import draw_structured

            array[...] = _convert(draw_structured(options, name, seed, shape).reshape(-1), dtype)
        case _:
            _fill(array, word_stream(name, seed), options, dtype)
    return array.reshape(shape)


def _fill(array: Array, words: Words, options: DistributionOptions, dtype: str) -> None:
    """Fill an array element by element, block by block."""
    for start in range(0, array.size, _BLOCK):
        block = array[start : start + _BLOCK]
        block[...] = _draw_elements(words(block.size), options, dtype)


def _draw_elements(words: RandomWords, options: DistributionOptions, dtype: str) -> Array:
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
            return _convert_constants([value], dtype).repeat(words.size)
    raise TypeError(options)


def _convert_constants(values: list[float], dtype: str) -> Array:
    """Return numbers from a suite in the dtype."""
    # Integers skip float64, which cannot hold all of 64 bits.
    return np.array(values, dtype) if format_of(dtype) is None else cast(np.array(values, np.float64), dtype)


def _fill_special(array: Array, name: str, options: Special, seed: int, dtype: str) -> None:
    """Cycle the values through the array, or through randomly chosen positions."""
    known = special_values(dtype)
    values = _convert_constants([known[value] for value in options.values or known], dtype)
    if options.rest is None or options.share is None:
        array[...] = np.resize(values, array.size)
        return
    _fill(array, word_stream(name, seed), options.rest.distribution, dtype)
    # A second stream chooses the positions, so that the rest has the same numbers for every share.
    choices, cycled = word_stream(name, seed, "positions"), 0
    for start in range(0, array.size, _BLOCK):
        block = array[start : start + _BLOCK]
        chosen = np.flatnonzero(unit_fraction(choices(block.size)) < options.share)
        block[chosen] = values[np.arange(cycled, cycled + chosen.size) % values.size]
        cycled += chosen.size


def _fill_rows(rows: Array, words: Words, condition: float, dtype: str) -> None:
    """Fill rows with ill-conditioned sums, as many at a time as fit into a block."""
    length, format = rows.shape[1], drawn_format(dtype)
    taken, step = words_per_row(length), max(1, _BLOCK // length)
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        drawn = words(len(block) * taken).reshape(len(block), taken)
        block[...] = cast(ill_conditioned_rows(drawn, length, condition, format), dtype)


def _draw_legacy(options: LegacyNormal, spec: InputSpec) -> Array:
    """Draw with numpy's legacy generator, and compare the digest of the array."""
    # numpy froze this generator, but its logarithms are the platform's, whose last bits differ.
    numbers = np.asarray(np.random.RandomState(options.seed).randn(*spec.shape))
    array = cast(numbers, spec.dtype)
    found = array_digest(array)
    if found != options.digest:
        raise _value_error(spec, f"numbers of digest={options.digest} but numpy {np.__version__} drew digest={found}")
    return array


def _read_file(options: File, spec: InputSpec, directory: Path, project: Path) -> Array:
    path = resolve_inside(project, directory / options.path, file=spec.source.file, line=spec.source.line)
    stored = _read_array(path, relpath(directory / options.path, project), options.key, spec)
    if stored.shape != spec.shape:
        raise _value_error(spec, f"shape={list(spec.shape)} in {options.path} but got shape={list(stored.shape)}")
    if not _can_hold(spec.dtype, stored):
        raise _value_error(spec, f"numbers that {spec.dtype} can hold in {options.path} but got dtype={stored.dtype}")
    array = np.empty(stored.size, numpy_dtype(spec.dtype))
    flat = stored.reshape(-1)
    for start in range(0, array.size, _BLOCK):
        array[start : start + _BLOCK] = _convert(flat[start : start + _BLOCK], spec.dtype)
    return array.reshape(spec.shape)


def _read_array(path: Path, shown: str, key: str | None, spec: InputSpec) -> Array:
    if path.suffix == RAW:
        # A raw file has no header, so it has the dtype and the shape of the input.
        return read_single(path, shown, spec.dtype, spec.shape)
    if key is None:
        return read_single(path, shown)
    arrays = read_recorded(path, shown)
    if key not in arrays:
        raise UserError(
            "missing-key",
            f"expected one of {', '.join(arrays)} but got key={key}",
            file=shown,
            hint=f"write one of them: file: {{path: {shown}, key: {next(iter(arrays), 'x')}}}",
        )
    return arrays[key]


def _can_hold(dtype: str, stored: Array) -> bool:
    """Return whether a dtype can hold a stored array: complex needs complex, and integers need integers in range."""
    if format_of(dtype) is not None:
        return dtype in COMPLEX_PARTS or stored.dtype.kind != "c"
    low, high = integer_bounds(dtype) or (0, 1)
    return stored.dtype.kind in "biu" and (
        not stored.size or bool(low <= int(stored.min()) and int(stored.max()) <= high)
    )


def _convert(numbers: Array, dtype: str) -> Array:
    """Return numbers rounded once to the dtype. Integers that fit stay exact."""
    # `cast` expects float64 or wider. Converting longdouble to float64 first would round twice.
    if format_of(dtype) is None:
        return numbers.astype(dtype)
    is_wide = numbers.dtype.kind == "c" or numbers.dtype == np.longdouble
    return cast(numbers if is_wide else numbers.astype(np.float64), dtype)


def _value_error(spec: InputSpec, expectation: str) -> UserError:
    return UserError(
        "bad-value",
        f"expected {expectation}",
        file=spec.source.file,
        line=spec.source.line,
        hint="correct shape: and dtype: of the input, or write the file again: numpy.save(FILE, array)",
    )


def has_last_bits(mapping: Mapping[str, Any]) -> bool:
    """Return whether the last bits of an input, {shape, dtype, DISTRIBUTION: options}, may be moved."""
    return format_of(mapping["dtype"]) is not None and bool(_MOVABLE & mapping.keys())


def move_last_bits(array: Array, name: str, seed: int, number: int) -> Array:
    """Return the array, in C order, with each element moved up, down or not at all, with equal probability.

    A move goes to the neighbour in the dtype. The moves follow from the input's name, its seed and the number of the
    move, and are the same everywhere. The parts of complex numbers move separately. Integers and booleans do not move.
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
    # Zeros, NaN and infinities stay, and nothing becomes zero: such neighbours are numbers of another kind.
    stays = ~np.isfinite(array) | (array == 0) | (neighbours == 0)
    return np.where(stays, array, neighbours).astype(array.dtype)
