"""How is a program run as a subject, and which time is its own?"""

from __future__ import annotations

import glob
import os
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from os.path import realpath
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from precreg.errors import UserError
from precreg.storage import resolve_inside, temporary_folder
from precreg.subject.call import Call, Outputs
from precreg.subject.command.build import built_folder
from precreg.subject.command.files import output_files, read_outputs, write_inputs
from precreg.subject.command.placeholders import (
    BUILD,
    FOLDER,
    INPUTS,
    OUTPUTS,
    PARAMS,
    PROJECT,
    SUITE,
    fill,
    members,
    write_param,
)
from precreg.subject.command.process import Ended, describe_end, failure_detail, run_program
from precreg.subject.command.program import locate_program, tree_values

# Names a folder that keeps the files of each call.
KEEP_VARIABLE = "PRECREG_KEEP_FILES"


def run_on_files(spec: dict[str, Any], call: Call) -> Outputs:
    """Run a program on files of the inputs in a fresh folder, and return the arrays of the files that it wrote.

    The duration covers the program alone. Raises UserError (program-failed, build-failed, missing-program,
    unknown-placeholder, bad-value, bad-program-output, bad-array-file, bad-safetensors-file, outside-project).
    """
    places = tree_values(call.directory, call.project)
    if BUILD in spec:
        places[BUILD] = str(built_folder(spec[BUILD], call.directory, call.project))
    # Below the temporary folder, which has a file of precreg's own.
    with temporary_folder() as temporary:
        folder = Path(realpath(temporary), "call")
        folder.mkdir()
        try:
            values = places | {FOLDER: str(folder)} | _file_values(spec, call, folder) | _param_values(spec, call)
            duration_s = _run(spec, values, call)
            arrays = read_outputs(spec, call.inputs, folder)
        finally:
            _keep(folder)
            _remove(folder)
    facts = {"program": _version(tuple(spec["version"]), tuple(places.items()))} if "version" in spec else {}
    return Outputs(arrays, duration_s, facts)


def _file_values(spec: Mapping[str, Any], call: Call, folder: Path) -> dict[str, str]:
    written = write_inputs(spec, call.inputs, folder)
    values = {f"{INPUTS}.{name}": str(path) for name, path in written.items()}
    outputs = output_files(spec, call.inputs, folder)
    return values | {f"{OUTPUTS}.{name}": str(path) for name, path in outputs.items()}


def _keep(folder: Path) -> None:
    """Copy the folder of a call to the place that KEEP_VARIABLE names, if any, so that a person can look into it."""
    if place := os.environ.get(KEEP_VARIABLE):
        # A copy that fails, on a full disk for instance, must not hide the failure of the program.
        with suppress(OSError, shutil.Error):
            os.makedirs(place, exist_ok=True)
            shutil.copytree(folder, mkdtemp(prefix="call-", dir=place), symlinks=True, dirs_exist_ok=True)


def _remove(folder: Path) -> None:
    """Remove a folder by whole paths; the folder above it goes later, with all that is left."""
    # shutil.rmtree opens folders by bare names, which would count as files of the project that a reference opens.
    for root, folders, files in os.walk(folder, topdown=False):
        for name in (*files, *folders):
            path = os.path.join(root, name)
            with suppress(OSError):
                (os.rmdir if name in folders and not os.path.islink(path) else os.unlink)(path)
    with suppress(OSError):
        os.rmdir(folder)


def _param_values(spec: Mapping[str, Any], call: Call) -> dict[str, str]:
    used = members((*spec["command"], *spec.get("environment", {}).values()), PARAMS)
    # A param without a value is a mistake if the program gets it; the others are for messages.
    given = {name: value for name, value in call.params.items() if value is not None or name in used}
    return {f"{PARAMS}.{name}": write_param(name, value) for name, value in given.items()}


def _run(spec: Mapping[str, Any], values: Mapping[str, str], call: Call) -> float:
    """Run the program, and return its time in seconds. Raises UserError: program-failed, missing-program."""
    variables = {**os.environ, **{name: fill(text, values) for name, text in spec.get("environment", {}).items()}}
    first, *arguments = (fill(text, values) for text in spec["command"])
    program = locate_program(first, variables, call.directory, call.project)
    folder = Path(fill(spec.get(FOLDER, f"{{{FOLDER}}}"), values))
    if FOLDER in spec and not resolve_inside(call.project, folder).is_dir():
        raise UserError("missing-file", f"expected a folder to work in but {spec[FOLDER]} is not there")
    ended = run_program([program, *arguments], folder, variables)
    require_success(ended, spec["command"][0], _keep_hint(call))
    return ended.duration_s


def _keep_hint(call: Call) -> str:
    """Return the command that keeps the files of a case's calls; an empty text for a call of no case."""
    if not call.case:
        return ""
    # The id is a pattern, and its own brackets and stars are no wildcards.
    command = f"{KEEP_VARIABLE}=kept precreg run {shlex.quote(glob.escape(call.case))}"
    return f"keep the files of a call and run the program on them: {command}"


def require_success(ended: Ended, shown: str, hint: str = "") -> None:
    """Check that a program ended with code 0. Raises UserError: program-failed."""
    if ended.code:
        was = "was " if ended.code < 0 else ""
        message = f"expected {shown} to exit with code 0 but it {was}{describe_end(ended)}"
        raise UserError("program-failed", message, detail=failure_detail(ended), hint=hint)


# The version does not change during a run.
@lru_cache(maxsize=64)
def _version(command: tuple[str, ...], places: tuple[tuple[str, str], ...]) -> str:
    """Return the first line that the command of a version prints."""
    values = dict(places)
    directory, project = Path(values[SUITE]), Path(values[PROJECT])
    first, *arguments = (fill(text, values) for text in command)
    program = locate_program(first, os.environ, directory, project)
    ended = run_program([program, *arguments], directory, os.environ)
    require_success(ended, command[0])
    lines = ended.output.strip().splitlines()
    return lines[0].strip()[:200] if lines else ""
