"""How does a model become a session of ONNX Runtime, and which facts describe the session?

A process keeps its latest sessions. A session is made again if a file of the model or an option changes.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from os.path import normpath
from pathlib import Path
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precreg.errors import UserError, nearest
from precreg.storage import open_regular_file, read_regular_file, resolve_inside
from precreg.subject.call import Call
from precreg.subject.health import KIND_IMPORT, note_use, watch_import
from precreg.subject.onnx.external_data import external_files
from precreg.subject.onnx.kind import CPU_PROVIDER, OPTIMIZATIONS
from precreg.subject.onnx.tensors import STRING, element_dtype, from_runtime, is_plain, tensor_type, to_runtime
from precreg.subject.surroundings import SettingsRestored, unavailable

IMPORT_KEY = (KIND_IMPORT, "onnx")
# Messages of ONNX Runtime begin with this, a number and the name of the error.
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : (\w+) : ")
_MAX_MESSAGE = 400
FOLDER_OF_WEIGHTS = "session.model_external_initializers_file_folder_path"
_ONLY_FATAL = 4


class ModelFile(NamedTuple):
    """The bytes of a model, its name for messages, and the folder of its external data."""

    name: str
    content: bytes
    folder: Path


@cache
def runtime() -> Any:
    """Import ONNX Runtime and return its module."""
    # Not SurroundingsRestored: libraries set variables on import that they need later.
    with watch_import(IMPORT_KEY), SettingsRestored():
        import onnxruntime
    return onnxruntime


@cache
def onnx_package() -> Any:
    """Import the package onnx and return its module."""
    with watch_import(IMPORT_KEY), SettingsRestored():
        import onnx
        import onnx.external_data_helper
        import onnx.helper
        import onnx.inliner
        import onnx.numpy_helper
        import onnx.reference
        import onnx.shape_inference
    return onnx


def read_model(path: str, directory: Path, project: Path) -> ModelFile:
    """Read a model beside the suite, and check that its external data is there.

    Raises:
        UserError: missing-file, outside-project.
    """
    name = _shown(Path(normpath(directory / path)), project)
    model = resolve_inside(project, normpath(directory / path))
    if not model.is_file():
        raise UserError("missing-file", f"expected the model {name} but it is not there")
    for weights in external_files(model):
        resolve_inside(project, weights, file=name)
        if not weights.is_file():
            message = f"expected the weights of the model in {_shown(weights, project)} but the file is not there"
            raise UserError("missing-file", message, file=name)
        # ONNX Runtime opens it without Python, so this is how the files of a reference show in its list.
        open_regular_file(weights).close()
    return ModelFile(name, read_regular_file(model), model.parent)


def _shown(path: Path, project: Path) -> str:
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)


def model_signature(path: str, directory: Path) -> tuple[Any, ...]:
    """Return what changes when a file of a model does: names, times of the last change and sizes."""
    model = Path(normpath(directory / path))
    return tuple(_file_state(each) for each in (model, *external_files(model)))


def _file_state(path: Path) -> tuple[str, int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return str(path), 0, 0, 0
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino


class KeptObjects:
    """The latest objects that a process made for its keys, at most `size` of them."""

    def __init__(self, size: int) -> None:
        self._size, self._kept = size, OrderedDict[Any, Any]()

    def find(self, key: Any) -> Any:
        """Return the object of a key, or None."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: Any, made: Any) -> None:
        """Keep an object, and drop the one that was used the longest time ago if there are too many."""
        self._kept[key] = made
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)


# Smaller weights stay in the file of a saved program itself.
_SMALL_WEIGHT_BYTES = 1024
_WEIGHTS_OF_PROGRAM = "session.optimized_model_external_initializers_file_name"
_LEAST_OF_PROGRAM = "session.optimized_model_external_initializers_min_size_in_bytes"


def make_session(model: ModelFile, options: Mapping[str, Any], saved: Path | None = None) -> Any:
    """Load a model into ONNX Runtime with the options of a specification.

    With `saved`, write the optimized program to this file, and its weights beside it, with the suffix .bin.

    Raises CaseFailed (unavailable) for an absent provider or device; UserError: bad-model, and unsupported-model for an
    operator without an implementation; bad-value, for a free dimension that the model lacks.
    """
    ort = runtime()
    providers = provider_list(options)
    settings = ort.SessionOptions()
    # Errors are raised as well; printed text would repeat them.
    settings.log_severity_level = _ONLY_FATAL
    settings.intra_op_num_threads = settings.inter_op_num_threads = options.get("threads", 1)
    # Threads that wait would spin, and take the processors of other workers.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.add_session_config_entry(FOLDER_OF_WEIGHTS, str(model.folder))
    settings.use_deterministic_compute = options.get("deterministic", False)
    level = options.get("optimization", OPTIMIZATIONS[-1])
    settings.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{_LEVELS[level]}")
    if saved is not None:
        settings.optimized_model_filepath = str(saved)
        settings.add_session_config_entry(_WEIGHTS_OF_PROGRAM, saved.with_suffix(".bin").name)
        settings.add_session_config_entry(_LEAST_OF_PROGRAM, str(_SMALL_WEIGHT_BYTES))
    free = options.get("free_dimensions", {})
    if free:
        _require_dimensions(model, free)
    for name, size in free.items():
        settings.add_free_dimension_override_by_name(name, size)
    try:
        session = ort.InferenceSession(model.content, settings, providers=providers)
    # The classes of ONNX Runtime's errors have no common base, and its C++ parts raise RuntimeError, too.
    except Exception as error:
        raise _load_error(model, error) from None
    _require_providers(providers, session.get_providers())
    return session


