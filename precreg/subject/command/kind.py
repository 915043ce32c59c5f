"""Which specification does the kind "command" take?

    subject:
      command: ["{build}/kernel", "{inputs.x}", "{outputs.y}", "{params.eps}"]
      format: bin
      outputs: {y: {dtype: float32, like: x}}
      build: {command: [cc, -O2, kernel.c, -o, "{build}/kernel"], sources: [kernel.c], produces: kernel}

The specification keeps the texts as they are: the folders differ from call to call. An option at its default is left
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from precreg.arithmetic import DTYPE_NAMES
from precreg.errors import UserError, key_hint, nearest
from precreg.storage import MAX_PATH, files_matching, format_value, resolve_inside
from precreg.subject.command.placeholders import (
    BUILD,
    FOLDER,
    INPUTS,
    OUTPUTS,
    PARAMS,
    PROJECT,
    PYTHON,
    SOURCES,
    SUITE,
    check_placeholders,
    members,
)
from precreg.subject.kind import Dependencies, Kind, SpecPlace

FORMATS = ("npy", "bin", "safetensors")
DEFAULT_FORMAT = "npy"
DEFAULT_BUILD_TIMEOUT_S = 600

_OPTIONS = ("format", INPUTS, OUTPUTS, "environment", FOLDER, BUILD, "version")
_INPUT_OPTIONS = ("format", "file")
_OUTPUT_OPTIONS = ("format", "file", "dtype", "shape", "like")
_BUILD_OPTIONS = ("command", SOURCES, "produces", "timeout")
_FOLDERS = (SUITE, PROJECT, PYTHON)
# A text that begins with one of these names a place inside the project.
_TREES = ("{build}/", "{suite}/", "{project}/")

# Keys that lead to a value, below the kind's key or an option.
Keys = tuple[str | int, ...]


class _Reader(NamedTuple):
    """Reads parts of a specification; errors name their places."""

    place: SpecPlace

    def bad(self, expected: str, got: object, *keys: str | int) -> UserError:
        name = next((key for key in reversed(keys) if isinstance(key, str)), "command")
        return self.place.error("bad-value", f"expected {expected} but got {name}={format_value(got)}", *keys)

    def mapping(self, value: Any, known: Iterable[str] | None, *keys: str | int) -> dict[str, Any]:
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise self.bad("a mapping", value, *keys)
        for name in value:
            if known is not None and name not in known:
                message = f"expected one of {', '.join(known)} but got {name}{nearest(name, known)}"
                raise self.place.error("unknown-key", message, *keys, name, hint=key_hint(name, known))
        return value

    def text(self, value: Any, *keys: str | int) -> str:
        # A number of the matrix is an argument as it is.
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.bad("a text or a number", value, *keys)
        text = repr(value) if isinstance(value, float) else str(value)
        if "\0" in text:
            raise self.bad("a text without NUL", value, *keys)
        return text

    def texts(self, value: Any, known: Iterable[str], *keys: str | int) -> list[str]:
        """Return a list of texts with placeholders; the first one is not empty."""
        if not isinstance(value, list) or not value or value[0] == "":
            raise self.bad('a list such as ["./kernel", "{inputs.x}", "{outputs.y}"]', value, *keys)
        found = [self.text(item, *keys, place) for place, item in enumerate(value)]
        for place, text in enumerate(found):
            self.check(text, known, *keys, place)
        return found

    def check(self, text: str, known: Iterable[str], *keys: str | int) -> None:
        try:
            check_placeholders(text, tuple(known))
        except UserError as error:
            raise self.place.error(error.slug, error.message, *keys, hint=error.hint) from None

    def format(self, value: Any, *keys: str | int) -> str:
        if value not in FORMATS:
            raise self.bad(f"one of {', '.join(FORMATS)}", value, *keys)
        return str(value)

    def file(self, value: Any, *keys: str | int) -> str:
        """Return a path inside the folder of a call."""
        path = PurePosixPath(value) if isinstance(value, str) else PurePosixPath()
        if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in value or len(value) > MAX_PATH:
            raise self.bad("a path inside the folder of the call, such as output/y.bin,", value, *keys)
        return path.as_posix()

    def program(self, text: str, *keys: str | int) -> None:
        """Check that a first word names no file outside the project; a word without a slash is searched on PATH."""
        if "{" not in text and "/" in text:
            if text.startswith("/"):
                message = f"expected a path beside the suite, or a name on PATH, but got {text}"
                raise self.place.error("outside-project", message, *keys)
            self.inside(text, *keys)

    def inside(self, path: str, *keys: str | int) -> None:
        try:
            resolve_inside(self.place.project, self.place.directory / path)
        except UserError as error:
            raise self.place.error(error.slug, f"expected a path inside the project but got {path}", *keys) from None


def _read_command(value: Any, options: Mapping[str, Any], place: SpecPlace) -> dict[str, Any]:
    reader = _Reader(place)
    for name in options:
        if name not in _OPTIONS:
            message = f"expected one of {', '.join(_OPTIONS)} beside command but got {name}{nearest(name, _OPTIONS)}"
            raise place.error("unknown-key", message, name, hint=key_hint(name, _OPTIONS))
    built = (BUILD,) if BUILD in options else ()
    known = (INPUTS, OUTPUTS, PARAMS, FOLDER, *_FOLDERS, *built)
    command = reader.texts(value, known)
    reader.program(command[0], 0)
    default = reader.format(options.get("format", DEFAULT_FORMAT), "format")
    variables = {
        name: reader.text(item, "environment", name)
        for name, item in reader.mapping(options.get("environment", {}), None, "environment").items()
    }
    for name, text in variables.items():
        if not name or "=" in name or "\0" in name:
            raise reader.bad("names of variables", name, "environment")
        reader.check(text, known, "environment", name)
    spec: dict[str, Any] = {"command": command}
    if default != DEFAULT_FORMAT:
        spec["format"] = default
    inputs = reader.mapping(options.get(INPUTS, {}), None, INPUTS)
    spec |= {INPUTS: {name: _read_input(reader, item, INPUTS, name) for name, item in inputs.items()}} if inputs else {}
    spec[OUTPUTS] = _read_outputs(reader, options.get(OUTPUTS), default, (*command, *variables.values()))
    spec |= {"environment": variables} if variables else {}
    spec |= _read_folder(reader, options, built)
    if built:
        spec[BUILD] = _read_build(reader, options[BUILD])
    if "version" in options:
        spec["version"] = reader.texts(options["version"], (*_FOLDERS, *built), "version")
        reader.program(spec["version"][0], "version", 0)
    return spec


def _read_folder(reader: _Reader, options: Mapping[str, Any], built: tuple[str, ...]) -> dict[str, str]:
    folder = reader.text(options.get(FOLDER, "{folder}"), FOLDER)
    if folder == "{folder}":
        return {}
    reader.check(folder, (FOLDER, SUITE, PROJECT, *built), FOLDER)
    trees = tuple(tree[:-1] for tree in _TREES)
    if not folder.startswith(trees) or ".." in folder.split("/"):
        raise reader.bad("a folder of the project, such as {suite} or {build}/data,", folder, FOLDER)
    return {FOLDER: folder}


def _read_input(reader: _Reader, value: Any, *keys: str | int) -> dict[str, str]:
    given = reader.mapping(value, _INPUT_OPTIONS, *keys)
    read = {"format": reader.format} | {"file": reader.file}
    return {name: read[name](item, *keys, name) for name, item in given.items()}


def _read_outputs(reader: _Reader, given: Any, default: str, texts: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return the outputs that are declared, or those that the placeholders name."""
    named = members(texts, OUTPUTS)
    declared = reader.mapping({name: {} for name in named} if given is None else given, None, OUTPUTS)
    if not declared:
        message = "expected an output, as {outputs.y} in command or in outputs: {y: {}}, but got none"
        hint = "name the file that the program writes: command: [./kernel, '{inputs.x}', '{outputs.y}']"
        raise reader.place.error("missing-key", message, hint=hint)
    for name in named:
        if name not in declared:
            message = f"expected one of {', '.join(declared)} but got {{outputs.{name}}}{nearest(name, declared)}"
            raise reader.place.error("unknown-placeholder", message)
    keys = () if given is None else (OUTPUTS,)
    return {name: _read_output(reader, item, default, name, keys) for name, item in declared.items()}


