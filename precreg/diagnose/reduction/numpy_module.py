"""How do calls of numpy become a Python module that makes them again?

The function `reduced` of the module makes the calls as they were recorded. `exact` has wide dtypes in the place of
narrow ones, and gets inputs of higher precision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from precreg.arithmetic import dtype_name
from precreg.diagnose.reduction.difference import DifferingPart
from precreg.diagnose.reduction.numpy_chain import NumpyChain, function_of, widened_argument
from precreg.diagnose.reduction.steps import Boundary, ExactRun, KeptComputation, RecordedChain, boundary_of
from precreg.errors import UserError
from precreg.run import array_digests
from precreg.shadow.numpy import CallRecorder, RecordedCall, SpelledCall, ValueName
from precreg.subject import Observer, Outputs
from precreg.types import Case, Site

_WIDE = {"float64": "np.float64", "longdouble": "np.longdouble"}
_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
}


def record_numpy(case: Case, project: Path, observed: Callable[[Observer], Outputs], actual: Outputs) -> RecordedChain:
    """Record the calls of numpy that a case's subject makes. `observed` runs it with an observer.

    Raises UserError: irreducible, and the errors of the run.
    """
    recorder = CallRecorder()
    recorded = observed(recorder)
    if array_digests(recorded.arrays) != array_digests(actual.arrays) or not recorder.outputs:
        message = f"expected calls of numpy that give the outputs of {case.id} but the recorded ones do not"
        raise UserError("irreducible", message)
    chain = NumpyChain(recorder, project)

    return RecordedChain(chain, partial(_kept, chain, case))


def _kept(chain: NumpyChain, case: Case, exact: ExactRun, places: Sequence[int], name: str) -> KeptComputation:
    boundary = boundary_of(chain, places)
    own = exact.own_exact(boundary.outputs, places)
    return _computation(chain, case, places, boundary, name)._replace(oracle=("reference", f"{name}:exact"), exact=own)


def keep_differing(chain: NumpyChain, case: Case, part: DifferingPart, name: str) -> KeptComputation:
    """Return the computation of a differing part, whose oracle is the value of the case's oracle."""
    boundary = boundary_of(chain, part.places)._replace(outputs=(part.made,))
    kept = _computation(chain, case, part.places, boundary, name, has_exact=False)
    return kept._replace(exact={part.made: part.expected})


def _computation(
    chain: NumpyChain, case: Case, places: Sequence[int], boundary: Boundary, name: str, *, has_exact: bool = True
) -> KeptComputation:
    text = write_numpy_module(chain, places, boundary, case.id, has_exact=has_exact)
    return KeptComputation(
        subject=f"{name}:reduced",
        oracle=None,
        inputs={each: chain.low[each] for each in boundary.inputs},
        outputs={each: chain.low[each] for each in boundary.outputs},
        exact={},
        files={f"{name}.py": text.encode()},
    )


def write_numpy_module(
    chain: NumpyChain, places: Iterable[int], boundary: Boundary, case: str, *, has_exact: bool = True
) -> str:
    """Return the text of a module with the calls at some places, and with the exact ones beside them.

    Raises UserError: untraceable, for a call that code cannot repeat.
    """
    calls = [chain.calls[place] for place in sorted(places)]
    for place in places:
        _require_text(chain, place)
    modules = sorted({module for call in calls for module in _modules(call.spelled)} - {"numpy"})
    made = [name for call in calls for name in call.makes if name]
    # numpy knows the names of its own dtypes.
    has_formats = any(chain.low[name].dtype.kind == "V" for name in (*made, *boundary.inputs))
    wide = "np.longdouble" if chain.wide == np.longdouble else "np.float64"
    lines = [
        f'"""Operations of {case} that precreg reduce kept. Stored tensors are the values at their boundary."""',
        "",
        *(["import ml_dtypes  # noqa: F401 - numpy then knows the names of its dtypes"] if has_formats else []),
        "import numpy as np",
        *(f"import {module}" for module in modules),
        *_function("reduced", calls, boundary, ""),
        *(_function("exact", calls, boundary, wide) if has_exact else []),
    ]
    return "".join(f"{line}\n" for line in lines)


def _require_text(chain: NumpyChain, place: int) -> None:
    call = chain.calls[place]
    if not chain.repeats(place) or not _has_text(call.spelled):
        step = chain.steps[place]
        where = f" at {step.site.file}:{step.site.line}" if step.site.file else ""
        message = f"expected calls of numpy that a module can make again but {step.name}{where} is none"
        raise UserError("irreducible", message)


def _has_text(call: SpelledCall) -> bool:
    try:
        _text(call, "")
        return call.kind in ("method", "item") or function_of(call) is not None
    except (ImportError, AttributeError, _NoTextError):
        return False


class _NoTextError(Exception):
    """An argument has no literal."""


