"""Which arguments does a function or a module of torch take, as its signature, annotations and docstring describe it?

A process of its own imports the target: a module may print, hang, change its process or end it.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from os.path import normpath
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from precreg.arithmetic import dtype_name
from precreg.errors import UserError
from precreg.subject.module_space import enter_module_space
from precreg.subject.surroundings import describe_failure
from precreg.types import Reason

# The import of torch and of a large package takes some 10 s on a cold disk.
INSPECTION_SECONDS = 120
TargetKind = Literal["function", "module", "class", "onnx"]
# Attributes of torch's layers that fix a dimension of their input.
_LAYER_SIZES = (
    "in_features",
    "in_channels",
    "num_embeddings",
    "num_features",
    "num_channels",
    "normalized_shape",
    "input_size",
    "embed_dim",
)


class Argument(Struct, frozen=True):
    """One argument: name, annotation as text, whether the call must give it, and the repr of a short default."""

    name: str
    annotation: str = ""
    required: bool = True
    default: str = ""


class TorchLayer(Struct, frozen=True):
    """The class of a layer of torch, and the sizes that it requires of its input, by attribute."""

    name: str
    sizes: dict[str, list[int]]


class GraphInput(Struct, frozen=True):
    """One input of an ONNX graph: name, dtype of precreg, and shape; a free dimension is its name, or empty."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


class TargetFacts(Struct, frozen=True):
    """The facts about a target of `precreg init`.

    `modules` are the names of packages among the globals of its module, `siblings` the functions beside it.
    """

    kind: TargetKind = "function"
    arguments: tuple[Argument, ...] = ()
    doc: str = ""
    siblings: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    layers: tuple[TorchLayer, ...] = ()
    graph: tuple[GraphInput, ...] = ()
    # The required arguments of a class of torch that was not made, because none were given.
    constructor: tuple[Argument, ...] = ()
    made_with: dict[str, int | float | str] = field(default_factory=dict)
    # The reason why the target cannot be a subject, in Python's or precreg's words; empty if it can.
    problem: str = ""
    slug: str = "bad-value"