def _read_output(reader: _Reader, value: Any, default: str, name: str, keys: Keys) -> dict[str, Any]:
    at = (*keys, name) if keys else ()
    given = dict(reader.mapping(value, _OUTPUT_OPTIONS, *at))
    for key in given:
        if key == "file":
            given[key] = reader.file(given[key], *at, key)
        elif key == "format":
            reader.format(given[key], *at, key)
        elif key == "dtype" and given[key] not in DTYPE_NAMES:
            near = nearest(str(given[key]), DTYPE_NAMES)
            message = f"expected a dtype but got dtype={format_value(given[key])}{near}"
            raise reader.place.error("unknown-dtype", message, *at, key)
        elif key == "shape":
            given[key] = _read_shape(reader, given[key], *at, key)
        elif key == "like" and not isinstance(given[key], str):
            raise reader.bad("the name of an input", given[key], *at, key)
    if "file" not in given and not is_file_name(name):
        message = f"expected file: for an output whose name is no file name but got {format_value(name)}"
        raise reader.place.error("bad-value", message, *at, hint="name its file: outputs: {NAME: {file: y.bin}}")
    if "shape" in given and "like" in given:
        raise reader.place.error(
            "bad-value", "expected shape or like but got both", *at, "like", hint="remove shape: or like:"
        )
    if file_format(given, default) == "bin" and "like" not in given and not {"dtype", "shape"} <= given.keys():
        message = f"expected dtype and shape, or like, of the output {name}, because a .bin file has neither"
        raise reader.place.error(
            "missing-key",
            message,
            *at,
            hint=f"add them: outputs: {{{name}: {{dtype: float32, shape: [8]}}}}, or {{like: x}}",
        )
    return given