def _modules(call: SpelledCall) -> set[str]:
    found = {call.module} if call.kind == "function" else set()
    return found | (set() if call.view is None else _modules(call.view))


def _function(name: str, calls: Sequence[RecordedCall], boundary: Boundary, wide: str) -> list[str]:
    lines = ["", "", f"def {name}({', '.join(boundary.inputs)}):"]
    before = Site()
    for call in calls:
        if call.site != before and call.site.file:
            lines.append(f"    # {call.site.file}:{call.site.line} {call.site.code}".rstrip())
        before = call.site
        lines += [f"    {line}" for line in _assignment(call, wide)]
    lines.append(f"    return {{{', '.join(f'{quoted(each)}: {each}' for each in boundary.outputs)}}}")
    return lines


def quoted(text: str) -> str:
    """Return a text as a literal in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _assignment(call: RecordedCall, wide: str) -> list[str]:
    spelled = call.spelled
    names = ", ".join(name or "_" for name in call.makes)
    if spelled.target is None:
        return [f"{names}{',' if len(call.makes) > 1 else ''} = {_text(spelled, wide)}".replace(",,", ",")]
    lines = [f"{names} = np.array({spelled.target.name})"]
    part = names if spelled.view is None else _text(_on(spelled.view, names), wide)
    places = spelled.view if spelled.view is not None and spelled.view.name == "take" else None
    if places is not None:
        lines.append(f"part = {part}")
        part = "part"
    arguments = [_literal(each, wide) for each in spelled.arguments]
    options = [f"{name}={_literal(each, wide)}" for name, each in spelled.options.items()]
    if spelled.kind == "item":
        lines.append(f"{part}[{_key(spelled.arguments[0])}] = {arguments[1]}")
    elif spelled.is_first:
        lines.append(f"{_callee(spelled)}({', '.join([part, *arguments, *options])})")
    else:
        head, rest = (f"{arguments[0]}.{spelled.name}", arguments[1:]) if spelled.kind == "method" else ("", arguments)
        lines.append(f"{head or _callee(spelled)}({', '.join([*rest, *options, f'out={part}'])})")
    if places is not None:
        lines.append(f"{names}.reshape(-1)[{_literal(places.arguments[1], wide)}] = part")
    return lines


def _on(view: SpelledCall, name: str) -> SpelledCall:
    return view._replace(arguments=(ValueName(name), *view.arguments[1:]))


def _text(call: SpelledCall, wide: str) -> str:
    arguments = [_literal(each, wide) for each in call.arguments]
    options = [f"{name}={_literal(each, wide)}" for name, each in call.options.items()]
    if call.kind == "item":
        return f"{arguments[0]}[{_key(call.arguments[1])}]"
    if call.kind == "method":
        return f"{arguments[0]}.{call.name}({', '.join([*arguments[1:], *options])})"
    if call.kind == "operator":
        return f" {_OPERATORS[call.name]} ".join(arguments)
    return f"{_callee(call)}({', '.join([*arguments, *options])})"


def _callee(call: SpelledCall) -> str:
    return f"{'np' if call.module == 'numpy' else call.module}.{call.name}"


def _key(key: Any) -> str:
    if isinstance(key, tuple) and key:
        return ", ".join(map(_index, key)) + ("," if len(key) == 1 else "")
    return _index(key)


def _index(value: Any) -> str:
    if isinstance(value, slice):
        parts = ["" if each is None else str(each) for each in (value.start, value.stop)]
        return ":".join(parts if value.step in (None, 1) else [*parts, str(value.step)])
    return _literal(value, "")


def _literal(value: Any, wide: str) -> str:
    if isinstance(value, ValueName):
        return value.name
    if isinstance(value, tuple):
        members = [_literal(each, wide) for each in value]
        return f"({', '.join(members)}{',' if len(members) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(_literal(each, wide) for each in value)}]"
    if value is Ellipsis or value is None or isinstance(value, bool | int):
        return "..." if value is Ellipsis else repr(value)
    return _number_or_dtype(value, wide)


def _number_or_dtype(value: Any, wide: str) -> str:
    if wide:
        value = widened_argument(value, np.dtype(wide.removeprefix("np.")))
    if isinstance(value, np.dtype):
        return f"np.dtype({quoted(dtype_name(value))})"
    if isinstance(value, type) and issubclass(value, np.generic | float | int | complex | bool):
        return f"np.dtype({quoted(dtype_name(np.dtype(value)))})"
    if isinstance(value, np.generic):
        number = value.item() if value.dtype.kind in "biufc" and value.dtype.itemsize <= 16 else None
        if isinstance(number, np.generic) or number is None:
            raise _NoTextError
        return f"np.dtype({quoted(dtype_name(value.dtype))}).type({_plain(number)})"
    if isinstance(value, float | complex | str):
        return _plain(value)
    raise _NoTextError


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    return re.sub(r"\b(inf|nan)\b", r"np.\1", repr(value))
