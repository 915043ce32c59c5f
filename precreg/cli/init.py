"""How does a project begin: which suite, baseline, pipeline and hook does `precreg init` write, and why?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from precreg.errors import UserError, nearest

if TYPE_CHECKING:
    from precreg.run import FirstMeasurement
    from precreg.subject import TargetFacts

REASON = "first measurement"
_SUITE_FOLDER = "suites/unit"
EXAMPLE = '''\
"""An example for precreg: break it, and see a red case. Then replace it with your own function."""

import numpy as np


def mean_square(x):
    """Mean of squares over the rows, summed in float32.

    x : array of shape (rows, columns)
    """
    return (np.sum(np.square(x.astype(np.float32)), axis=0) / len(x)).astype(x.dtype)


def mean_square_exact(x):
    """The same in the precision of the inputs: the reference takes float64."""
    return np.sum(np.square(x), axis=0) / len(x)
'''
EXAMPLE_FILE, EXAMPLE_TARGET = "example.py", "example:mean_square"
# The usual compiler of each source that a program is made from.
_SOURCE_SUFFIXES = {".c": "cc", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".cu": "nvcc"}
_BREAK = "sed -i.bak 's/np.square(x.astype(np.float32))/np.square(x)/' example.py && precreg run"


@click.command("init")
@click.argument("target", required=False, metavar="[MODULE:FUNCTION | MODEL.onnx]")
@click.option("--name", metavar="NAME", help="The name of the suite; by default the function's.")
@click.pass_obj
def init_command(given: Path | None, /, target: str | None, name: str | None) -> None:
    """Write a suite for a function, its baseline, a pipeline and a pre-push hook; without a target, an example.

    The target is a function, a module of torch or an ONNX model. Files that exist are kept.
    """
    from precreg.baseline import refuse_in_ci
    from precreg.environment import limit_blas_threads

    began = monotonic()
    # Before anything is written: CI cannot accept the baseline.
    refuse_in_ci(os.environ)
    limit_blas_threads()
    project = _home(given, target)
    is_example = target is None
    if target is None:
        target = _write_example(project)
    target = _spelled(project, target)
    name = name or _name_of(target)
    suite = f"{_SUITE_FOLDER}/{name}.yaml"
    extra = ""
    if (project / suite).exists():
        click.echo(f"kept       {suite}, which exists; --name writes another suite")
    else:
        extra = _write_first_suite(project, target, name, suite)
    code = _accept_first(project, name)
    _write_files(project, extra)
    if code == 0:
        click.echo(f"green after {monotonic() - began:.1f} s; the next commands:")
        for line in _next_commands(project, name, is_example):
            click.echo(f"  {line}")
    sys.exit(code)


def _home(given: Path | None, target: str | None) -> Path:
    """Return the project's folder: --project, an empty folder without a target, else as `precreg capture` finds it."""
    from precreg.suite.capture import find_home

    start = (given or Path.cwd()).resolve()
    if given is not None and not start.is_dir():
        raise UserError("no-project", f"expected a folder but got --project {given}")
    is_empty = all(entry.name == ".git" for entry in start.iterdir())
    return start if given is not None or (target is None and is_empty) else find_home(start)


def _write_example(project: Path) -> str:
    """Write the example kernel, unless it is there. Raises UserError (not-writable)."""
    from precreg.storage import replace_file, report_write_errors

    if (project / EXAMPLE_FILE).exists():
        click.echo(f"kept       {EXAMPLE_FILE}")
    else:
        with report_write_errors(EXAMPLE_FILE):
            replace_file(project / EXAMPLE_FILE, EXAMPLE.encode())
        click.echo(f"wrote      {EXAMPLE_FILE}: a kernel to break")
    return EXAMPLE_TARGET


def _spelled(project: Path, target: str) -> str:
    """Return a target as a suite names it: `module:function`, or the path of a model relative to the suite.

    Raises UserError: bad-value, missing-file, outside-project, missing-module, missing-function, taken-name.
    """
    from precreg.storage import resolve_inside
    from precreg.suite import locate_target
    from precreg.types import Location

    if target.endswith(".onnx"):
        path = Path.cwd() / target
        if not path.is_file():
            near = nearest(path.name, [each.name for each in path.parent.glob("*.onnx")])
            raise UserError("missing-file", f"expected a model but {target} is not there{near}")
        inner = resolve_inside(project, path).relative_to(project)
        return Path(os.path.relpath(inner, _SUITE_FOLDER)).as_posix()
    module, colon, function = target.partition(":")
    if not colon:
        _refuse_program(project, target)
        shown = _without_colon(project, target)
        message = f"expected module:function but got {target!r}{shown}"
        raise UserError("bad-value", message, hint="name module and function: precreg init numpy:tanh")
    if module.endswith(".py"):
        module = Path(os.path.relpath(Path.cwd() / module, project)).with_suffix("").as_posix().replace("/", ".")
    spelled = f"{module}:{function}"
    try:
        locate_target(spelled, _SUITE_FOLDER, project, Location(""))
    except UserError as problem:
        # A package in src/ that nobody installed.
        if problem.slug != "missing-module" or not (project / "src" / module.partition(".")[0]).exists():
            raise
        spelled = f"src.{spelled}"
        locate_target(spelled, _SUITE_FOLDER, project, Location(""))
    return spelled


