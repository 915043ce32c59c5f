"""Which input does {shape, dtype, DISTRIBUTION: options} in a suite specify?

precreg checks the whole specification before it draws anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import EXAMPLES, UserError, name_hint, nearest, nearest_name
from precreg.storage import DataError, convert_data
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
)
from precreg.suite.inputs.structured import (
    Images,
    Mask,
    Orthogonal,
    Probabilities,
    PythonInput,
    Sorted,
    Sparse,
    SymmetricPositiveDefinite,
    Tokens,
)
from precreg.types import Location

# The distributions, by their names in a suite.
DISTRIBUTIONS: dict[str, type[DistributionOptions]] = {
    "normal": Normal,
    "uniform": Uniform,
    "log_uniform": LogUniform,
    "integers": Integers,
    "special": Special,
    "ill_conditioned_sum": IllConditionedSum,
    "constant": Constant,
    "legacy_normal": LegacyNormal,
    "file": File,
    "spd": SymmetricPositiveDefinite,
    "orthogonal": Orthogonal,
    "sorted": Sorted,
    "sparse": Sparse,
    "tokens": Tokens,
    "images": Images,
    "mask": Mask,
    "probabilities": Probabilities,
    "python": PythonInput,
}

# `python: module:function` has its arguments beside it, or in one mapping with the function.
PYTHON_KEY, ARGUMENTS_KEY = "python", "args"

# These give the same array at every seed of a suite.
_FIXED = frozenset({"constant", "legacy_normal", "file"})

# The keys of an input with several distributions by name, from which each case picks one.
PICK_KEY, FROM_KEY = "pick", "from"


class InputSpec(Struct, frozen=True):
    """Specify one input of a suite, with the place in the suite for errors."""

    shape: tuple[int, ...]
    dtype: str
    distribution: DistributionOptions
    source: Location


def parse_input(name: str, mapping: Mapping[str, Any], where: Location) -> InputSpec:
    """Return the specification of an input from {shape, dtype, DISTRIBUTION: options}.

    Raises UserError with file and line: unknown-key, unknown-distribution, missing-key, unknown-dtype, bad-value.
    """
    try:
        return _parse(mapping, where)
    except UserError as error:
        message = f"input {name}: {error.message}"
        raise UserError(error.slug, message, file=where.file, line=where.line, hint=error.hint) from None


def is_drawn(mapping: Mapping[str, Any]) -> bool:
    """Return whether an input has other values at another seed, from a specification that `parse_input` accepts."""
    kind = _find_distribution(mapping)
    # Without a share, special values fill the whole array in their order.
    is_full = kind == "special" and "share" not in mapping[kind]
    is_causal = kind == "mask" and mapping[kind].get("kind", "causal") == "causal"
    return kind not in _FIXED and not is_full and not is_causal


def gather_arguments(name: str, mapping: Mapping[str, Any], where: Location) -> Mapping[str, Any]:
    """Return {shape, dtype, python: {function, args}} for {shape, dtype, python: module:function, args: {...}}.

    Any other mapping comes back unchanged, so that two spellings have one digest. Raises UserError: unknown-key.
    """
    given = mapping.get(PYTHON_KEY)
    if ARGUMENTS_KEY in mapping and not isinstance(given, str):
        message = f"input {name}: expected args beside python: module:function but got it without"
        hint = "name the function: python: kernels:make, args: {low: 0}"
        raise UserError("unknown-key", message, file=where.file, line=where.line, hint=hint)
    if not isinstance(given, str):
        return mapping
    arguments = {} if mapping.get(ARGUMENTS_KEY) is None else {ARGUMENTS_KEY: mapping[ARGUMENTS_KEY]}
    rest = {key: value for key, value in mapping.items() if key not in (PYTHON_KEY, ARGUMENTS_KEY)}
    return {**rest, PYTHON_KEY: {"function": given, **arguments}}


def resolve_pick(name: str, mapping: Mapping[str, Any], where: Location) -> Mapping[str, Any]:
    """Return {shape, dtype, DISTRIBUTION: options} for {shape, dtype, pick: NAME, from: {NAME: {DISTRIBUTION: ...}}}.

    A mapping without `pick` and `from` comes back unchanged. Raises UserError: missing-key, bad-value.
    """
    if PICK_KEY not in mapping and FROM_KEY not in mapping:
        return mapping
    for key, other in ((PICK_KEY, FROM_KEY), (FROM_KEY, PICK_KEY)):
        if key not in mapping:
            message = f"input {name}: expected {key} beside {other} but got {other} alone"
            raise UserError(
                "missing-key",
                message,
                file=where.file,
                line=where.line,
                hint="write both: pick: $case, from: {wide: {normal: {std: 100}}, narrow: {normal: {}}}",
            )
    choice, choices = mapping[PICK_KEY], mapping[FROM_KEY]
    known = list(choices) if isinstance(choices, Mapping) else []
    if choice not in known or not isinstance(choices[choice], Mapping):
        expected = ", ".join(known) or "distributions by name, {NAME: {DISTRIBUTION: options}}"
        message = f"input {name}: expected one of {expected} but got pick={choice}{nearest(str(choice), known)}"
        raise UserError(
            "bad-value",
            message,
            file=where.file,
            line=where.line,
            hint=f"write one of them: pick: {known[0] if known else 'wide'}",
        )
    # A choice may hold shape and dtype as well, but no key may come from both places.
    rest = {key: value for key, value in mapping.items() if key not in (PICK_KEY, FROM_KEY)}
    for key in choices[choice]:
        if key in rest:
            message = f"input {name}: expected {key} once but got it in {choice}, too"
            raise UserError(
                "bad-value",
                message,
                file=where.file,
                line=where.line,
                hint=f"remove {key}: from the input, or from {choice}: of from:",
            )
    return {**rest, **choices[choice]}


def _parse(mapping: Mapping[str, Any], where: Location) -> InputSpec:
    if not isinstance(mapping, Mapping):
        raise UserError(
            "bad-value",
            f"expected {{shape, dtype, DISTRIBUTION: options}} but got {mapping!r}",
            hint="write them in braces: x: {shape: [8, 8], dtype: float32, normal: {}}",
        )
    kind = _find_distribution(mapping)
    shape, dtype = _parse_shape(mapping["shape"]), _parse_dtype(mapping["dtype"])
    return InputSpec(shape, dtype, _parse_options(kind, mapping[kind], shape, dtype), where)


def _find_distribution(mapping: Mapping[str, Any]) -> str:
    """Return the key that names the distribution, after checking all keys."""
    for key in mapping:
        if key not in ("shape", "dtype", *DISTRIBUTIONS):
            # A key close to shape or dtype is a typing error of these; any other is taken for a distribution.
            near = nearest(str(key), ("shape", "dtype"))
            slug, kind = ("unknown-key", "shape or dtype") if near else ("unknown-distribution", "a distribution")
            known = ("shape", "dtype") if near else DISTRIBUTIONS
            found = nearest_name(str(key), known)
            write = f"{found}: {DISTRIBUTION_EXAMPLES[found]}" if found in DISTRIBUTION_EXAMPLES else f"{found}:"
            hint = f"write {write} in place of {key}:" if found else ""
            raise UserError(slug, f"expected {kind} but got {key}{nearest(str(key), known)}", hint=hint)
    for key in ("shape", "dtype"):
        if key not in mapping:
            raise UserError(
                "missing-key",
                f"expected {key} but got only {', '.join(mapping) or 'nothing'}",
                hint=f"add it: {EXAMPLES[key]}",
            )
    named = [key for key in mapping if key in DISTRIBUTIONS]
    if not named:
        raise UserError(
            "missing-key",
            f"expected a distribution, one of {', '.join(DISTRIBUTIONS)}, but got none",
            hint="add one: x: {shape: [8, 8], dtype: float32, normal: {mean: 0, std: 1}}",
        )
    if len(named) > 1:
        raise UserError(
            "bad-value",
            f"expected one distribution but got {', '.join(named)}",
            hint=f"keep one of them, such as {named[0]}:; to draw one or the other, write pick: and from:",
        )
    return named[0]


def _parse_shape(value: Any) -> tuple[int, ...]:
    # `type is int`, because True would count as a length of 1.
    lengths = value if isinstance(value, list | tuple) else [value]
    if all(type(length) is int and length >= 0 for length in lengths):
        return tuple(lengths)
    raise UserError(
        "bad-value",
        f"expected a list of whole numbers, none negative, but got shape={value}",
        hint="write the lengths in brackets: shape: [8, 128]; a scalar has shape: []",
    )


def _parse_dtype(value: Any) -> str:
    if value in DTYPE_NAMES:
        return str(value)
    message = f"expected a dtype but got dtype={value}{nearest(str(value), DTYPE_NAMES)}"
    raise UserError("unknown-dtype", message, hint=name_hint(str(value), DTYPE_NAMES, "dtype: "))


# Examples of distributions; docs/suites.md has all options.
DISTRIBUTION_EXAMPLES: dict[str, str] = {
    "normal": "{mean: 0, std: 1}",
    "uniform": "{low: 0, high: 1}",
    "log_uniform": "{low: 1e-3, high: 1e3}",
    "integers": "{low: 0, high: 10}",
    "special": "{}",
    "ill_conditioned_sum": "{condition: 1e8}",
    "constant": "{value: 1}",
    "legacy_normal": "{seed: 0, digest: 0123456789abcdef0123456789abcdef}",
    "file": "{path: x.npy}",
    "spd": "{condition: 100}",
    "orthogonal": "{}",
    "sorted": "{low: 0, high: 1}",
    "sparse": "{density: 0.1}",
    "tokens": "{vocabulary: 1000}",
    "images": "{normalized: true}",
    "mask": "{kind: causal}",
    "probabilities": "{}",
    "python": "{function: 'kernels:make'}",
}


def _parse_options(kind: str, mapping: Any, shape: tuple[int, ...], dtype: str) -> DistributionOptions:
    example = f"{kind}: {DISTRIBUTION_EXAMPLES[kind]}"
    if not isinstance(mapping, Mapping):
        message = f"expected the options of {kind}, {{}} for none, but got {kind}={mapping!r}"
        raise UserError("bad-value", message, hint=f"write the options in braces: {example}")
    try:
        options = convert_data(mapping, DISTRIBUTIONS[kind])
        options.check(shape, dtype)
    except DataError as mistake:
        hint = mistake.hint or f"write such options: {example}"
        raise UserError(mistake.slug, f"{kind}: {mistake.message}", hint=hint) from None
    except (ValueError, OverflowError) as error:
        raise UserError("bad-value", f"{kind}: {error}", hint=f"write such options: {example}") from error
    return options
