"""Which suites does a project have, and is each of them valid?

Suites are suites/{unit,integration,model}/**/*.yaml. Their tolerances are layers over suites/tolerances.yaml.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from os.path import lexists, normpath
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from precreg.errors import UserError, nearest
from precreg.measure import OWN_FIGURES, analyzer_target, baseline_metrics
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
from precreg.suite.files import SuiteFile, TableEntry, TolerancesFile
from precreg.tolerance import (
    NO_BOUNDS,
    SHIPPED_LAYERS,
    THRESHOLDS_VARIABLE,
    TOLERANCES_FILE,
    drop_unmeasured_settings,
    environment_layers,
    read_layers,
    read_thresholds,
    require_analyzers,
)
from precreg.types import PAIRED_LOSS, RULES, STATISTIC, TIERS, Layer, Location, Tier, split_growth_key

# Growth of a recorded figure that is allowed against the baseline. A sweep draws the same inputs in each run, so that
# figures repeat on the same code and device; without arrays no statistic knows the noise of another compiler.
FIGURE_GROWTH = 0.1


class Suite(Struct, frozen=True):
    """Hold a suite file with its line numbers, tier, folder and layers of tolerances.

    `directory` is relative to the project.
    """

    tier: Tier
    directory: str
    source: Source
    file: SuiteFile
    layers: tuple[Layer, ...]

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
            raise suite.source.error("bad-value", message, "depends", index)
        if next(files_matching(project, pattern), None) is None:
            message = f"expected a file that matches depends={text} but there is none{_nearest_path(pattern, project)}"
            raise suite.source.error("missing-file", message, "depends", index)


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
    _check_roles(source, file)
    _check_requirements(source, file.requires)
    _check_analyzers(source, file.analyzers)
    own = tuple(read_layers("suite", source, ("tolerance",), file.tolerance))
    if file.onnx_tests is not None:
        # Settings of the suite come later, and win.
        own = (*read_layers("onnx_tests", source, ("onnx_tests",), _NODE_TEST_TOLERANCE), *own)
    if file.table is None:
        layers = foundation.pyramid(tier, file.category, own, file.analyzers)
    else:
        require_recorded(source, file.table, own)
        shipped = (*SHIPPED_LAYERS, _figures_layer(file))
        layers = with_own_figures_off(file.table, foundation.pyramid(tier, file.category, own, OWN_FIGURES, shipped))
    return Suite(tier, shown.rpartition("/")[0], source, file, layers)


def recorded_metrics(table: TableEntry) -> dict[str, str]:
    """Return the keys of `metrics:` by the name of the metric: precreg's own, or DIRECTION.KEY for the table's."""
    given, kept = table.metrics if isinstance(table.metrics, dict) else {}, baseline_metrics()
    better = {key: value.get("better") for key, value in given.items() if isinstance(value, dict)}
    return {key if key in kept else f"{better.get(key)}.{key}": key for key in given}


def require_recorded(source: Source, table: TableEntry, own: Sequence[Layer]) -> None:
    """Refuse settings of the suite for metrics that its table lacks. Shared layers are for other suites, too."""
    known = recorded_metrics(table)
    for layer in own:
        growths = [split_growth_key(key)[0] for key, growth in layer.regression.items() if growth is not None]
        for metric in (*layer.bounds, *growths):
            if metric not in known and metric not in ("standard", *RULES):
                listed = ", ".join(known)
                message = f"expected a metric of the table ({listed}) but got {metric}{nearest(metric, known)}"
                line = layer.lines.get(metric, layer.source.line)
                raise UserError("unknown-metric", message, file=layer.source.file, line=line)


def with_own_figures_off(table: TableEntry, layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Return layers in which `regression: off` covers the figures that a table records under names of its own."""
    every = {*RULES, *baseline_metrics()}
    off: dict[str, float | None] = dict.fromkeys(recorded_metrics(table))
    return tuple(
        replace(layer, regression={**off, **layer.regression})
        if every <= layer.regression.keys() and not any(growth is not None for growth in layer.regression.values())
        else layer
        for layer in layers
    )


def _figures_layer(file: SuiteFile) -> Layer:
    """Return the shipped settings for recorded figures: no bound on elements, and one growth for every figure.

    The statistic and pairs of versions need arrays.
    """
    assert file.table is not None
    growths = dict.fromkeys(recorded_metrics(file.table), FIGURE_GROWTH)
    off: dict[str, float | None] = {STATISTIC: None, PAIRED_LOSS: None}
    place = Location("precreg's defaults for recorded figures")
    return Layer("shipped", place, {"standard": NO_BOUNDS.name}, regression={**off, **growths})