def _refuse_program(project: Path, target: str) -> None:
    """Print a suite to complete for a source or a program. Raises UserError: no-guess."""
    path = Path.cwd() / target
    is_source = path.suffix in _SOURCE_SUFFIXES
    if not path.is_file() or path.suffix == ".py" or not (is_source or os.access(path, os.X_OK)):
        return
    from precreg.storage import resolve_inside

    inner = Path(os.path.relpath(resolve_inside(project, path), project / _SUITE_FOLDER)).as_posix()
    name = _as_name(path.stem)
    click.echo(_program_skeleton(name, inner, _SOURCE_SUFFIXES.get(path.suffix)), err=True)
    message = f"expected module:function or a model but {target} is a {'source' if is_source else 'program'}"
    hint = f"declare it in a suite, {_SUITE_FOLDER}/{name}.yaml, as docs/programs.md shows, then precreg run {name}"
    raise UserError("no-guess", message, hint=hint)


def _program_skeleton(name: str, inner: str, compiler: str | None) -> str:
    """Return a suite to complete for a program at a path from the suite; `compiler` makes it from a source."""
    from json import dumps

    # A text of JSON is one of YAML, whatever characters the path has.
    path, built = dumps(inner), f'"{{build}}/{name}"'
    build = [
        "  build:",
        f"    command: [{compiler}, -O2, {path}, -lm, -o, {built}]",
        f"    sources: [{path}]",
        f"    produces: {name}",
    ]
    lines = [
        f"A program needs a suite. Complete this one as {_SUITE_FOLDER}/{name}.yaml:",
        "",
        f"suite: {name}",
        "subject:",
        f'  command: [{built if compiler else path}, "{{inputs.x}}", "{{outputs.y}}"]  # the arguments of your program',
        "  format: bin  # or npy, safetensors",
        "  outputs: {y: {dtype: float32, like: x}}",
        *(build if compiler else []),
        "reference: exact:FUNCTION  # a function of exact.py beside the suite; it returns {'y': array}",
        "inputs: {x: {shape: [64, 64], dtype: float32, normal: {}}}",
        "tolerance: {rtol: 1e-5, atol: 1e-6}",
        "",
    ]
    return "\n".join(lines)


def _without_colon(project: Path, target: str) -> str:
    """Return the end of a message about a target without a colon: the functions of the module, or the likely target."""
    import ast

    from precreg.storage import parse_module
    from precreg.suite import possible_files, search_path

    stem = target.removesuffix(".py").replace("/", ".")
    for name, rest in ((stem, ""), stem.rpartition(".")[::2]):
        if not name or not all(part.isidentifier() for part in name.split(".")):
            continue
        for path in possible_files(name, search_path(project, _SUITE_FOLDER)):
            tree = parse_module(path.read_bytes()) if path.is_file() else None
            body = [] if tree is None else tree.body
            found = [each.name for each in body if isinstance(each, ast.FunctionDef) and each.name[0] != "_"]
            if rest in found or (not rest and found):
                return f'; did you mean "{name}:{rest or found[0]}"?'
    return ""


def _name_of(target: str) -> str:
    last = Path(target).stem if target.endswith(".onnx") else target.partition(":")[2]
    return _as_name(last)


def _as_name(text: str) -> str:
    return "".join(character if character.isalnum() or character in "_-" else "_" for character in text)


def _write_first_suite(project: Path, target: str, name: str, suite: str) -> str:
    """Measure a target, write its suite, and print the choices; return the extra that the suite needs."""
    from precreg.run import measure_first
    from precreg.storage import replace_file, report_write_errors
    from precreg.suite.starter import render_suite

    facts = _facts_of(project, target)
    try:
        first = measure_first(project, target, name, facts)
    except UserError as problem:
        if problem.slug == "no-guess":
            click.echo(_skeleton(target, name, facts), err=True)
        raise
    if first.calls:
        _write_golden_suite(project, target, name, first)
    else:
        with report_write_errors(suite):
            (project / suite).parent.mkdir(parents=True, exist_ok=True)
            replace_file(project / suite, render_suite(first.suite).encode())
    click.echo(f"wrote      {suite}")
    for line in _choices(target, facts, first):
        click.echo(f"           {line}")
    kind = first.suite.subject
    return "" if isinstance(kind, str) else next(iter(kind))