def _require_dimensions(model: ModelFile, names: Iterable[str]) -> None:
    """Refuse names that no dimension of an input has: ONNX Runtime would ignore them. Raises UserError: bad-value."""
    graph = onnx_package().load_model_from_string(model.content).graph
    known = {size.dim_param for each in graph.input for size in each.type.tensor_type.shape.dim if size.dim_param}
    for name in names:
        if name not in known:
            has = ", ".join(sorted(known)) or "none"
            message = f"expected a named dimension of the model's inputs ({has}) but got free_dimensions={name}"
            raise UserError(
                "bad-value",
                f"{message}{nearest(name, known)}",
                file=model.name,
                hint=f"write a dimension of the model: free_dimensions: {{{next(iter(sorted(known)), 'batch')}: 8}}",
            )


_LEVELS = dict(zip(OPTIMIZATIONS, ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL"), strict=True))


def provider_list(options: Mapping[str, Any]) -> list[Any]:
    """Return the providers of a specification, as ONNX Runtime takes them.

    Raises CaseFailed (unavailable) for a provider that the installed ONNX Runtime lacks.
    """
    ort = runtime()
    given = options.get("providers", [CPU_PROVIDER])
    there = ort.get_available_providers()
    for item in given:
        name = item if isinstance(item, str) else item[0]
        if name not in there:
            has = f"onnxruntime {ort.__version__} has {', '.join(there)}"
            raise unavailable(f"needs {name}, but {has}: install a package of ONNX Runtime with it")
    return [item if isinstance(item, str) else (item[0], item[1]) for item in given]


def _require_providers(wanted: Sequence[Any], active: Sequence[str]) -> None:
    """Refuse a session without a wanted provider: ONNX Runtime goes on with its CPU provider if a device is absent."""
    for item in wanted:
        name = item if isinstance(item, str) else item[0]
        if name not in active:
            has = f"ONNX Runtime could start {', '.join(active)} only"
            raise unavailable(f"needs {name}, but {has}: check its device and driver")


def runtime_message(error: BaseException) -> str:
    """Return the message of an error of ONNX Runtime in one line, without the number of the error."""
    text = " ".join(str(error).split())
    return _PREFIX.sub("", text)[:_MAX_MESSAGE]


def lacks_implementation(error: BaseException) -> bool:
    """Return whether an error says that ONNX Runtime does not implement an operator for some type or attribute."""
    text = str(error)
    return type(error).__name__ == "NotImplemented" or any(phrase in text for phrase in _UNIMPLEMENTED)


_UNIMPLEMENTED = (
    "NOT_IMPLEMENTED",
    "is not a registered function/op",
    "are not supported",
    "is not supported",
    "not implemented",
    "Unsupported ",
)


def _load_error(model: ModelFile, error: BaseException) -> UserError:
    version = runtime().__version__
    if lacks_implementation(error):
        expected = f"operators that onnxruntime {version} implements"
        return UserError("unsupported-model", f"expected {expected} but: {runtime_message(error)}", file=model.name)
    expected = f"a model that onnxruntime {version} can load"
    return UserError("bad-model", f"expected {expected} but: {runtime_message(error)}", file=model.name)


def session_facts(session: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts of a session: version, providers and optimization level."""
    facts = {
        "onnxruntime": runtime().__version__,
        "onnxruntime providers": ", ".join(session.get_providers()),
        "onnxruntime optimization": options.get("optimization", OPTIMIZATIONS[-1]),
    }
    if options.get("deterministic"):
        facts["onnxruntime deterministic"] = "true"
    return facts


class RuntimeOutputs(NamedTuple):
    """The values of a session's outputs by name, and the duration of the run in seconds.

    A value is an array, a list for a sequence, or None for an optional value that is absent.
    """

    values: dict[str, Any]
    duration_s: float


def run_feeds(session: Any, feeds: Mapping[str, Any], names: Sequence[str]) -> RuntimeOutputs:
    """Run a session on values as `to_runtime` makes them, and return the named outputs.

    Raises UserError: bad-outputs, for a sequence in a format that numpy lacks; and ONNX Runtime's own errors.
    """
    kinds = {output.name: output.type for output in session.get_outputs()}
    if all(_returns_numpy(kinds[name]) for name in names):
        started = perf_counter_ns()
        found = session.run(list(names), dict(feeds))
        duration_s = (perf_counter_ns() - started) / 1e9
        return RuntimeOutputs(dict(zip(names, found, strict=True)), duration_s)
    for name in names:
        if tensor_type(kinds[name]) is None:
            raise UserError("bad-outputs", f"expected tensors beside formats that numpy lacks but got {kinds[name]}")
    from onnxruntime import OrtValue

    own = {
        name: OrtValue.ortvalue_from_numpy(value) if isinstance(value, np.ndarray) else value
        for name, value in feeds.items()
    }
    started = perf_counter_ns()
    values = session.run_with_ort_values(list(names), own)
    duration_s = (perf_counter_ns() - started) / 1e9
    return RuntimeOutputs({name: from_runtime(value) for name, value in zip(names, values, strict=True)}, duration_s)


def _returns_numpy(kind: str) -> bool:
    """Return whether run() returns an output in its own dtype; it gives some 8-bit formats as uint8."""
    element = tensor_type(kind)
    if element is not None:
        return is_plain(element)
    return not any(word in kind for word in ("bfloat16", "float8", "float4", "int4", "int2)"))


def bind_inputs(session: Any, call: Call, model: str) -> dict[str, Any]:
    """Return the inputs and params of a call as values for a session, by the names of its inputs.

    Raises:
        UserError: bad-model-inputs, for missing or superfluous names, for another dtype or shape, and for a dtype that
            cannot hold the values.
    """
    wanted = {each.name: each for each in session.get_inputs()}
    given: dict[str, Any] = {**call.params, **call.inputs}
    missing, extra = [name for name in wanted if name not in given], [name for name in given if name not in wanted]
    if missing or extra:
        lacks = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has also {', '.join(extra)}"] * bool(extra)
        inputs = ", ".join(f"{name}: {each.type}" for name, each in wanted.items()) or "no input"
        message = f"expected the inputs of the model ({inputs}) but the case {' and '.join(lacks)}"
        raise UserError("bad-model-inputs", message, file=model)
    sizes: dict[str, tuple[int, str]] = {}
    return {name: _bind(each, given[name], model, sizes) for name, each in wanted.items()}


def _bind(wanted: Any, given: Any, model: str, sizes: dict[str, tuple[int, str]]) -> Any:
    element = tensor_type(wanted.type)
    if element is None or element is STRING:
        message = f"expected inputs that are tensors of numbers but {wanted.name} is {wanted.type}"
        raise UserError("bad-model-inputs", f"{message}; a folder of node tests takes it", file=model)
    array = convert_exactly(np.asarray(given), element_dtype(element), wanted.name, model)
    require_shape(wanted.name, array.shape, wanted.shape, model, sizes)
    return to_runtime(array, element)


def convert_exactly(array: NDArray[Any], dtype: np.dtype[Any], name: str, model: str) -> NDArray[Any]:
    """Return an array in the dtype of the model's input. A conversion must keep each value.

    A reference gets its inputs in a wider dtype, and another model may be the reference: it gets the drawn values back.
    Raises UserError: bad-model-inputs.
    """
    if array.dtype == dtype:
        return array
    converted = array.astype(dtype)
    if array.dtype.kind != "b" and dtype.kind != "b" and _same_values(array, converted):
        return converted
    message = f"expected {name} of dtype={dtype.name}, as in the model, but got dtype={array.dtype.name}"
    raise UserError("bad-model-inputs", message, file=model)


def _same_values(array: NDArray[Any], converted: NDArray[Any]) -> bool:
    wide = np.clongdouble if "c" in (array.dtype.kind, converted.dtype.kind) else np.longdouble
    return np.array_equal(array.astype(wide), converted.astype(wide), equal_nan=True)


def require_shape(
    name: str, shape: tuple[int, ...], wanted: Sequence[Any] | None, model: str, sizes: dict[str, tuple[int, str]]
) -> None:
    """Require the shape of a model's input. A named dimension has one size, which `sizes` holds with its first input.

    Raises UserError: bad-model-inputs.
    """
    # ONNX Runtime gives no dimensions for a scalar or for an unknown rank, and checks scalars itself.
    if not wanted:
        return
    expected = "×".join(str(size) if size is not None else "?" for size in wanted)
    got = "×".join(map(str, shape)) or "()"
    if len(shape) != len(wanted):
        message = f"expected {name} of shape {expected}, as in the model, but got {got}"
        raise UserError("bad-model-inputs", message, file=model)
    for axis, (size, dimension) in enumerate(zip(shape, wanted, strict=True)):
        known = sizes.setdefault(dimension, (size, name))[0] if isinstance(dimension, str) else dimension
        if isinstance(known, int) and known != size:
            why = f"axis {axis} of {name} is {size}"
            of = f"{dimension}={known} in {sizes[dimension][1]}" if isinstance(dimension, str) else str(known)
            message = f"expected {name} of shape {expected} but got {got}: {why}, and the model has {of}"
            raise UserError("bad-model-inputs", message, file=model)


def note_model_use() -> None:
    """Attribute the changes by the import of ONNX Runtime to the present case."""
    note_use(IMPORT_KEY)