def _read_shape(reader: _Reader, value: Any, *keys: str | int) -> list[int]:
    lengths = [value] if type(value) is int else value
    if not isinstance(lengths, list) or not all(type(length) is int and length >= 0 for length in lengths):
        raise reader.bad("a shape such as [8, 128]", value, *keys)
    return lengths


def _read_build(reader: _Reader, value: Any) -> dict[str, Any]:
    given = reader.mapping(value, _BUILD_OPTIONS, BUILD)
    for key in ("command", SOURCES, "produces"):
        if key not in given:
            raise reader.place.error("missing-key", f"expected {key} in build", BUILD)
    known = (*_FOLDERS, BUILD, SOURCES)
    command, at = given["command"], (BUILD, "command")
    is_list = isinstance(command, list) and bool(command) and isinstance(command[0], list)
    steps = [
        reader.texts(step, known, *at, *((number,) if is_list else ()))
        for number, step in enumerate(command if is_list else [command])
    ]
    for step in steps:
        reader.program(step[0], *at)
    sources = _read_sources(reader, given[SOURCES])
    made = given["produces"] if isinstance(given["produces"], list) else [given["produces"]]
    produces = [_read_product(reader, item, BUILD, "produces") for item in made]
    if not produces:
        raise reader.bad("the files that the build makes", given["produces"], BUILD, "produces")
    spec: dict[str, Any] = {"steps": steps, SOURCES: sources, "produces": produces}
    timeout = given.get("timeout", DEFAULT_BUILD_TIMEOUT_S)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise reader.bad("seconds above 0", timeout, BUILD, "timeout")
    return spec if timeout == DEFAULT_BUILD_TIMEOUT_S else spec | {"timeout": timeout}


def _read_sources(reader: _Reader, value: Any) -> list[str]:
    """Return paths and patterns relative to the suite; each matches a file, unless the suite is of another commit."""
    sources = value if isinstance(value, list) else [value]
    if not sources or not all(isinstance(item, str) and item for item in sources):
        raise reader.bad('paths or patterns, such as ["op.c", "src/**"]', value, BUILD, SOURCES)
    sources = [_from_suite(each, reader.place) for each in sources]
    for number, pattern in enumerate(sources):
        keys = (BUILD, SOURCES, number) if isinstance(value, list) else (BUILD, SOURCES)
        if pattern.startswith("/"):
            raise reader.place.error("outside-project", f"expected a path beside the suite but got {pattern}", *keys)
        reader.inside(pattern, *keys)
        if reader.place.has_files and not source_files([pattern], reader.place.directory, reader.place.project):
            raise _missing_source(reader.place, pattern, *keys)
    return sources