def _facts_of(project: Path, target: str) -> TargetFacts:
    """Return the facts of a target. A class of torch that needs arguments gets guessed ones.

    Raises UserError: no-guess for arguments without a guess, or with guesses that do not make a module.
    """
    from precreg.subject import inspect_target
    from precreg.suite.starter import guess_constructor

    facts = inspect_target(target, project / _SUITE_FOLDER, project)
    if not facts.constructor:
        return facts
    guessed = guess_constructor(facts.constructor)
    module, _, name = target.partition(":")
    given = [f"{each.name}={guessed.get(each.name, '...')}" for each in facts.constructor]
    call = f"{name}({', '.join(given)})"
    hint = f"make one in {module}, and name it: small = {call}, then precreg init {module}:small"
    if unknown := [each.name for each in facts.constructor if each.name not in guessed]:
        message = f"expected numbers for the arguments of {target} but {name} needs {', '.join(unknown)}"
        raise UserError("no-guess", message, hint=hint)
    try:
        return inspect_target(target, project / _SUITE_FOLDER, project, guessed)
    except UserError as problem:
        raise UserError("no-guess", f"expected that {call} makes a module but: {problem.message}", hint=hint) from None


def _write_golden_suite(project: Path, target: str, name: str, first: FirstMeasurement) -> None:
    """Write the calls of a function as a suite whose golden is the outputs, as `precreg capture --oracle golden`."""
    from precreg.suite.capture import CallStore, write_suite

    store = CallStore(len(first.calls), sum(call.nbytes for call in first.calls))
    for call in first.calls:
        if (key := store.place_for(call)) is not None:
            store.keep(key, call)
    about = f"{target} against its outputs of the first measurement"
    write_suite(name, target, store, project, file=None, oracle="golden", is_torch=False, force=False, about=about)


def _choices(target: str, facts: TargetFacts, first: FirstMeasurement) -> Iterator[str]:
    """Yield the choices of a suite, each with its reason."""
    suite, guess = first.suite, first.suite.guess
    sources = {
        "tried": f"the first of {first.tried} tried calls that works",
        "docstring": "the shapes in the docstring",
        "names": "the names of the arguments",
        "layer": "the first layers of the module",
        "graph": "the inputs of the model",
    }
    for name, each in guess.inputs.items():
        sizes = [guess.sizes[size][0] if isinstance(size, str) else size for size in each.shape]
        shape = " x ".join(map(str, sizes)) or "one number"
        yield f"input      {name}: {shape}, {next(iter(each.values))} ({sources[guess.source]})"
    if facts.made_with:
        made = ", ".join(f"{name}={value!r}" for name, value in facts.made_with.items())
        yield f"arguments  {made} (by name or annotation): change them in the suite"
    if guess.params:
        given = ", ".join(f"{name}={value!r}" for name, value in guess.params.items())
        yield f"params     {given} (by name or annotation)"
    if guess.has_dtype:
        yield f"dtypes     {', '.join(suite.dtypes)}" + (" (one, because a call is slow)" if first.slow else "")
    if suite.oracle == "golden":
        yield f"golden     the outputs of today, because {first.left_out[0].what}: {first.left_out[0].why[:90]}"
        yield "           a reference of your own shows errors, too: docs/init.md#a-better-reference"
        return
    yield from (f"left out   {each.what}: {each.why[:90]}" for each in first.left_out)
    yield f"reference  {_reference_words(suite.oracle, suite.reference)}"
    yield from (f"note       {note}" for note in _notes(first))
    bounds = [f"{dtype} rtol {rtol:.0e} atol {atol:.0e}" for dtype, (rtol, atol) in (suite.bounds or {}).items()]
    for place, bound in enumerate(bounds or ["equal results"]):
        why = ", 4 times the largest errors" if bounds and not place else ""
        yield f"{'' if place else 'tolerance':10} {bound}{why}"
    yield f"time       {first.seconds:.2g} s a call"