def inspect_target(
    target: str, directory: Path, project: Path, made_with: Mapping[str, int | float | str] | None = None
) -> TargetFacts:
    """Import `module:name` in a process of its own, and return its facts. `directory` is the folder of the suite.

    A class of torch is made with the arguments `made_with`. Raises UserError: missing-module, missing-function,
    bad-value for a target that cannot be imported, made or called.
    """
    given = msgspec.json.encode(made_with or {}).decode()
    with tempfile.NamedTemporaryFile(prefix="precreg-facts-") as file:
        command = [sys.executable, "-P", "-m", __name__, target, str(directory), str(project), given, file.name]
        try:
            done = subprocess.run(command, capture_output=True, timeout=INSPECTION_SECONDS, check=False, text=True)
        except subprocess.TimeoutExpired:
            message = f"expected an import of {target} within {INSPECTION_SECONDS} s but it goes on"
            raise UserError("bad-value", message, hint=_import_hint(target)) from None
        content = Path(file.name).read_bytes()
    if not content:
        last = next(reversed(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
        message = f"expected to import {target} but its import ended the process: {last}"
        raise UserError("bad-value", message, hint=_import_hint(target))
    facts = msgspec.json.decode(content, type=TargetFacts)
    if facts.problem:
        raise UserError(facts.slug, facts.problem)
    return facts


def _import_hint(target: str) -> str:
    return f"import it alone to see why: python -c 'import {target.partition(':')[0]}'"


def facts_of_target(
    target: str, directory: Path, project: Path, made_with: dict[str, int | float | str]
) -> TargetFacts:
    """Import a target here, and return its facts; problems are facts, too."""
    from precreg.subject.python import find_function

    try:
        if target.endswith(".onnx"):
            return TargetFacts("onnx", graph=tuple(_graph_inputs(Path(normpath(directory / target)))))
        found = find_function(target, enter_module_space(directory, project))
        return _facts_of(found, target, made_with)
    except UserError as error:
        return TargetFacts(problem=error.message, slug=error.slug)
    # Whatever the user's module raises at its import.
    except BaseException as error:
        described = describe_failure(error, Reason.SUBJECT_ERROR)
        return TargetFacts(problem=f"expected to import {target} but got {described.message}")


def _graph_inputs(model: Path) -> Iterator[GraphInput]:
    """Yield the inputs of an ONNX model. Raises UserError: missing-extra."""
    try:
        from onnxruntime import InferenceSession
    except ImportError:
        message = f"expected onnxruntime, which runs {model.name}, but it is not installed: precreg[onnx] has it"
        raise UserError("missing-extra", message) from None
    from precreg.subject.onnx import element_dtype, tensor_type

    for each in InferenceSession(str(model), providers=["CPUExecutionProvider"]).get_inputs():
        element = tensor_type(each.type)
        dtype = each.type if element is None else dtype_name(element_dtype(element))
        yield GraphInput(each.name, dtype, tuple(size if isinstance(size, int) else size or "" for size in each.shape))


def _facts_of(found: Any, target: str, made_with: dict[str, int | float | str]) -> TargetFacts:
    torch = sys.modules.get("torch")
    called, layers = found, tuple[TorchLayer, ...]()
    kind: TargetKind = "function"
    if torch is not None and _is_torch_module(found, torch):
        kind = "module"
        needed = [each for each in _arguments(found) if each.required] if isinstance(found, type) else []
        if needed and not made_with:
            return TargetFacts(kind, constructor=(*needed,))
        instance = found(**made_with) if isinstance(found, type) else found
        called, layers = instance.forward, (*_layers(instance),)
    elif isinstance(found, type):
        kind = "class"
    module = sys.modules.get(target.partition(":")[0])
    names = {} if module is None else {**vars(module)}
    return TargetFacts(
        kind,
        tuple(_arguments(called)),
        inspect.getdoc(found) or "",
        tuple(name for name, value in names.items() if inspect.isfunction(value)),
        tuple({value.__name__.partition(".")[0] for value in names.values() if inspect.ismodule(value)}),
        layers,
        made_with=made_with,
        problem=_problem(found, target),
    )


def _is_torch_module(found: Any, torch: Any) -> bool:
    if isinstance(found, type):
        return issubclass(found, torch.nn.Module)
    return isinstance(found, torch.nn.Module)


def _problem(found: Any, target: str) -> str:
    for word, test in (
        ("a coroutine", inspect.iscoroutinefunction),
        ("a generator", inspect.isgeneratorfunction),
        ("an asynchronous generator", inspect.isasyncgenfunction),
    ):
        if test(found):
            return f"expected a function that returns arrays but {target} is {word}"
    return ""


def _arguments(called: Any) -> Iterator[Argument]:
    """Yield the arguments of a callable; those of a ufunc as x0, x1, ..., which a suite gives by position."""
    if number := getattr(called, "nin", 0):
        yield from (Argument(f"x{place}") for place in range(number))
        return
    with suppress(TypeError, ValueError):
        for each in inspect.signature(called).parameters.values():
            if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                continue
            annotation = "" if each.annotation is each.empty else inspect.formatannotation(each.annotation)
            required = each.default is each.empty
            yield Argument(each.name, annotation, required, "" if required else repr(each.default)[:40])


def _layers(module: Any) -> Iterator[TorchLayer]:
    """Yield the layers that fix the size of an input, in the order in which the module has them."""
    for layer in module.modules():
        sizes = {name: getattr(layer, name, None) for name in _LAYER_SIZES}
        found = {name: [*size] if isinstance(size, tuple) else [size] for name, size in sizes.items() if size}
        if found and all(type(size) is int for each in found.values() for size in each):
            yield TorchLayer(type(layer).__name__, found)


if __name__ == "__main__":
    _target, _directory, _project, _given, _file = sys.argv[1:]
    _facts = facts_of_target(_target, Path(_directory), Path(_project), msgspec.json.decode(_given))
    Path(_file).write_bytes(msgspec.json.encode(_facts))