def _from_suite(pattern: str, place: SpecPlace) -> str:
    """Return a path or pattern that begins with {project}/ or {suite}/ as one relative to the suite."""
    for tree, folder in ((f"{{{PROJECT}}}/", place.project), (f"{{{SUITE}}}/", place.directory)):
        if pattern.startswith(tree):
            ups = len(place.directory.relative_to(folder).parts)
            return "../" * ups + pattern.removeprefix(tree)
    return pattern


def _missing_source(place: SpecPlace, pattern: str, *keys: str | int) -> UserError:
    """Make the error of a source that matches no file; the hint has the same path from the root, if that is there."""
    known = [each.name for each in place.directory.iterdir()]
    message = f"expected a source but no file matches {pattern}{nearest(pattern, known)}"
    is_there = next(files_matching(place.project, pattern), None) if ".." not in pattern.split("/") else None
    example = f"{{project}}/{pattern}" if is_there else "{project}/kernel/op.c"
    hint = f'write a path from the suite, or from the root of the project: sources: ["{example}"]'
    return place.error("missing-file", message, *keys, hint=hint)


def source_files(sources: Iterable[str], directory: Path, project: Path) -> list[str]:
    """Return the files that match paths and patterns beside a suite, relative to the project, sorted."""
    found: set[str] = set()
    for pattern in sources:
        found.update(files_matching(project, _project_path(pattern, directory, project)))
    return sorted(found)


def _project_path(pattern: str, directory: Path, project: Path) -> str:
    from os.path import normpath, relpath

    return PurePosixPath(relpath(normpath(directory / pattern), project)).as_posix()


def _read_product(reader: _Reader, value: Any, *keys: str | int) -> str:
    """Return the place of a product: in the folder of builds, or in the project if the text begins with {suite}."""
    text = reader.text(value, *keys)
    reader.check(text, (BUILD, SUITE, PROJECT), *keys)
    product = text if text.startswith(_TREES) else f"{{build}}/{text}"
    path = product.partition("/")[2]
    if "{" in path or not path or path.startswith("/") or ".." in path.split("/"):
        raise reader.place.error("outside-project", f"expected a path inside the project but got {text}", *keys)
    return product


def is_file_name(name: str) -> bool:
    """Return whether the name of an array can be the name of a file in a folder of its own."""
    return bool(name) and name[0] != "." and not {"/", "\\", "\0"} & set(name) and len(name.encode()) <= 200


def file_format(options: Mapping[str, Any], default: str) -> str:
    """Return the format of an array's file: as declared, or by the end of its name, or the default."""
    suffix = PurePosixPath(options.get("file", "")).suffix[1:]
    return str(options.get("format", suffix if suffix in FORMATS else default))


def _dependencies(spec: dict[str, Any], folder: Path) -> Dependencies:
    build = spec.get(BUILD, {})
    texts = [*spec["command"], *spec.get("version", ()), *(word for step in build.get("steps", ()) for word in step)]
    beside = [text.removeprefix("{suite}/") for text in texts if text.startswith("{suite}/") or "{" not in text]
    files = [text for text in beside if text and not text.startswith(("/", "-")) and (folder / text).is_file()]
    # A program that is not there yet: adding it changes the case.
    program = [text for text in beside[:1] if "/" in text]
    return Dependencies(files=[*dict.fromkeys((*program, *files, *build.get(SOURCES, ())))])


COMMAND = Kind(
    run="precreg.subject.command.run:run_on_files",
    read=_read_command,
    dependencies=_dependencies,
    prepare="precreg.subject.command.build:build_before_cases",
    # No file format that programs read has longdouble, whose bits differ from one kind of machine to the next.
    widest="float64",
)