def _tier_of_path(shown: str) -> Tier:
    folder = shown.split("/")[1]
    for tier in TIERS:
        if tier == folder and shown.count("/") > 1:
            return tier
    message = f"expected a suite in suites/{{{','.join(TIERS)}}}/ but got file={shown}{nearest(folder, TIERS)}"
    raise UserError("bad-value", message, file=shown, line=1)


def _check_roles(source: Source, file: SuiteFile) -> None:
    """Require a subject with a reference or golden, or files in their place, and reasons for known failures."""
    if file.table is not None:
        _check_table(source, file)
    elif file.files is not None:
        _check_recorded(source, file)
        oracles = [key for key in ("reference", "golden") if getattr(file.files, key) is not None]
        _refuse_two_oracles(source, oracles, "files")
        if not oracles:
            raise source.error("missing-key", "expected reference: or golden: but neither is there", "files")
    elif file.onnx_tests is not None:
        _refuse_keys(source, "onnx_tests", (*_COMPUTING_KEYS, "matrix", "baseline_of"))
    elif file.subject is None:
        raise source.error("missing-key", "expected subject:, files: or table: but none is there", "suite")
    else:
        # A suite without either has the reference of its kind of subject, if that has one (`default_reference`).
        _refuse_two_oracles(source, [key for key in ("reference", "golden") if getattr(file, key) is not None])
    _check_expectation(source, file.expect, file.reason)
    for index, entry in enumerate(file.cases):
        _check_expectation(source, entry.expect, entry.reason, "cases", index)
    _check_determinism(source, file)


def _check_determinism(source: Source, file: SuiteFile) -> None:
    """Refuse `exact: true` together with `deterministic: false`, because repeats of such cases may differ in bits."""
    loose: list[tuple[str | int, ...]] = [("deterministic",)] if not file.deterministic else []
    loose += [("cases", at, "deterministic") for at, entry in enumerate(file.cases) if entry.deterministic is False]
    if file.exact and loose:
        raise source.error("bad-value", "expected exact: true or deterministic: false but got both", *loose[0])


def _check_recorded(source: Source, file: SuiteFile) -> None:
    """Refuse keys that have no meaning for recorded files, because precreg draws no inputs and calls no function."""
    _refuse_keys(source, "files", (*_COMPUTING_KEYS, "repeats", "onnx_tests"))
    for index, entry in enumerate(file.cases):
        if entry.seeds is not None:
            message = f"expected no seeds for recorded files but got seeds={entry.seeds}"
            raise source.error("bad-value", message, "cases", index, "seeds")


def _check_table(source: Source, file: SuiteFile) -> None:
    """Refuse keys that have no meaning for recorded figures, because precreg computes nothing and sees no array."""
    keys = ("files", "onnx_tests", *_COMPUTING_KEYS, "matrix", "repeats", "deterministic", "analyzers", "baseline_of")
    _refuse_keys(source, "table", (*keys, "budget"))
    for index, entry in enumerate(file.cases):
        for key in ("seeds", "deterministic"):
            if getattr(entry, key) is not None:
                message = f"expected no {key} for recorded figures but got {key}={getattr(entry, key)}"
                raise source.error("bad-value", message, "cases", index, key)


# Keys of suites that draw inputs and compute.
_ORACLE_KEYS = ("reference", "reference_dtype", "golden", "benchmark")
_COMPUTING_KEYS = ("subject", *_ORACLE_KEYS, "inputs", "params", "device", "study", "seeds")


def _refuse_keys(source: Source, beside: str, keys: Sequence[str]) -> None:
    # The check reads the file and not the struct, because the struct does not show if a value is a default.
    for key in keys:
        if key in source.data:
            raise source.error("bad-value", f"expected {key} or {beside} but got both", key)


def _refuse_two_oracles(source: Source, given: list[str], *path: str) -> None:
    if len(given) == 2:
        raise source.error("bad-value", "expected reference or golden but got both", *path, "golden")


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
            analyzer_target(name)
        except UserError as error:
            raise source.error(error.slug, error.message, "analyzers", index) from None


def _is_requirement(text: str) -> bool:
    """Return True for device:LABEL, the import name of a module, or a requirement as pip writes it."""
    if text.startswith("device:"):
        return re.fullmatch(r"device:\S+", text) is not None
    if text.isidentifier():  # __main__ is precreg itself, so it is always there and requires nothing
        return text != "__main__"
    from packaging.requirements import InvalidRequirement, Requirement  # takes 10 ms, and few suites require a version

    try:
        Requirement(text)
    except InvalidRequirement:
        return False
    return True


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
            raise source.error("unknown-key", message, "tiers", name)
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
