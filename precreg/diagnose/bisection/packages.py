"""Which release of which package made a case worse?

The code comes from the working tree. pip lists the releases and installs each of them into a virtual environment, which
has the packages of the present environment behind its own ones. Environments stay below .precreg for the next search.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from math import inf
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from msgspec.structs import replace
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from precreg.diagnose.bisection.judgement import VersionJudge
from precreg.diagnose.bisection.log import SearchLog
from precreg.diagnose.bisection.process import CodeVersion
from precreg.diagnose.bisection.search import first_bad, smallest_set
from precreg.errors import UserError
from precreg.storage import WORKING_FOLDER, lock_file, make_scratch_folder, report_write_errors
from precreg.types import Bisection, BisectionStep, Case, GuiltyRelease, Reason

ENVIRONMENTS_FOLDER = f"{WORKING_FOLDER}/environments"
_RANGE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<good>[^.\s][^\s]*?)\.\.(?P<bad>[^.\s]\S*)")
_READY = "ready"
# Releases shown in a message.
_SHOWN = 8
_PIP = (sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input")


class PackageRange(NamedTuple):
    """A package with its releases from the good one to the bad one."""

    name: str
    releases: tuple[str, ...]


def read_package_range(text: str) -> PackageRange:
    """Read NAME==GOOD..BAD, and list the final releases between both. Raises UserError: bad-bisection, no-releases."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        message = f"expected NAME==GOOD..BAD but got package={text!r}"
        raise UserError("bad-bisection", message, hint="write --package numpy==2.3.0..2.4.0")
    name, ends = found["name"], (_version(found["good"], text), _version(found["bad"], text))
    if ends[0] == ends[1]:
        raise UserError("bad-bisection", f"expected two releases but got package={text!r}")
    known = {version: written for written in _releases(name) if (version := _known_version(written)) is not None}
    for end in ends:
        if end not in known:
            raise UserError("no-releases", f"expected a release of {name} but got {end}{_nearby(end, known)}")
    low, high = sorted(ends)
    between = [each for each in sorted(known) if low <= each <= high and (each in ends or not each.is_prerelease)]
    if ends[0] > ends[1]:
        between.reverse()
    return PackageRange(name, tuple(known[each] for each in between))


def _version(written: str, text: str) -> Version:
    found = _known_version(written)
    if found is None:
        raise UserError("bad-bisection", f"expected a version but got {written!r} in package={text!r}")
    return found


def _known_version(written: str) -> Version | None:
    try:
        return Version(written)
    except InvalidVersion:
        return None


def _nearby(end: Version, known: Mapping[Version, str]) -> str:
    nearest = sorted(known, key=lambda each: (each.release[:1] != end.release[:1], abs(_rank(each) - _rank(end))))
    return f"; near it are {', '.join(known[each] for each in sorted(nearest[:_SHOWN]))}" if nearest else ""


def _rank(version: Version) -> float:
    return sum(number * 1000.0**-place for place, number in enumerate(version.release[:4]))


def _releases(name: str) -> list[str]:
    """Return the releases that pip finds, final and other ones. Raises UserError: no-releases."""
    ended = _run([*_PIP, "index", "versions", "--pre", name])
    # pip below 25.2 has no JSON here, so this is the line that a person reads.
    found = re.search(r"^Available versions: (.+)$", ended.stdout, re.MULTILINE)
    if ended.returncode or found is None:
        raise UserError("no-releases", f"expected pip to list the releases of package={name} but: {_last_line(ended)}")
    return found[1].split(", ")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def _last_line(ended: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1].strip() if lines else f"it ended with code {ended.returncode}"


class _NotInstalled(Exception):  # noqa: N818  (an event of a step, and no error of ours)
    """Say why a set of releases cannot be installed."""


def search_packages(
    case: Case,
    project: Path,
    judge: VersionJudge,
    ranges: Sequence[PackageRange],
    log: SearchLog,
    report: Callable[[BisectionStep], None],
) -> Bisection:
    """Search the packages whose releases make the case bad, and the first bad release of each.

    Raises UserError: no-releases, if an end cannot be installed; not-writable.
    """
    search = _PackageSearch(project, judge, log, report)
    good = {each.name: each.releases[0] for each in ranges}
    bad = {each.name: each.releases[-1] for each in ranges}
    found = Bisection(
        case=case.id,
        kind="packages",
        status="found",
        good=_pins(good),
        bad=_pins(bad),
        versions=sum(len(each.releases) - 1 for each in ranges),
        log=log.shown,
    )
    try:
        judged = judge.judge_ends(search.version(good), search.version(bad))
    except _NotInstalled as problem:
        raise UserError("no-releases", f"expected pip to install both ends but: {problem}") from None
    for step in judged.steps:
        report(step)
    found = replace(found, rule=judged.rule, ends=judged.steps)
    if judged.status is not None:
        return replace(found, status=judged.status)
    guilty = [*ranges]
    if len(ranges) > 1:
        guilty = smallest_set(ranges, lambda some: search.is_bad(good | {each.name: bad[each.name] for each in some}))
    together = good | {each.name: bad[each.name] for each in guilty}
    releases = tuple(search.first_bad_release(each, together) for each in guilty)
    undone = bad | {each.package: each.good for each in releases}
    return replace(found, steps=tuple(search.steps), releases=releases, proof=search.judge(undone))


