"""How do the inputs of a search become a suite that runs: a YAML file, and the arrays beside it?

The suite keeps the computation, params and tolerance of the searched case, in the spelling of its own suite. Its matrix
has the parameters of that case alone, and its inputs come from a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from os.path import relpath
from pathlib import Path
from typing import Any

from precreg.arithmetic import dtype_name
from precreg.errors import UserError
from precreg.run import Arrays
from precreg.storage import open_replacement, read_yaml, replace_file, report_write_errors, write_npz
from precreg.types import Case

_SUITE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")

# These belong to the searched suite as a whole, or to random inputs.
_LEFT_OUT = ("suite", "about", "matrix", "inputs", "seeds", "cases", "study", "baseline_of", "expect", "reason")


def require_suite_path(case: Case, path: Path, project: Path, *, force: bool) -> Path:
    """Return the absolute path of a new suite beside the suite of a case. Raises UserError: bad-value.

    Names of modules and files in a suite start from its folder, so that another folder would change them.
    """
    absolute = path.absolute()
    folder = (project / case.directory).resolve()
    example = f"{case.directory}/{case.suite}_worst.yaml"
    if absolute.parent.resolve() != folder or absolute.suffix not in (".yaml", ".yml"):
        message = f"expected a file .yaml in the folder of the searched suite but got output={path}"
        raise UserError("bad-value", message, hint=f"write --output {example}")
    if not _SUITE_NAME.fullmatch(absolute.stem):
        raise UserError(
            "bad-value",
            f"expected the name of a suite but got output={path}",
            hint=f"write letters, digits and _: --output {example}",
        )
    if absolute.exists() and not force:
        raise UserError(
            "bad-value",
            f"expected a name that is free but output={path} exists",
            hint=f"replace it with --force, or write another name: --output {example}",
        )
    if absolute.resolve() == (project / case.source.file).resolve():
        raise UserError(
            "bad-value",
            f"expected a file of its own but output={path} is the searched suite",
            hint=f"write another name: --output {example}",
        )
    return absolute


def write_worst_suite(case: Case, inputs: Arrays, about: str, path: Path, project: Path) -> str:
    """Write a suite of one case with the inputs, the arrays first, and return its path in the project.

    Raises UserError: not-writable, and the errors of reading the suite of the case.
    """
    shown = relpath(path, project)
    arrays = f"{path.stem}/{case.name}.npz"
    lines = [*_lines(case, inputs, about, path.stem, arrays, project)]
    with report_write_errors(shown):
        (path.parent / path.stem).mkdir(parents=True, exist_ok=True)
        with open_replacement(path.parent / arrays) as stream:
            write_npz(stream, inputs)
        replace_file(path, "".join(f"{line}\n" for line in lines).encode())
    return shown


def _lines(case: Case, inputs: Arrays, about: str, name: str, arrays: str, project: Path) -> Iterator[str]:
    source = read_yaml(project / case.source.file, case.source.file).data
    yield f"suite: {name}"
    yield f"about: {_yaml(about)}"
    for key, value in source.items():
        if key not in _LEFT_OUT:
            yield f"{key}: {_yaml(value)}"
    if case.parameters:
        yield "matrix:"
    for key, value in case.parameters.items():
        yield f"  {_yaml(key)}: {_yaml([value])}"
    entries = [entry for entry in source.get("cases") or () if fnmatchcase(case.name, entry["match"])]
    kept = [{key: value for key, value in entry.items() if key in _KEPT_IN_CASES} for entry in entries]
    if any(len(entry) > 1 for entry in kept):
        yield f"cases: {_yaml([entry for entry in kept if len(entry) > 1])}"
    yield "inputs:"
    for each, array in inputs.items():
        place = {"path": arrays, "key": each}
        specification = {"shape": list(array.shape), "dtype": dtype_name(array.dtype), "file": place}
        yield f"  {_yaml(each)}: {_yaml(specification)}"


_KEPT_IN_CASES = ("match", "tolerance", "tags", "timeout", "deterministic")


def _yaml(value: Any) -> str:
    """Return a value in the flow style of YAML, which is JSON apart from infinities and NaN."""
    text = json.dumps(value, ensure_ascii=False)
    if not re.search(r"\b(Infinity|NaN)\b", text):
        return text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_yaml(key)}: {_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return {"Infinity": ".inf", "-Infinity": "-.inf", "NaN": ".nan"}.get(text, text)