def _notes(first: FirstMeasurement) -> Iterator[str]:
    """Yield what a person should look at in a first measurement."""
    suite = first.suite
    if first.exact:
        yield f"all errors of {', '.join(first.exact)} are 0: its reference may be no wider, so name a better one"
    if suite.no_error:
        yield "all errors are 0: the operations are exact, or the function converts its inputs"
    if not suite.deterministic:
        yield "two runs gave different bits, so the suite declares `deterministic: false`"
    if first.non_finite:
        yield "the outputs have NaN or infinities: choose inputs inside the function's domain"


def _reference_words(oracle: str, reference: str) -> str:
    if oracle == "own":
        return "the same model in float64, which precreg computes"
    if oracle == "sibling":
        return f"{reference}, found beside the function"
    return "the same function on float64 inputs; the suite says how to name a better one"


def _skeleton(target: str, name: str, facts: TargetFacts) -> str:
    """Return a suite to complete by hand, for a target whose arguments cannot be guessed."""
    inputs = [each for each in facts.arguments if each.required] or [*facts.arguments[:1]]
    lines = [f"  {each.name}: {{shape: [64, 64], dtype: float32, normal: {{}}}}" for each in inputs]
    return "\n".join(
        [
            f"precreg init found no call that works. Complete this suite as {_SUITE_FOLDER}/{name}.yaml:",
            "",
            f"suite: {name}",
            f"subject: {target}",
            f"reference: {target}",
            "inputs:  # arrays; move other arguments to params:, such as params: {mode: same}",
            *lines,
            "",
        ]
    )


def _accept_first(project: Path, name: str) -> int:
    """Run a suite, accept its proposals, run it again, and return the exit code of the last run."""
    from datetime import date

    from precreg.baseline import accept_proposals, pending_proposals, sort_proposals
    from precreg.suite import load_cases
    from precreg.vcs import git_author

    code = _run(project, name, quiet=True)
    cases = {case.id: case for case in load_cases(project)}
    mine = [id for id in pending_proposals(project) if id.startswith(f"unit/{name}/")]
    if mine:
        waiting = sort_proposals(project, cases)
        known, today = [*cases], date.today().isoformat()
        accepted = accept_proposals(
            project,
            mine,
            known=known,
            reason=REASON,
            author=git_author(project),
            date=today,
            waiting=waiting,
        )
        files = sorted({place.file for place in accepted})
        number = "1 case" if len(accepted) == 1 else f"{len(accepted)} cases"
        click.echo(f"accepted   {number} in {', '.join(files)}, for the reason {REASON!r}")
        code = _run(project, name, quiet=True)
    return code if code == 0 else _run(project, name, quiet=False)


def _run(project: Path, name: str, *, quiet: bool) -> int:
    """Run the cases of one suite as `precreg run` does, and return the exit code."""
    from precreg.cli.console import show_progress
    from precreg.report import RUN_OUTPUTS, render_run_terminal, reports_folder
    from precreg.run import RunRequest, run_session
    from precreg.suite import Selection

    def summarize(record: Any, written: list[Path]) -> None:
        if not quiet:
            click.echo(render_run_terminal(record, colour=sys.stdout.isatty(), reports=written), nl=False)

    request = RunRequest(
        project=project, selection=Selection(patterns=(f"unit/{name}/*",)), output=reports_folder(project)
    )
    record = run_session(
        request,
        RUN_OUTPUTS,
        progress=(lambda results, total: iter(results)) if quiet else show_progress,
        summarize=summarize,
        announce=lambda event: None,
    )
    return record.exit_code


def _write_files(project: Path, extra: str) -> None:
    """Write the pipeline and the lines for git, install the hook, and print each file with its fate."""
    from precreg.vcs import install_project_hook, repository_of, write_project_files

    root = repository_of(project)
    words = {"written": "wrote     ", "extended": "extended  ", "kept": "kept      "}
    for path, fate in write_project_files(project, root or project, extra):
        click.echo(f"{words[fate]} {path}")
    if root is None:
        click.echo("no hook    this folder is outside git; the first command below makes a repository")
        return
    place, problem = install_project_hook(project, root, sys.executable)
    if problem:
        click.echo(f"no hook    {problem}")
        click.echo("           precreg hook install --chain keeps it and calls it first")
    else:
        click.echo(f"installed  {place}: each git push checks the cases that it touches")


def _next_commands(project: Path, name: str, is_example: bool) -> Iterator[str]:
    """Yield three commands: commit, see a red case, look into a case."""
    from precreg.vcs import repository_of

    begin = "git init -q && precreg hook install && " if repository_of(project) is None else ""
    yield f'{begin}git add -A . && git commit -qm "Precision baseline: {REASON}"'
    yield _BREAK if is_example else "precreg run                 # after each change: exit 1 if a result got worse"
    yield f"precreg explain unit/{name}   # tolerances and baselines, with file and line"
