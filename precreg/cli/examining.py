"""What works here: measuring and arithmetic, versions, what may be installed besides, git, project and history."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

from precreg import __version__
from precreg.cli.history_place import open_project_history
from precreg.errors import UserError

BROKEN = "broken"


CORES = {"core": "precreg.measure.compiled", "arithmetic core": "precreg.arithmetic.native"}
"""The compiled cores, by the modules that load them; each lies beside its module, as `_core`."""


NEEDED = ("numpy", "ml_dtypes", "msgspec", "sqlalchemy")
"""Of what is always installed, that whose version explains most."""


OPTIONAL = {
    "matplotlib": "precreg visualize draws PNG with it (precreg[plots])",
    "psycopg": "histories are kept in PostgreSQL with it (precreg[postgresql])",
    "torch": "precreg itself does without; suites may ask for it",
}
"""What may be installed besides, and what for."""


class Finding(NamedTuple):
    """One line of what was found; `absent` is what is not needed, or not here."""

    name: str
    state: Literal["ok", "absent", "broken"]
    says: str


def findings(given: Path | None, place: str | None) -> list[Finding]:
    """Look at everything. `given` is the project and `place` the history, where they were named."""
    found = [*_measuring(), *_arithmetic(), *_versions()]
    try:
        project = _project(given)
    except UserError as problem:
        named: Literal["absent", "broken"] = "absent" if given is None else "broken"
        return [*found, _git(Path.cwd()), Finding("project", named, problem.message)]
    return [*found, _git(project), Finding("project", "ok", str(project)), _history(project, place)]


def _project(given: Path | None) -> Path:
    from precreg.storage.project import find_project

    return find_project(given or Path.cwd())


def _measuring() -> Iterator[Finding]:
    """Tell which form serves, why it is not the compiled one, and whether it measures right."""
    from precreg.measure.forms import FORMS, form
    from precreg.quality.measure_self_test import self_test

    yield _core("core")
    try:
        serving = form()
    except UserError as problem:
        yield Finding("measuring", "broken", problem.message)
        return
    name = next(name for name, each in FORMS.items() if each is serving)
    try:
        measured, wrong = self_test(serving)
    except Exception as problem:  # whatever a core does that was built from other sources than the package
        yield Finding("measuring", "broken", f"the form {name} raises {problem!r}; install precreg anew")
        return
    if wrong:
        yield Finding("measuring", "broken", f"the form {name} differs from the plain one; {'; '.join(wrong)}")
    else:
        yield Finding("measuring", "ok", f"the form {name} serves; {measured} adversarial pairs as in the plain one")


def _arithmetic() -> Iterator[Finding]:
    """Tell which form rounds and adds for simulated devices, and whether it gives what is known."""
    from precreg.arithmetic import forms
    from precreg.quality.arith_self_test import self_test

    yield _core("arithmetic core")
    try:
        name = "numpy" if forms.native() is None else "native"
        checked, wrong = self_test()
    except UserError as problem:
        yield Finding("arithmetic", "broken", problem.message)
        return
    except Exception as problem:  # as above
        yield Finding("arithmetic", "broken", f"it raises {problem!r}; install precreg anew")
        return
    if wrong:
        yield Finding("arithmetic", "broken", f"the form {name} is wrong in {'; '.join(wrong)}")
    else:
        yield Finding("arithmetic", "ok", f"the form {name} serves; {checked} results as known")


def _core(name: str) -> Finding:
    loader = CORES[name]
    if find_spec(f"{loader.rpartition('.')[0]}._core") is None:
        return Finding(name, "absent", "not built: no C++ compiler was there when precreg was installed")
    try:
        core = import_module(loader)._core
    except ImportError as problem:
        return Finding(name, "broken", f"built, but it cannot be loaded: {problem}")
    return Finding(name, "ok", f"{core.instruction_set}, {core.__file__}")


def _versions() -> Iterator[Finding]:
    from precreg.environment.processors import processors

    yield Finding("precreg", "ok", f"{__version__}, {Path(__file__).parents[1]}")
    yield Finding("python", "ok", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    yield Finding("processors", "ok", str(processors()))
    for name in NEEDED:
        yield Finding(name, "ok", version(name))
    for name, purpose in OPTIONAL.items():
        try:
            yield Finding(name, "ok", version(name))
        except PackageNotFoundError:
            yield Finding(name, "absent", f"not installed; {purpose}")


def _git(folder: Path) -> Finding:
    from precreg import vcs
    from precreg.vcs.command import git

    try:
        says = git(folder, "--version").stdout.strip().removeprefix("git version ")
    except UserError:
        return Finding("git", "absent", "not installed; reports name no commit, and nothing is checked before a push")
    try:
        state = vcs.state(folder)
    except UserError as problem:
        return Finding("git", "broken", problem.message)
    return Finding("git", "ok", f"{says}; {f'commit {state.commit[:8]}' if state else 'no commit here'}")


def _history(project: Path, place: str | None) -> Finding:
    try:
        with open_project_history(project, place) as history:
            count = len(history.runs())
    except UserError as problem:
        if problem.slug == "missing-history" and place is None:
            return Finding("history", "absent", "none yet; precreg history add --create begins one")
        return Finding("history", "broken", f"{problem.file}: {problem.message}" if problem.file else problem.message)
    return Finding("history", "ok", f"{count} {'run' if count == 1 else 'runs'}")