class _PackageSearch:
    """The steps of a search among releases: each set of pins is judged once."""

    def __init__(
        self, project: Path, judge: VersionJudge, log: SearchLog, report: Callable[[BisectionStep], None]
    ) -> None:
        self._project, self._judge, self._log, self._report = project, judge, log, report
        self.steps: list[BisectionStep] = []
        self._known: dict[str, BisectionStep] = {}

    def version(self, pins: Mapping[str, str]) -> CodeVersion:
        """Return the working tree with these releases. Raises _NotInstalled."""
        return CodeVersion(_pins(pins), self._project, python=str(environment_python(self._project, pins)))

    def is_bad(self, pins: Mapping[str, str]) -> bool:
        """Return whether the case is bad with these releases."""
        return self.judge(pins).verdict == "bad"

    def judge(self, pins: Mapping[str, str]) -> BisectionStep:
        """Judge the case with these releases; a set that cannot be installed cannot run."""
        name = _pins(pins)
        step = self._known.get(name) or self._log.known(name)
        if step is None:
            step = self._run(name, pins)
            word = {"good": "good", "bad": "bad"}.get(step.verdict, "skip")
            self._log.take(step, f"precreg bisect {word} {name}")
        if name not in self._known:
            self.steps.append(step)
            self._report(step)
        self._known[name] = step
        return step

    def _run(self, name: str, pins: Mapping[str, str]) -> BisectionStep:
        began = monotonic()
        try:
            version = self.version(pins)
        except _NotInstalled as problem:
            seconds = monotonic() - began
            return BisectionStep(name, "cannot_run", "failure", Reason.UNAVAILABLE, str(problem), seconds=seconds)
        return self._judge.judge(version)

    def first_bad_release(self, package: PackageRange, together: Mapping[str, str]) -> GuiltyRelease:
        """Return the first bad release of a package; `together` has the guilty packages at their bad ends."""
        releases = package.releases
        place = first_bad(len(releases), lambda each: self.judge({**together, package.name: releases[each]}).verdict)
        candidates = tuple(releases[each] for each in place.skipped)
        return GuiltyRelease(package.name, releases[place.good], releases[place.bad], candidates)


def _pins(pins: Mapping[str, str]) -> str:
    return " ".join(f"{name}=={version}" for name, version in sorted(pins.items()))


def environment_python(project: Path, pins: Mapping[str, str]) -> Path:
    """Return the interpreter of the virtual environment with these releases; make it if it is missing.

    Raises _NotInstalled; UserError: not-writable.
    """
    # The interpreter and its packages, because the environment has them behind its own ones.
    about = [_pins(pins), sys.executable, sys.version, *_package_folders()]
    root = project / ENVIRONMENTS_FOLDER
    folder = root / sha256(json.dumps(about).encode()).hexdigest()[:16]
    python = folder / "bin" / "python"
    with report_write_errors(ENVIRONMENTS_FOLDER):
        make_scratch_folder(project / WORKING_FOLDER)
        make_scratch_folder(root)
        with (root / f"{folder.name}.lock").open("ab") as stream:
            lock_file(stream, inf)
            if not (folder / _READY).is_file():
                shutil.rmtree(folder, ignore_errors=True)
                venv.create(folder, symlinks=True, with_pip=False)
                _install(folder, python, pins)
                (folder / _READY).touch()
    _require_consistent(folder)
    return python


def _install(folder: Path, python: Path, pins: Mapping[str, str]) -> None:
    """Install releases and dependencies that are missing, and put the present packages behind them."""
    wanted, installed = [f"{name}=={version}" for name, version in pins.items()], set[str]()
    while wanted:
        if installed.issuperset(wanted):
            raise _NotInstalled(f"pip installs {wanted[0]} under another name")
        installed.update(wanted)
        # Dependencies that are here stay as they are: another numpy would be another change.
        ended = _run([*_PIP, "--python", str(python), "install", "--quiet", "--no-deps", *wanted])
        if ended.returncode:
            raise _NotInstalled(_last_line(ended))
        wanted = [str(need.requirement) for need in _needs(folder) if need.installed is None]
    # addsitedir also reads the .pth files of editable installs.
    lines = [f"import site; site.addsitedir({place!r})" for place in _package_folders()]
    (_own_packages(folder) / "zz_precreg_present.pth").write_text("\n".join(lines) + "\n")


def _own_packages(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))


def _package_folders() -> list[str]:
    folders = (Path(place) for place in sys.path)
    return [str(place) for place in folders if place.name in ("site-packages", "dist-packages") and place.is_dir()]


def _require_consistent(folder: Path) -> None:
    """Check that the present packages satisfy the dependencies of the releases. Raises _NotInstalled."""
    for need in _needs(folder):
        if not need.requirement.specifier.contains(need.installed or "0", prereleases=True):
            has = f"{need.requirement.name} {need.installed}"
            raise _NotInstalled(f"{need.package} needs {need.requirement}, and the present environment has {has}")


class _Need(NamedTuple):
    """A package with one of its dependencies, and the version that is installed; None without one."""

    package: str
    requirement: Requirement
    installed: str | None


def _needs(folder: Path) -> Iterator[_Need]:
    distributions = [*importlib.metadata.distributions(path=[str(_own_packages(folder))])]
    own = {canonicalize_name(each.metadata["Name"]): each.version for each in distributions}
    for each in distributions:
        for text in each.requires or ():
            try:
                needed = Requirement(text)
            except InvalidRequirement:
                continue
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                # Without its marker, which pip would read again.
                needed.marker = None
                installed = own.get(canonicalize_name(needed.name)) or _present_version(needed.name)
                yield _Need(f"{each.metadata['Name']} {each.version}", needed, installed)


def _present_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
