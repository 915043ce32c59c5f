"""Which suites does a project have, and is each of them valid?

Suites are suites/{unit,integration,model}/**/*.yaml. Their tolerances are layers over suites/tolerances.yaml.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from os.path import lexists, normpath
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from precreg.errors import UserError, key_hint, nearest
from precreg.measure import OWN_FIGURES, analyzer_target
from precreg.storage import (
    DEVICES_FOLDER,
    Source,
    can_affect_cases,
    convert_source,
    expect_mapping,
    files_matching,
    fixed_folder,
    path_beside_suite,
    read_yaml,
    resolve_inside,
    yaml_files,
)
from precreg.suite.figure_layers import figures_layer, require_recorded, with_own_figures_off
from precreg.suite.files import SuiteFile, TolerancesFile
from precreg.suite.requirements import check_requirements
from precreg.suite.roles import check_roles
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
    """Hold a suite file with its line numbers, tier, folder and layers of tolerances.

    `directory` is relative to the project. `has_files` is false for a suite of another commit, whose text alone counts.
    """

    tier: Tier
    directory: str
    source: Source
    file: SuiteFile
    layers: tuple[Layer, ...]
    has_files: bool = True

    @property
    def id(self) -> str:
        """Return the id TIER/SUITE, which is unique in the project."""
        return f"{self.tier}/{self.file.suite}"


class Foundation(Struct, frozen=True):
    """Hold the layers that all suites share: suites/tolerances.yaml below, PRECISION_THRESHOLDS above a suite."""

    default: tuple[Layer, ...] = ()
    tiers: dict[str, tuple[Layer, ...]] = {}
    categories: dict[str, tuple[Layer, ...]] = {}
    environments: tuple[Layer, ...] = ()
    looser_thresholds: bool = False
    thresholds: dict[Tier, tuple[Layer, ...]] = {}

    def pyramid(
        self,
        tier: Tier,
        category: str | None,
        own: Sequence[Layer],
        analyzers: Collection[str] = (),
        shipped: Sequence[Layer] = SHIPPED_LAYERS,
    ) -> tuple[Layer, ...]:
        """Return every layer for a suite with `own` layers, from the shipped layers up.

        Shared layers may bound metrics of analyzers that this suite does not use; those bounds are left out. Raises
        UserError (unknown-analyzer) if an own layer bounds one.
        """
        require_analyzers(own, analyzers)
        # Later layers win, so the order is from general to special. PRECISION_THRESHOLDS is last: the
        # caller of the run sets it, and it applies over everything in the repository.
        layers = (
            *shipped,
            *self.default,
            *self.tiers.get(tier, ()),
            *self.categories.get(category or "", ()),
            *self.environments,
            *own,
            *self.thresholds.get(tier, ()),
        )
        return tuple(drop_unmeasured_settings(layers, analyzers))


def load_suites(project: Path, environ: Mapping[str, str] = os.environ) -> list[Suite]:
    """Return the project's suites in the order of their paths.

    Raises UserError for the first mistake: the errors of `read_foundation` and `read_suite`, and duplicate-suite.
    """
    foundation = read_foundation(project, environ)
    suites = [read_suite(path, project, foundation) for path in suite_files(project)]
    first: dict[str, Suite] = {}
    for suite in suites:
        require_unique_suite(suite, first)
        require_depends(suite, project)
    return suites


def suite_files(project: Path) -> list[Path]:
    """Return the paths of the suite files below suites/, sorted.

    suites/tolerances.yaml and the devices below suites/devices/ are no suites.
    """
    # Files that end in .yml count too: a suite that precreg overlooks never fails.
    devices = project / DEVICES_FOLDER
    return sorted(
        path for path in yaml_files(project) if path != project / TOLERANCES_FILE and not path.is_relative_to(devices)
    )


def require_unique_suite(suite: Suite, first: dict[str, Suite]) -> None:
    """Add a suite to `first`, the suites by id. Raises UserError (duplicate-suite) if another file has the id."""
    other = first.setdefault(suite.id, suite)
    if other.source.file != suite.source.file:
        place = other.source.where("suite")
        message = f"expected a name that is not taken but got suite={suite.file.suite}, as in {place}"
        raise suite.source.error("duplicate-suite", message, "suite")


def depends_patterns(suite: Suite, project: Path) -> Iterator[tuple[str, str]]:
    """Yield the texts of `depends:`, each with the same path or pattern relative to the project.

    Raises UserError: outside-project, bad-value.
    """
    for index, text in enumerate(suite.file.depends):
        where = suite.source.where("depends", index)
        fixed = fixed_folder(text)
        # Links are followed for this check alone: a pattern means paths as git lists them.
        path_beside_suite(project, suite.directory, fixed or ".", where)
        pattern = normpath(f"{suite.directory}/{text}")
        rest = text.removeprefix(fixed)
        if ".." in rest.split("/") or pattern.startswith("../"):
            message = f"expected no .. after a wildcard but got depends={text}"
            raise UserError("outside-project", message, file=where.file, line=where.line)
        yield text, pattern


def require_depends(suite: Suite, project: Path) -> None:
    """Require a file for each path and pattern of `depends:`. Raises UserError: missing-file, bad-value."""
    # Not a part of reading a suite: the suites of another commit are read without the files beside them.
    for index, (text, pattern) in enumerate(depends_patterns(suite, project)):
        if not can_affect_cases(pattern):
            message = f"expected no document and no hidden file, which select no case, but got depends={text}"
            raise suite.source.error(
                "bad-value",
                message,
                "depends",
                index,
                hint="name the source or data that the result depends on: depends: [kernels/norm.c]",
            )
        if next(files_matching(project, pattern), None) is None:
            message = f"expected a file that matches depends={text} but there is none{_nearest_path(pattern, project)}"
            hint = "write a path or a pattern beside the suite, such as depends: [data/*.bin]"
            raise suite.source.error("missing-file", message, "depends", index, hint=hint)


def _nearest_path(pattern: str, project: Path) -> str:
    """Return the hint at the nearest name in the folder in which the pattern finds nothing."""
    folder = fixed_folder(pattern)
    while folder and not (project / folder).is_dir():
        folder = folder.rpartition("/")[0]
    if not (project / folder).is_dir():
        return ""
    wanted = pattern.removeprefix(folder).strip("/").partition("/")[0]
    return nearest(wanted, (entry.name for entry in (project / folder).iterdir()))


# The standard of ONNX's own runner. Integers, bools and the bytes of strings must be equal.
_EXACT = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
_NODE_TEST_TOLERANCE = {"standard": "onnx-backend-1", **{dtype: {"rtol": 0.0, "atol": 0.0} for dtype in _EXACT}}


def read_suite(path: Path, project: Path, foundation: Foundation) -> Suite:
    """Read one suite from a path below suites/ of the project.

    Raises UserError: the errors of `read_yaml`, unknown-key, missing-key, bad-value, unknown-metric,
    unknown-dtype, unknown-standard, outside-project.
    """
    shown = path.relative_to(project).as_posix()
    resolve_inside(project, shown, file=shown)
    tier = _tier_of_path(shown)
    source = read_yaml(path, shown)
    file = convert_source(source, SuiteFile)
    check_roles(source, file)
    check_requirements(source, file.requires)
    _check_analyzers(source, file.analyzers)
    own = tuple(read_layers("suite", source, ("tolerance",), file.tolerance))
    if file.onnx_tests is not None:
        # Settings of the suite come later, and win.
        own = (*read_layers("onnx_tests", source, ("onnx_tests",), _NODE_TEST_TOLERANCE), *own)
    if file.table is None:
        layers = foundation.pyramid(tier, file.category, own, file.analyzers)
    else:
        require_recorded(source, file.table, own)
        shipped = (*SHIPPED_LAYERS, figures_layer(file))
        layers = with_own_figures_off(file.table, foundation.pyramid(tier, file.category, own, OWN_FIGURES, shipped))
    return Suite(tier, shown.rpartition("/")[0], source, file, layers)


def _tier_of_path(shown: str) -> Tier:
    folder = shown.split("/")[1]
    for tier in TIERS:
        if tier == folder and shown.count("/") > 1:
            return tier
    message = f"expected a suite in suites/{{{','.join(TIERS)}}}/ but got file={shown}{nearest(folder, TIERS)}"
    raise UserError(
        "bad-value",
        message,
        file=shown,
        line=1,
        hint=f"move the file: git mv {shown} suites/unit/{shown.rpartition('/')[2]}",
    )


def _check_analyzers(source: Source, analyzers: tuple[str, ...]) -> None:
    for index, name in enumerate(analyzers):
        if name in analyzers[:index]:
            message = f"expected each analyzer once but got analyzer={name} again"
            raise source.error("bad-value", message, "analyzers", index, hint=f"write it once: analyzers: [{name}]")
        try:
            analyzer_target(name)
        except UserError as error:
            raise source.error(error.slug, error.message, "analyzers", index, hint=error.hint) from None


def read_foundation(project: Path, environ: Mapping[str, str] = os.environ) -> Foundation:
    """Read suites/tolerances.yaml and the variable PRECISION_THRESHOLDS of `environ`.

    Raises UserError: the errors of `read_suite`, and bad-thresholds.
    """
    written = _read_tolerances(project)
    thresholds = read_thresholds(environ.get(THRESHOLDS_VARIABLE, ""), project, looser=written.looser_thresholds)
    return replace(written, thresholds=thresholds)


def _read_tolerances(project: Path) -> Foundation:
    path = project / TOLERANCES_FILE
    # A link that leads nowhere would otherwise take all tolerances away in silence.
    if not lexists(path):
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
            raise source.error("unknown-key", message, "tiers", name, hint=key_hint(name, TIERS))
    expect_mapping(source, file.environments, "environments")
    return Foundation(
        tuple(read_layers("default", source, ("default",), file.default)),
        _read_layers_by_name("tier", source, "tiers", file.tiers),
        _read_layers_by_name("category", source, "categories", file.categories),
        tuple(environment_layers("default", source, ("environments",), file.environments)),
        file.allow_looser_thresholds,
    )


def _read_layers_by_name(word: str, source: Source, key: str, mapping: Any) -> dict[str, tuple[Layer, ...]]:
    expect_mapping(source, mapping, key)
    return {name: tuple(read_layers(f"{word} {name}", source, (key, name), value)) for name, value in mapping.items()}
