"""Reading every suite of a project: suites/{unit,integration,model}/**/*.yaml over suites/tolerances.yaml."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from precreg.errors import UserError, nearest
from precreg.measure import analyzer_entry_point
from precreg.storage import DEVICES_FOLDER, Source, expect_mapping, read_yaml, resolve_inside, yaml_files
from precreg.suite.files import SuiteFile, TolerancesFile, convert_source
from precreg.tolerance import (
    SHIPPED_LAYERS,
    THRESHOLDS_VARIABLE,
    TOLERANCES_FILE,
    drop_unmeasured_settings,
    environment_layers,
    read_layers,
    read_thresholds,
    require_analyzers,
)
from precreg.types import TIERS, Layer, Tier


class Suite(Struct, frozen=True):
    """A suite as it was read: its file with line numbers, its tier and folder, and the layers of its tolerances."""

    tier: Tier
    directory: str
    source: Source
    file: SuiteFile
    layers: tuple[Layer, ...]

    @property
    def id(self) -> str:
        """Return tier/suite."""
        return f"{self.tier}/{self.file.suite}"


class Foundation(Struct, frozen=True):
    """What all suites of a project stand on: the layers of suites/tolerances.yaml, and PRECISION_THRESHOLDS above."""

    default: tuple[Layer, ...] = ()
    tiers: dict[str, tuple[Layer, ...]] = {}
    categories: dict[str, tuple[Layer, ...]] = {}
    environments: tuple[Layer, ...] = ()
    looser_thresholds: bool = False
    thresholds: dict[Tier, tuple[Layer, ...]] = {}

    def pyramid(
        self, tier: Tier, category: str | None, own: Sequence[Layer], analyzers: Collection[str] = ()
    ) -> tuple[Layer, ...]:
        """Return every layer of a suite, or of whatever else has layers of its own, from the shipped ones up.

        What layers of many suites say of analyzers that this one does not ask for is left out. Raises UserError
        (unknown-analyzer) where its own speak of one.
        """
        require_analyzers(own, analyzers)
        layers = (
            *SHIPPED_LAYERS,
            *self.default,
            *self.tiers.get(tier, ()),
            *self.categories.get(category or "", ()),
            *self.environments,
            *own,
            *self.thresholds.get(tier, ()),
        )
        return tuple(drop_unmeasured_settings(layers, analyzers))


def load_suites(project: Path, environ: Mapping[str, str] = os.environ) -> list[Suite]:
    """Return the project's suites in order of their paths.

    Raises UserError for the first mistake found: what `read_foundation` and `read_suite` raise, and duplicate-suite.
    """
    foundation = read_foundation(project, environ)
    suites = [read_suite(path, project, foundation) for path in suite_files(project)]
    first: dict[str, Suite] = {}
    for suite in suites:
        require_unique_suite(suite, first)
    return suites


def suite_files(project: Path) -> list[Path]:
    """Return the YAML files below suites/, sorted; .yml counts, because a suite that is overlooked never fails.

    Without suites/tolerances.yaml, and without the devices below suites/devices/.
    """
    devices = project / DEVICES_FOLDER
    return sorted(
        path for path in yaml_files(project) if path != project / TOLERANCES_FILE and not path.is_relative_to(devices)
    )


def require_unique_suite(suite: Suite, first: dict[str, Suite]) -> None:
    """Add a suite to those that were read first by their ids. Raises UserError (duplicate-suite)."""
    other = first.setdefault(suite.id, suite)
    if other.source.file != suite.source.file:
        place = other.source.where("suite")
        message = f"expected a name that is not taken but got suite={suite.file.suite}, as in {place}"
        raise suite.source.error("duplicate-suite", message, "suite")


def read_suite(path: Path, project: Path, foundation: Foundation) -> Suite:
    """Read one suite, whose path is below suites/ of the project.

    Raises UserError: whatever reading YAML raises, unknown-key, missing-key, bad-value, unknown-metric,
    unknown-dtype, unknown-standard, outside-project.
    """
    shown = path.relative_to(project).as_posix()
    resolve_inside(project, shown, file=shown)
    tier = _tier(shown)
    source = read_yaml(path, shown)
    file = convert_source(source, SuiteFile)
    _check_roles(source, file)
    _check_requirements(source, file.requires)
    _check_analyzers(source, file.analyzers)
    own = tuple(read_layers("suite", source, ("tolerance",), file.tolerance))
    layers = foundation.pyramid(tier, file.category, own, file.analyzers)
    return Suite(tier, shown.rpartition("/")[0], source, file, layers)


def _tier(shown: str) -> Tier:
    folder = shown.split("/")[1]
    for tier in TIERS:
        if tier == folder and shown.count("/") > 1:
            return tier
    message = f"expected a suite in suites/{{{','.join(TIERS)}}}/ but got file={shown}{nearest(folder, TIERS)}"
    raise UserError("bad-value", message, file=shown, line=1)


def _check_roles(source: Source, file: SuiteFile) -> None:
    """Require a subject and one of reference and golden, or files in their place; and reasons for known failures."""
    if file.files is not None:
        _check_recorded(source, file)
        _one_oracle(source, [key for key in ("reference", "golden") if getattr(file.files, key) is not None], "files")
    elif file.subject is None:
        raise source.error("missing-key", "expected subject: or files: but neither is there", "suite")
    else:
        _one_oracle(source, [key for key in ("reference", "golden") if getattr(file, key) is not None])
    _check_expectation(source, file.expect, file.reason)
    for index, entry in enumerate(file.cases):
        _check_expectation(source, entry.expect, entry.reason, "cases", index)
    _check_determinism(source, file)


def _check_determinism(source: Source, file: SuiteFile) -> None:
    """Refuse that a case may give other bits from run to run, and may not from one run to the next."""
    loose: list[tuple[str | int, ...]] = [("deterministic",)] if not file.deterministic else []
    loose += [("cases", at, "deterministic") for at, entry in enumerate(file.cases) if entry.deterministic is False]
    if file.exact and loose:
        raise source.error("bad-value", "expected exact: true or deterministic: false but got both", *loose[0])


def _check_recorded(source: Source, file: SuiteFile) -> None:
    """Refuse what has no meaning where nothing is drawn and nothing is called."""
    for key in ("subject", "reference", "golden", "inputs", "params", "device", "study", "seeds", "repeats"):
        if key in source.data:
            raise source.error("bad-value", f"expected {key} or files but got both", key)
    for index, entry in enumerate(file.cases):
        if entry.seeds is not None:
            message = f"expected no seeds for recorded files but got seeds={entry.seeds}"
            raise source.error("bad-value", message, "cases", index, "seeds")


def _one_oracle(source: Source, given: list[str], *path: str) -> None:
    if len(given) == 2:
        raise source.error("bad-value", "expected reference or golden but got both", *path, "golden")
    if not given:
        raise source.error("missing-key", "expected reference: or golden: but neither is there", *(path or ("suite",)))


def _check_expectation(source: Source, expect: str | None, reason: str | None, *path: str | int) -> None:
    if expect == "fail" and not reason:
        raise source.error("missing-key", "expected reason: beside expect but got expect=fail alone", *path, "expect")
    if reason and expect != "fail":
        message = f"expected expect: fail beside reason but got reason={reason} without it"
        raise source.error("missing-key", message, *path, "reason")


def _check_requirements(source: Source, requirements: tuple[str, ...]) -> None:
    for index, requirement in enumerate(requirements):
        if not _is_requirement(requirement):
            message = f"expected a requirement such as numpy>=2 or device:npu but got requirement={requirement}"
            raise source.error("bad-value", message, "requires", index)


def _check_analyzers(source: Source, analyzers: tuple[str, ...]) -> None:
    for index, name in enumerate(analyzers):
        if name in analyzers[:index]:
            message = f"expected each analyzer once but got analyzer={name} again"
            raise source.error("bad-value", message, "analyzers", index)
        try:
            analyzer_entry_point(name)
        except UserError as error:
            raise source.error(error.slug, error.message, "analyzers", index) from None


def _is_requirement(text: str) -> bool:
    """Tell whether a text is device:LABEL, the import name of a module, or a package as pip writes it."""
    if text.startswith("device:"):
        return re.fullmatch(r"device:\S+", text) is not None
    if text.isidentifier():
        return text != "__main__"
    from packaging.requirements import InvalidRequirement, Requirement  # 10 ms, and few suites ask for a version

    try:
        Requirement(text)
    except InvalidRequirement:
        return False
    return True


def read_foundation(project: Path, environ: Mapping[str, str] = os.environ) -> Foundation:
    """Read suites/tolerances.yaml, and PRECISION_THRESHOLDS of `environ`.

    Raises UserError as reading a suite does, and bad-thresholds.
    """
    written = _tolerances(project)
    thresholds = read_thresholds(environ.get(THRESHOLDS_VARIABLE, ""), looser=written.looser_thresholds)
    return replace(written, thresholds=thresholds)


def _tolerances(project: Path) -> Foundation:
    path = project / TOLERANCES_FILE
    if not path.exists():
        return Foundation()
    resolve_inside(project, TOLERANCES_FILE, file=TOLERANCES_FILE)
    source = read_yaml(path, TOLERANCES_FILE)
    if source.data is None:
        return Foundation()
    file = convert_source(source, TolerancesFile)
    expect_mapping(source, file.tiers, "tiers")
    for name in file.tiers:
        if name not in TIERS:
            message = f"expected one of {', '.join(TIERS)} but got tier={name}{nearest(name, TIERS)}"
            raise source.error("unknown-key", message, "tiers", name)
    expect_mapping(source, file.environments, "environments")
    return Foundation(
        tuple(read_layers("default", source, ("default",), file.default)),
        _by_name("tier", source, "tiers", file.tiers),
        _by_name("category", source, "categories", file.categories),
        tuple(environment_layers("default", source, ("environments",), file.environments)),
        file.allow_looser_thresholds,
    )


def _by_name(word: str, source: Source, key: str, mapping: Any) -> dict[str, tuple[Layer, ...]]:
    expect_mapping(source, mapping, key)
    return {name: tuple(read_layers(f"{word} {name}", source, (key, name), value)) for name, value in mapping.items()}
