"""How do kept calls become a suite that runs at once: a YAML file, and the arrays beside it?"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from precreg.errors import UserError
from precreg.storage import find_project, open_replacement, replace_file, report_write_errors

if TYPE_CHECKING:
    from precreg.suite.capture.calls import CallStore, CapturedCall


class CaptureReport(NamedTuple):
    """The written suites, relative to the project, and one sentence about the calls."""

    suites: tuple[str, ...]
    text: str


def find_home(start: Path) -> Path:
    """Return the project at or above a folder, the root of its git repository, or the folder itself."""
    start = start.resolve()
    try:
        return find_project(start)
    except UserError:
        return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def suite_path(project: Path, name: str) -> Path:
    """Return the path of a captured suite."""
    return project / "suites" / "unit" / f"{name}.yaml"


def write_suite(
    name: str,
    target: str | None,
    store: CallStore,
    project: Path,
    *,
    file: str | None,
    oracle: Literal["reference", "golden"],
    is_torch: bool,
    force: bool,
    about: str = "",
) -> CaptureReport:
    """Write the kept calls as one suite, or as several where calls have other arguments.

    `about` describes the calls in place of the default.

    Raises UserError: bad-value without a call, for a function that no suite can name, and for a suite that exists.
    """
    if not store.calls:
        counted = f"{store.seen} calls" if store.seen else "no call"
        message = f"expected calls of {target or name} but saw {counted} that a suite can repeat"
        raise UserError("bad-value", message, hint="call the function with arrays: layer_norm(numpy.ones((8, 8)))")
    if target is None:
        message = f"expected a function of a module but {name} is local, so no suite can name it"
        raise UserError("bad-value", message, hint="define it at the top of a module, outside of other functions")
    subject = _subject(target, project, file)
    groups = [*_groups(store.calls)]
    names = [name if not place else f"{name}-{place + 1}" for place in range(len(groups))]
    for each in names:
        if (path := suite_path(project, each)).exists() and not force:
            shown = path.relative_to(project).as_posix()
            hint = f"replace it with force=True, or write another name: name='{each}_2'"
            raise UserError("bad-value", f"expected a name that is free but {shown} exists", hint=hint)
    files = [
        _write_group(each, subject, calls, project, oracle=oracle, is_torch=is_torch, about=about)
        for each, calls in zip(names, groups, strict=True)
    ]
    left = [f"{store.alike} alike", f"{store.dropped} beyond the limit", f"{store.too_large} beyond max_bytes"]
    dropped = ", ".join(text for text in left if not text.startswith("0 "))
    rest = f" ({dropped})" if dropped else ""
    text = f"kept {len(store.calls)} of {store.seen} calls of {subject}{rest} in {', '.join(files)}"
    return CaptureReport(tuple(files), f"{text}; run them with: precreg run unit/{name}")


def _subject(target: str, project: Path, file: str | None) -> str:
    """Return module:function as a suite in suites/unit/ finds it. Raises UserError: bad-value."""
    from precreg.suite.computations import find_module, search_path

    module, _, function = target.partition(":")
    folders = search_path(project, "suites/unit")
    if module != "__main__":
        found = find_module(module, folders)
        # The module itself, or one that is installed, or one that this process does not know.
        if found is not None or file is None or not Path(file).resolve().is_relative_to(project):
            return target
        if "site-packages" in file:
            return target
    if file is not None and Path(file).resolve().is_relative_to(project):
        parts = Path(file).resolve().relative_to(project).with_suffix("").parts
        if all(part.isidentifier() for part in parts):
            return f"{'.'.join(parts)}:{function}"
    message = f"expected a module that suites find but {target} lies in {file or 'no file'}"
    raise UserError(
        "bad-value",
        message,
        hint="run the program in its project, or move the function into a module of the project",
    )


def _groups(calls: list[CapturedCall]) -> Iterator[list[CapturedCall]]:
    """Yield calls with the same arguments, and with the same values where a matrix cannot vary them."""
    groups: defaultdict[str, list[CapturedCall]] = defaultdict(list)
    for call in calls:
        fixed = {name: value for name, value in call.params.items() if not _can_vary(value)}
        key = json.dumps([[*call.inputs], [*call.params], fixed, [*call.outputs]])
        groups[key].append(call)
    yield from groups.values()


def _can_vary(value: Any) -> bool:
    """Return whether a matrix may have the value: a scalar, or a list of scalars."""
    items = value if isinstance(value, list) else [value]
    return all(
        (isinstance(item, str) and bool(item.strip()) and item.isprintable() and len(item) < 40)
        or item is None
        or isinstance(item, bool | int | float)
        for item in items
    )


def _write_group(
    name: str,
    subject: str,
    calls: list[CapturedCall],
    project: Path,
    *,
    oracle: Literal["reference", "golden"],
    is_torch: bool,
    about: str,
) -> str:
    """Write one suite with its arrays, the arrays first, and return its path in the project."""
    path = suite_path(project, name)
    shown = path.relative_to(project).as_posix()
    with report_write_errors(shown):
        (path.parent / name).mkdir(parents=True, exist_ok=True)
        labels = [_label(place, call) for place, call in enumerate(calls)]
        for label, call in zip(labels, calls, strict=True):
            _write_arrays(path.parent / name / f"{label}.npz", call.inputs)
            if oracle == "golden":
                _write_arrays(path.parent / f"{name}-{label}.npz", call.outputs)
        lines = _suite_lines(name, subject, labels, calls, oracle=oracle, is_torch=is_torch, about=about)
        replace_file(path, "".join(f"{line}\n" for line in lines).encode())
    return shown


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    from precreg.storage import write_npz

    with open_replacement(path) as stream:
        write_npz(stream, arrays)


def _label(place: int, call: CapturedCall) -> str:
    """Return the name of a call: its number, and dtype and shape of its first array."""
    from precreg.arithmetic import dtype_name

    first = next(iter(call.inputs.values()), None)
    if first is None:
        return f"call{place}"
    shape = "x".join(map(str, first.shape)) or "scalar"
    return f"call{place}-{dtype_name(first.dtype)}-{shape}"


def _suite_lines(
    name: str,
    subject: str,
    labels: list[str],
    calls: list[CapturedCall],
    *,
    oracle: Literal["reference", "golden"],
    is_torch: bool,
    about: str,
) -> Iterator[str]:
    varied = _varied_params(calls)
    # A golden is the file of the outputs, which a parameter names whole.
    values = [f"{name}-{label}.npz" if oracle == "golden" else label for label in labels]
    yield f"suite: {name}"
    yield f"about: {json.dumps(about or f'Live calls of {subject}, as a program made them')}"
    yield f"subject: {json.dumps({'torch': subject}) if is_torch else json.dumps(subject)}"
    if oracle == "golden":
        yield "golden: {files: $call}  # the outputs of the program"
    elif not is_torch:  # a torch subject brings its own reference
        yield f"reference: {json.dumps(subject)}  # in higher precision, because it gets wider inputs"
    yield "matrix:"
    yield "  include:"
    for value, call in zip(values, calls, strict=True):
        yield f"    - {json.dumps({'call': value, **{each: call.params[each] for each in varied}})}"
    if calls[0].inputs:
        yield "inputs:"
    for argument in calls[0].inputs:
        yield f"  {json.dumps(argument)}:"
        yield "    pick: $call"
        yield "    from:"
        for value, label, call in zip(values, labels, calls, strict=True):
            yield f"      {json.dumps(value)}: {json.dumps(_input(name, label, argument, call))}"
    if calls[0].params:
        yield "params:"
    for each, value in calls[0].params.items():
        yield f"  {json.dumps(each)}: {json.dumps(f'${each}' if each in varied else value)}"


def _varied_params(calls: list[CapturedCall]) -> list[str]:
    first = calls[0].params
    return [name for name in first if len({json.dumps(call.params[name]) for call in calls}) > 1]


def _input(name: str, label: str, argument: str, call: CapturedCall) -> dict[str, Any]:
    from precreg.arithmetic import dtype_name

    array = call.inputs[argument]
    place = {"path": f"{name}/{label}.npz", "key": argument}
    return {"shape": list(array.shape), "dtype": dtype_name(array.dtype), "file": place}
