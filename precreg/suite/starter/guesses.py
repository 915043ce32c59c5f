"""Which calls of a function are worth trying: shapes, dtypes, values and numbers for its arguments?

A guess uses the docstring first, then annotations and names. It names dimensions, so that a suite can vary one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from precreg.subject import Argument, GraphInput, TargetFacts, TorchLayer

# Two sizes of a dimension: an ordinary one, and one that is not a multiple of a vector or a block. Dimensions differ,
# so that a guess with exchanged axes fails. A guess takes milliseconds with these sizes in most functions.
_SIZES = {
    "n": (256, 37),
    "rows": (48, 5),
    "columns": (64, 64),
    "out": (24, 24),
    "batch": (4, 3),
    "heads": (2, 2),
    "channels": (6, 6),
    "height": (16, 16),
    "width": (20, 20),
    "length": (32, 7),
}
_OTHER_SIZES = ((40, 5), (56, 56), (12, 12), (10, 10), (14, 14), (18, 18))
# Values of index arrays: small enough for each dimension above that an index may address.
_INDICES = {"integers": {"low": 0, "high": 4}}
_NORMAL: dict[str, Any] = {"normal": {"mean": 0, "std": 1}}
# Positive and away from 0, for logarithms, roots and divisors.
_POSITIVE: dict[str, Any] = {"uniform": {"low": 0.1, "high": 2}}
_SPD: dict[str, Any] = {"spd": {"condition": 100}}

_VECTORS = frozenset(["weight", "weights", "bias", "gamma", "beta", "gain", "offset"])
_INDEX_NAMES = frozenset(
    ["indices", "index", "idx", "ids", "labels", "label", "target", "targets", "tokens", "input_ids", "segments"]
)
# A weight of an average, a probability or a spread is positive; a sum of weights near 0 would blow up every error.
_POSITIVE_NAMES = frozenset(["w", "weights", "probs", "probabilities", "var", "variance", "std", "sigma"])
_MASK_NAMES = frozenset(["mask", "attention_mask", "attn_mask", "keep"])
# Numbers that fit arguments of these names, where an annotation or a name shows that they are no arrays.
_NUMBERS: dict[str, int | float] = {
    **dict.fromkeys(("axis", "dim"), -1),
    **dict.fromkeys(("eps", "epsilon", "tol", "rtol", "atol"), 1e-5),
    **dict.fromkeys(("momentum", "decay", "dropout", "p", "lr", "learning_rate", "dt", "step_size", "alpha"), 0.1),
    **dict.fromkeys(("scale", "temperature", "sigma", "std", "factor", "tau"), 1.5),
    **dict.fromkeys(("k", "order", "degree", "steps", "iterations", "n_iter", "num_heads", "groups", "bins"), 2),
    **dict.fromkeys(("window", "kernel_size", "num_groups", "block", "block_size"), 4),
}
# Numbers that make a module of torch, by words in the names of its arguments; the first that matches counts. Heads and
# groups divide each dimension.
_CONSTRUCTOR: tuple[tuple[str, int | float], ...] = (
    (r"head|group", 4),
    (r"kernel", 3),
    (r"layer|depth|block|num_stages", 2),
    (r"vocab|embeddings|tokens|classes", 100),
    (r"dropout|(^|_)p$|rate|momentum|alpha|slope", 0.1),
    (r"eps", 1e-5),
    (r"out", 24),
    (r"dim|width|hidden|features|channels|size|model|in_|length|planes|ffn|inner", 64),
)
_DIMENSIONS = re.compile(r"[(\[]\s*((?:\.\.\.|\w+)(?:\s*[,x]\s*\w+)*\s*,?)\s*[)\]]")


class GuessedInput(Struct, frozen=True):
    """An array of a guess: dimensions as names or sizes, a dtype (`$dtype` follows the matrix), and a distribution."""

    shape: tuple[str | int, ...]
    dtype: str = "$dtype"
    values: dict[str, Any] = field(default_factory=lambda: _NORMAL)


class Guess(Struct, frozen=True):
    """One way to call a function: arrays by argument, two sizes of each dimension, and other arguments."""

    inputs: dict[str, GuessedInput]
    sizes: dict[str, tuple[int, int]]
    params: dict[str, Any] = field(default_factory=dict)
    source: str = "tried"
    # Rounding to 16 bits may make a definite matrix indefinite.
    needs_wide: bool = False

    @property
    def varied(self) -> str | None:
        """Return the first dimension with two sizes; None without one."""
        return next((name for name, sizes in self.sizes.items() if sizes[0] != sizes[1]), None)

    @property
    def has_dtype(self) -> bool:
        """Return whether an input follows the dtype of the matrix."""
        return any(each.dtype == "$dtype" for each in self.inputs.values())


def guess_calls(facts: TargetFacts) -> list[list[Guess]]:
    """Return the guesses for a target in rounds; a later round is for targets that no earlier guess fits."""
    if facts.kind == "onnx":
        return [[_graph_guess(facts.graph, low) for low in (False, True)]]
    arrays, params = _split_arguments(facts.arguments, facts.doc)
    if not arrays:
        return []
    first = [*_first_guesses(facts, arrays, params)]
    generic = [_with_names(arrays, shapes, params) for shapes in _patterns(arrays)]
    ordinary = _distinct([*first, *generic])
    positive = [_with_values(guess, _POSITIVE) for guess in ordinary]
    square = [_with_values(guess, _SPD) for guess in ordinary if _is_square(guess)]
    rounds = [ordinary, [*square, *positive]]
    if len(arrays) > 1:
        rounds.append([*_with_numbers(arrays, params)])
    # A name alone may mislead: `k` is a count in many functions, and the keys of attention in others.
    annotated = {each.name for each in facts.arguments if each.annotation}
    every = [each.name for each in facts.arguments if each.name in arrays or each.name in params.keys() - annotated]
    if every != arrays:
        others = {name: value for name, value in params.items() if name in annotated}
        rounds.append([_with_names(every, shapes, others) for shapes in _patterns(every)])
    return rounds


def guess_constructor(arguments: Iterable[Argument]) -> dict[str, int | float | str]:
    """Return values for the required arguments of a class of torch; those that no name or annotation explains lack."""
    guessed = ((each.name, _constructor_value(each)) for each in arguments)
    return {name: value for name, value in guessed if value is not None}


def _constructor_value(argument: Argument) -> int | float | str | None:
    note, name = argument.annotation.strip("'\""), argument.name.lower()
    if note and not re.match(r"(int|float|bool|Literal|typing.Literal)\b", note):
        return None
    known = next((value for words, value in _CONSTRUCTOR if re.search(words, name)), None)
    if known is not None and not (note.startswith("int") and isinstance(known, float)):
        return known
    return _number_of(argument) if note else None


def _split_arguments(arguments: Sequence[Argument], doc: str) -> tuple[list[str], dict[str, Any]]:
    """Return the names of arguments that get arrays, and values for the other required ones."""
    arrays, params = list[str](), dict[str, Any]()
    for argument in arguments:
        if not argument.required:
            continue
        value = _number_of(argument)
        if value is None or (not argument.annotation and _documented_shape(argument.name, doc)):
            arrays.append(argument.name)
        else:
            params[argument.name] = value
    return arrays, params


def _number_of(argument: Argument) -> Any:
    """Return a value for an argument that is not an array; None if it may be an array."""
    note, name = argument.annotation.strip("'\""), argument.name.lower()
    if "rray" in note or "ensor" in note:
        return None
    if (literal := re.search(r"Literal\[(['\"])(.+?)\1", note)) is not None:
        return literal[2]
    if re.fullmatch(r"bool( \| None)?", note):
        return False
    known = _NUMBERS.get(name)
    if re.fullmatch(r"int( \| None)?", note):
        return int(known) if isinstance(known, int) else 2
    if re.fullmatch(r"float( \| None)?|int \| float|float \| int", note):
        return 1.0 if known is None else known
    return known if not note else None


def unguessable(arguments: Iterable[Argument]) -> list[str]:
    """Return the required arguments whose annotation shows that they are neither arrays nor numbers."""
    plain = re.compile(r"(str|bytes|dict|list|tuple|set|Path|Callable|Mapping|Sequence)\b")
    noted = ((each, each.annotation.strip("'\"").rpartition("typing.")[2]) for each in arguments if each.required)
    return [each.name for each, note in noted if plain.match(note.removeprefix("collections.abc."))]


def _first_guesses(facts: TargetFacts, arrays: list[str], params: dict[str, Any]) -> Iterator[Guess]:
    """Yield guesses from the layers of a module, the docstring, and the names of arguments."""
    if facts.layers:
        for layer in facts.layers[:3]:
            yield from _layer_guesses(layer, arrays, params)
    documented = {name: _documented_shape(name, facts.doc) for name in arrays}
    if any(documented.values()):
        shapes = [documented[name] or ("rows", "columns") for name in arrays]
        yield _with_names(arrays, shapes, params, "docstring")
    if any(name in _VECTORS for name in arrays[1:]):
        matrix = ("rows", "columns")
        yield _with_names(arrays, [("columns",) if name in _VECTORS else matrix for name in arrays], params, "names")


def _documented_shape(name: str, doc: str) -> tuple[str | int, ...] | None:
    """Return the shape that a docstring gives an argument, as in `x : array of shape (N, D)`; None without one."""
    pattern = rf"(?:^|;)\s*(?::param )?[`*]*{re.escape(name)}[`*]*\s*(?:\(.*?\))?\s*:(.*(?:\n\s+.*)?)"
    found = re.search(pattern, doc, re.MULTILINE)
    shape = None if found is None else _DIMENSIONS.search(found[1])
    if shape is None:
        return None
    parts = [part for part in re.split(r"\s*[,x]\s*", shape[1].strip()) if part]
    if not parts or any(part in ("optional", "default", "array_like", "float", "int", "bool") for part in parts):
        return None
    named = [("batch" if part == "..." else part.lower()) for part in parts]
    return tuple(int(part) if part.isdigit() else part for part in named)


def _layer_guesses(layer: TorchLayer, arrays: list[str], params: dict[str, Any]) -> Iterator[Guess]:
    """Yield guesses for the input of a module that begins with a layer."""
    sizes = next(iter(layer.sizes.values()))
    if "num_embeddings" in layer.sizes:
        tokens = GuessedInput(("batch", "length"), "int64", {"integers": {"low": 0, "high": sizes[0]}})
        yield Guess({name: tokens for name in arrays}, _sizes_of([tokens.shape]), params, "layer")
        return
    shapes: list[tuple[str | int, ...]] = [("batch", *sizes), ("batch", "length", *sizes)]
    if "in_channels" in layer.sizes or "num_features" in layer.sizes or "num_channels" in layer.sizes:
        places = re.search(r"(\d)d$", layer.name)
        space = ("height", "width", "length")[: int(places[1]) if places else 2]
        shapes = [("batch", *sizes, *space), *shapes[:1]]
    for shape in shapes:
        yield _with_names(arrays, [shape] * len(arrays), params, "layer")


def _patterns(arrays: list[str]) -> Iterator[list[tuple[str | int, ...]]]:
    """Yield shapes for all arrays, the most common first."""
    n = len(arrays)
    matrix: tuple[str | int, ...] = ("rows", "columns")
    yield [matrix] * n
    if n > 1:
        yield [matrix, ("columns", "out"), *[("out",)] * (n - 2)]
        yield [matrix, ("out", "columns"), *[("out",)] * (n - 2)]
        yield [matrix, *[("columns",)] * (n - 1)]
        yield [matrix, *[("rows",)] * (n - 1)]
    yield [("n",)] * n
    yield [("n", "n")] * n
    if n > 1:
        yield [("n", "n"), *[("n",)] * (n - 1)]
    yield [("batch", "rows", "columns")] * n
    yield [("batch", "channels", "height", "width")] * n
    if n > 1:
        yield [("batch", "channels", "height", "width"), ("out", "channels", 3, 3), *[("out",)] * (n - 2)]
        yield [("batch", "channels", "height", "width"), *[("channels",)] * (n - 1)]
    yield [()] * n


def _with_names(
    arrays: list[str],
    shapes: Sequence[tuple[str | int, ...]],
    params: dict[str, Any],
    source: str = "tried",
) -> Guess:
    inputs = {name: _input_of(name, shape) for name, shape in zip(arrays, shapes, strict=True)}
    return Guess(inputs, _sizes_of(shapes), params, source)


def _input_of(name: str, shape: tuple[str | int, ...]) -> GuessedInput:
    if name in _INDEX_NAMES:
        return GuessedInput(shape, "int64", _INDICES)
    if name in _MASK_NAMES:
        return GuessedInput(shape, "bool", {"integers": {"low": 0, "high": 2}})
    return GuessedInput(shape, values=_POSITIVE if name in _POSITIVE_NAMES else _NORMAL)


def _sizes_of(shapes: Iterable[tuple[str | int, ...]]) -> dict[str, tuple[int, int]]:
    """Return two sizes of each named dimension; at most the first dimension of all varies."""
    names = [*dict.fromkeys(each for shape in shapes for each in shape if isinstance(each, str))]
    others = iter(_OTHER_SIZES * (len(names) // len(_OTHER_SIZES) + 1))
    found = {name: _SIZES[name] if name in _SIZES else next(others) for name in names}
    return {name: sizes if place == 0 else (sizes[0], sizes[0]) for place, (name, sizes) in enumerate(found.items())}


def _with_values(guess: Guess, values: Mapping[str, Any]) -> Guess:
    inputs = {
        name: GuessedInput(each.shape, each.dtype, {**values}) if each.dtype == "$dtype" else each
        for name, each in guess.inputs.items()
    }
    sizes = {name: (48, 7) if values == _SPD else pair for name, pair in guess.sizes.items()}
    return Guess(inputs, sizes, guess.params, guess.source, needs_wide=values == _SPD)


def _is_square(guess: Guess) -> bool:
    return all(len(each.shape) > 1 and each.shape[-1] == each.shape[-2] for each in guess.inputs.values())


def _with_numbers(arrays: list[str], params: dict[str, Any]) -> Iterator[Guess]:
    """Yield guesses with an array for the first argument, and a number for each other one."""
    for number in (1.5, 2):
        for shape in (("rows", "columns"), ("n",)):
            others = dict.fromkeys(arrays[1:], number)
            yield _with_names(arrays[:1], [shape], {**params, **others})


def _graph_guess(graph: Sequence[GraphInput], low: bool) -> Guess:
    """Return the call of an ONNX graph; free dimensions have two sizes, or one small size if `low`."""
    inputs, sizes = {}, dict[str, tuple[int, int]]()
    for each in graph:
        shape = list[str | int]()
        for place, size in enumerate(each.shape):
            name = re.sub(r"\W", "_", size).lower() if isinstance(size, str) else ""
            name = name if name.isidentifier() else f"free{place}"
            shape.append(name if isinstance(size, str) else size)
            if isinstance(size, str):
                # Only the first free dimension varies: others may have to divide by a block or a head.
                sizes[name] = (1, 1) if low else (4, 3) if not sizes or name in sizes else (16, 16)
        values = _NORMAL if "float" in each.dtype else _INDICES
        inputs[each.name] = GuessedInput(tuple(shape), each.dtype, values)
    return Guess(inputs, sizes, source="graph")


def _distinct(guesses: Iterable[Guess]) -> list[Guess]:
    """Return the guesses without those that repeat an earlier one's arrays."""
    found = dict[str, Guess]()
    for guess in guesses:
        found.setdefault(repr((guess.inputs, guess.sizes)), guess)
    return [*found.values()]
