"""How is a test of ONNX's backend tests run, and which outputs does it expect?

A test is a folder with model.onnx and data sets: test_data_set_0/input_0.pb, output_0.pb and so on. Values belong to
the graph's inputs and outputs by their places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os.path import normpath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precreg.errors import UserError
from precreg.subject.call import Call, Outputs, check_outputs
from precreg.subject.onnx.graph import parse_model
from precreg.subject.onnx.kind import MODEL_FILE
from precreg.subject.onnx.session import (
    lacks_implementation,
    make_session,
    note_model_use,
    read_model,
    run_feeds,
    runtime,
    runtime_message,
    session_facts,
)
from precreg.subject.onnx.stored_values import name_stored, read_value
from precreg.subject.onnx.tensors import BY_NUMBER, element_dtype, is_plain, to_runtime
from precreg.subject.surroundings import CaseFailed, SurroundingsRestored, unavailable

_DATA_SET = re.compile(r"test_data_set_(\d+)")
_VALUE = re.compile(r"(input|output)_(\d+)\.pb")
_LOCALE = re.compile(r"Failed to construct locale with name:\s*([\w.@-]+)")


def run_test(spec: dict[str, Any], call: Call) -> Outputs:
    """Run the model of a test on its stored inputs, or return its stored outputs if the specification says expected.

    Raises CaseFailed (unavailable) for an operator that ONNX Runtime does not implement; UserError: bad-model,
    bad-tensor-file, model-failed, missing-file, outside-project, bad-outputs.
    """
    note_model_use()
    with SurroundingsRestored():
        return _expect(spec, call) if spec.get("expected") else _run(spec, call)


def _run(spec: dict[str, Any], call: Call) -> Outputs:
    folder = Path(normpath(call.directory / spec["test"]))
    model = read_model(f"{spec['test']}/{MODEL_FILE}", call.directory, call.project)
    graph = parse_model(model).graph
    arrays: dict[str, NDArray[Any]] = {}
    duration_s = 0.0
    try:
        session = make_session(model, spec)
    except UserError as error:
        raise _skipped_or(error) from None
    names = [output.name for output in session.get_outputs()]
    for number, feeds in data_set_feeds(folder, graph, call):
        try:
            found = run_feeds(session, feeds, names)
        except UserError:
            raise
        # The classes of ONNX Runtime's errors have no common base.
        except Exception as error:
            message = f"expected the model to compute but: {runtime_message(error)}"
            failure = UserError("model-failed", message, file=model.name)
            raise (_skipped_or(failure) if lacks_implementation(error) else failure) from None
        duration_s += found.duration_s
        arrays |= of_data_set(number, name_stored(found.values))
    return check_outputs(Outputs(arrays, duration_s, session_facts(session, spec)))


def data_set_feeds(folder: Path, graph: Any, call: Call) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each data set of a test, and its inputs as ONNX Runtime takes them."""
    for number, data in data_sets(folder):
        yield number, {name: _feed(value, kind) for name, value, kind in _values(data, "input", graph.input, call)}


def _expect(spec: dict[str, Any], call: Call) -> Outputs:
    folder = Path(normpath(call.directory / spec["test"]))
    graph = parse_model(read_model(f"{spec['test']}/{MODEL_FILE}", call.directory, call.project)).graph
    arrays: dict[str, NDArray[Any]] = {}
    for number, data in data_sets(folder):
        arrays |= of_data_set(
            number, name_stored({name: value for name, value, _ in _values(data, "output", graph.output, call)})
        )
    return check_outputs(Outputs(arrays, 0.0))


def data_sets(folder: Path) -> list[tuple[int, Path]]:
    """Return the data sets of a test by number. Raises UserError: missing-file, if it has none."""
    matches = ((_DATA_SET.fullmatch(entry.name), entry) for entry in folder.iterdir())
    found = sorted((int(match[1]), entry) for match, entry in matches if match and entry.is_dir())
    if not found:
        message = f"expected test_data_set_0 beside {MODEL_FILE} but the test has no data set"
        raise UserError("missing-file", message, file=folder.name)
    return found


def _values(data: Path, role: str, declared: Any, call: Call) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, the value and the type of each stored input or output of a data set."""
    matches = (_VALUE.fullmatch(entry.name) for entry in data.iterdir())
    places = sorted(int(match[2]) for match in matches if match and match[1] == role)
    shown = data.relative_to(call.project).as_posix() if data.is_relative_to(call.project) else data.name
    if places != list(range(len(places))) or len(places) > len(declared) or (role == "output" and not places):
        message = f"expected {role}_0.pb to {role}_{len(declared) - 1}.pb, as the graph has, but got numbers {places}"
        raise UserError("missing-file", message, file=shown)
    for place in places:
        name = f"{role}_{place}.pb"
        yield declared[place].name, read_value(data / name, declared[place].type, f"{shown}/{name}"), declared[place]


def _feed(value: Any, declared: Any) -> Any:
    """Return a stored value as ONNX Runtime takes it."""
    if not isinstance(value, np.ndarray):
        return value
    kind = declared.type
    tensor = kind.optional_type.elem_type.tensor_type if kind.HasField("optional_type") else kind.tensor_type
    element = BY_NUMBER.get(tensor.elem_type)
    if element is None or is_plain(element) or value.dtype != element_dtype(element):
        return value
    return to_runtime(value, element)


def of_data_set(number: int, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a data set under names of their own; the first set has the names of the graph."""
    return {name if number == 0 else f"set{number}.{name}": array for name, array in arrays.items()}


def _skipped_or(error: UserError) -> UserError | CaseFailed:
    """Return a skip in place of an error that says what this ONNX Runtime cannot compute; other errors stay."""
    version = runtime().__version__
    if locale := _LOCALE.search(error.message):
        return unavailable(f"needs the locale {locale[1]}, but the system lacks it: install its language pack")
    if error.slug == "unsupported-model" or lacks_implementation(error):
        detail = error.message.removeprefix(f"expected operators that onnxruntime {version} implements but: ")
        return unavailable(f"needs another provider, because onnxruntime {version} does not implement it: {detail}")
    return error
