"""Which specifications do the kinds "onnx" and "onnx_test" take, and which files do they depend on?

Suites read them when they load, so this module imports neither onnx nor onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os.path import normpath
from pathlib import Path
from typing import Any

from precreg.errors import nearest
from precreg.storage import format_value
from precreg.subject.kind import Dependencies, Kind, SpecPlace
from precreg.subject.onnx.external_data import external_files
from precreg.subject.spec_checks import require_option

# onnxruntime.get_all_providers() of 1.32, and the names that earlier versions had.
PROVIDERS = [
    "AclExecutionProvider",
    "ArmNNExecutionProvider",
    "AzureExecutionProvider",
    "CANNExecutionProvider",
    "CPUExecutionProvider",
    "CUDAExecutionProvider",
    "CoreMLExecutionProvider",
    "DmlExecutionProvider",
    "DnnlExecutionProvider",
    "JsExecutionProvider",
    "MIGraphXExecutionProvider",
    "NnapiExecutionProvider",
    "NvTensorRTRTXExecutionProvider",
    "OpenVINOExecutionProvider",
    "QNNExecutionProvider",
    "ROCMExecutionProvider",
    "RknpuExecutionProvider",
    "TensorrtExecutionProvider",
    "TvmExecutionProvider",
    "VSINPUExecutionProvider",
    "VitisAIExecutionProvider",
    "WebGpuExecutionProvider",
    "WebNNExecutionProvider",
    "XnnpackExecutionProvider",
]
CPU_PROVIDER = "CPUExecutionProvider"
OPTIMIZATIONS = ("disabled", "basic", "extended", "all")
# Of the reference: the dtype in which floats are computed, and of nodes that nothing computes in float64.
_FLOAT64, _FLOAT32 = "float64", "float32"
_MAX_THREADS = 1024


def _read_providers(value: Any, place: SpecPlace) -> list[Any]:
    """Return the providers in order, each as its name, or as [name, options]."""
    given = value if isinstance(value, list) and value else [value]
    return [_read_provider(item, place) for item in given]


def _read_provider(item: Any, place: SpecPlace) -> Any:
    name, options = (*item.items(),)[0] if isinstance(item, dict) and len(item) == 1 else (item, {})
    if not isinstance(name, str) or not isinstance(options, dict):
        expected = "the name of an execution provider, or {NAME: {OPTION: value}}"
        raise place.error("bad-value", f"expected {expected} but got providers={format_value(item)}", "providers")
    if name not in PROVIDERS:
        message = f"expected an execution provider of ONNX Runtime but got providers={name}{nearest(name, PROVIDERS)}"
        raise place.error("bad-value", message, "providers")
    return [name, options] if options else name


def _one_of(key: str, *known: str) -> Callable[[Any, SpecPlace], str]:
    def read(value: Any, place: SpecPlace) -> str:
        if value not in known:
            message = f"expected one of {', '.join(known)} but got {key}={format_value(value)}"
            raise place.error("bad-value", message + nearest(str(value), known), key)
        return str(value)

    return read


def _read_names(key: str) -> Callable[[Any, SpecPlace], list[str]]:
    def read(value: Any, place: SpecPlace) -> list[str]:
        names = value if isinstance(value, list) and value else [value]
        if not all(isinstance(name, str) and name for name in names):
            raise place.error("bad-value", f"expected names but got {key}={format_value(value)}", key)
        return names

    return read


def _read_threads(value: Any, place: SpecPlace) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_THREADS:
        message = f"expected a number of threads from 1 to {_MAX_THREADS} but got threads={format_value(value)}"
        raise place.error("bad-value", message, "threads")
    return value


def _read_dimensions(value: Any, place: SpecPlace) -> dict[str, int]:
    fits = isinstance(value, dict) and all(type(size) is int and size > 0 for size in value.values())
    if not fits:
        expected = "sizes by the name of a dimension, such as {batch: 8},"
        message = f"expected {expected} but got free_dimensions={format_value(value)}"
        raise place.error("bad-value", message, "free_dimensions")
    return {str(name): size for name, size in value.items()}


def _read_kept(value: Any, place: SpecPlace) -> dict[str, list[str]]:
    if not isinstance(value, dict) or set(value) != {_FLOAT32}:
        expected = "nodes that compute in float32, such as {float32: [softmax]},"
        raise place.error("bad-value", f"expected {expected} but got keep_in={format_value(value)}", "keep_in")
    return {_FLOAT32: _read_names("keep_in")(value[_FLOAT32], place)}


def _read_flag(key: str) -> Callable[[Any, SpecPlace], bool]:
    def read(value: Any, place: SpecPlace) -> bool:
        if isinstance(value, bool):
            return value
        raise place.error("bad-value", f"expected true or false but got {key}={format_value(value)}", key)

    return read


# By option: how it is read, and the value that is left out of the specification.
_RUNTIME_OPTIONS: dict[str, tuple[Callable[[Any, SpecPlace], Any], Any]] = {
    "providers": (_read_providers, [CPU_PROVIDER]),
    "optimization": (_one_of("optimization", *OPTIMIZATIONS), "all"),
    "deterministic": (_read_flag("deterministic"), False),
    "threads": (_read_threads, 1),
    "free_dimensions": (_read_dimensions, {}),
}
MODEL_OPTIONS: dict[str, tuple[Callable[[Any, SpecPlace], Any], Any]] = {
    **_RUNTIME_OPTIONS,
    "outputs": (_read_names("outputs"), None),
    "nodes": (_read_names("nodes"), []),
    "keep_in": (_read_kept, None),
    "round_nodes": (_read_flag("round_nodes"), False),
    "precision": (_one_of("precision", _FLOAT64), None),
    "fallback": (_one_of("fallback", _FLOAT32), None),
}
# The reference computes without ONNX Runtime's optimizations, on its CPU provider or by the reference evaluator.
_UNUSED_BY_REFERENCE = ("providers", "optimization", "deterministic", "keep_in", "round_nodes")


def _read_options(
    known: Mapping[str, tuple[Callable[[Any, SpecPlace], Any], Any]], options: Mapping[str, Any], place: SpecPlace
) -> dict[str, Any]:
    """Return the options that differ from their defaults. Raises UserError: unknown-key, bad-value."""
    read = {}
    for name, value in options.items():
        require_option(name, known, place, of="the kind")
        check, default = known[name]
        checked = check(value, place)
        if checked != default:
            read[name] = checked
    return read


def _read_model(value: Any, options: Mapping[str, Any], place: SpecPlace) -> dict[str, Any]:
    if not isinstance(value, str) or not value:
        raise place.error(
            "bad-value",
            f"expected the path of a model but got onnx={format_value(value)}",
            hint="write the path beside the suite: subject: {onnx: net.onnx}",
        )
    place.require_file(value)
    # Relative to the suite, as the user wrote it: calls and dependencies know the folder of the suite.
    spec = {"model": normpath(value), **_read_options(MODEL_OPTIONS, options, place)}
    if "precision" in spec:
        for name in _UNUSED_BY_REFERENCE:
            if name in spec:
                message = f"expected precision: float64 or {name} but got both"
                raise place.error(
                    "bad-value",
                    f"{message}; float64 is computed without optimizations",
                    name,
                    hint=f"remove precision: or {name}:",
                )
    elif "fallback" in spec:
        raise place.error(
            "bad-value",
            "expected precision: float64 beside fallback but it is not there",
            "fallback",
            hint="write precision: float64, fallback: float32, or remove fallback:",
        )
    return spec


def _reference_of_model(spec: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in spec.items() if name not in _UNUSED_BY_REFERENCE}
    return {**kept, "precision": _FLOAT64}


def _model_dependencies(spec: dict[str, Any], folder: Path) -> Dependencies:
    model = Path(normpath(folder / spec["model"]))
    return Dependencies(files=[str(model), *(str(path) for path in external_files(model))])


def _model_requirements(spec: dict[str, Any]) -> tuple[str, ...]:
    needs_onnx = any(spec.get(name) for name in ("precision", "nodes", "keep_in", "round_nodes"))
    return ("onnxruntime", "onnx") if needs_onnx else ("onnxruntime",)


def _read_test(value: Any, options: Mapping[str, Any], place: SpecPlace) -> dict[str, Any]:
    if not isinstance(value, str) or not value:
        raise place.error(
            "bad-value",
            f"expected the folder of a test but got onnx_test={format_value(value)}",
            hint="write the folder beside the suite: subject: {onnx_test: node/test_add}",
        )
    place.require_file(f"{value}/{MODEL_FILE}")
    given = {name: option for name, option in options.items() if name != "expected"}
    spec = {"test": normpath(value), **_read_options(_RUNTIME_OPTIONS, given, place)}
    return {"test": spec["test"], "expected": True} if options.get("expected") is True else spec


def _test_requirements(spec: dict[str, Any]) -> tuple[str, ...]:
    return ("onnx",) if "expected" in spec else ("onnxruntime", "onnx")


# The model of an ONNX backend test, in the test's folder.
MODEL_FILE = "model.onnx"

ONNX = Kind(
    run="precreg.subject.onnx.model:run_model",
    read=_read_model,
    dependencies=_model_dependencies,
    requirements=_model_requirements,
    reference=_reference_of_model,
    widest=_FLOAT64,
)
ONNX_TEST = Kind(
    run="precreg.subject.onnx.backend_test:run_test",
    read=_read_test,
    dependencies=lambda spec, folder: Dependencies(files=[f"{normpath(folder / spec['test'])}/**"]),
    requirements=_test_requirements,
    is_recorded=lambda spec: "expected" in spec,
)
