"""The fixture `precision`: hand-written tests with the pyramid, the baselines and the reports of suites."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from os.path import realpath, relpath
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from precreg.errors import UserError
from precreg.handwritten import Check, case_of, measured, require_name
from precreg.pytest_plugin.carry import judged, keep
from precreg.pytest_plugin.projects import PROJECTS, Projects
from precreg.records import CaseResult
from precreg.tolerance.layers import read_layers
from precreg.tolerance.warnings import unmatched_outputs
from precreg.types import TIERS, Location, Role, Tier


class Precision:
    """What the fixture gives one test. Each check is a case, called after the test."""

    def __init__(self, item: pytest.Item, projects: Projects) -> None:
        self._item, self._projects = item, projects
        self._project = projects.of_test(item.path)
        self._names: set[str] = set()
        item.stash[PROJECTS] = projects

    def check(
        self,
        actual: Any,
        *,
        reference: Any = None,
        golden: Any = None,
        inputs: Mapping[str, ArrayLike] | None = None,
        name: str = "",
        tier: Tier | None = None,
        category: str | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        tolerance: Mapping[str, Any] | None = None,
        exact: bool = False,
    ) -> CaseResult:
        """Measure and judge what a test computed, and fail the test where a suite's case would fail.

        Args:
            actual: the result under test: an array, a dict of arrays by output, or a tuple of arrays.
            reference: the same in higher precision; this or `golden`, with the same outputs and shapes.
            golden: what to match, in the outputs' own dtypes.
            inputs: the arrays it was computed from, by name. With them a baseline of other inputs is told apart.
            name: tells the checks of one test apart; needed where there are several.
            tier: unit, integration or model; without it the mark of that name on the test, else unit.
            category: operator category, a layer of the tolerances.
            rtol: |actual - reference| <= atol + rtol * |reference|, for every element.
            atol: see rtol; in the unit of the output.
            tolerance: whatever a suite may say under `tolerance`, rtol and atol among it.
            exact: any bit that differs from the baseline's is a regression.

        Returns:
            The result, with metrics and verdict. A case without a baseline does not stop the test.
        """
        __tracebackhide__ = True
        place = self._place(sys._getframe(1).f_code.co_filename, sys._getframe(1).f_lineno)
        given = {"rtol": rtol, "atol": atol}
        settings = {**(tolerance or {}), **{key: value for key, value in given.items() if value is not None}}
        try:
            role: Role = _role(reference, golden, place)
            check = self._checked(name, place, role, tier, category, settings, exact)
            oracle = reference if role == "reference" else golden
            result = self._result(check, actual, oracle, inputs or {})
        except UserError as mistake:
            pytest.fail(str(self._projects.shown(self._project, mistake)), pytrace=False)
        keep(self._item, self._project, result)
        judged(result)
        return result

    def _checked(
        self,
        name: str,
        place: Location,
        role: Role,
        tier: Tier | None,
        category: str | None,
        settings: dict[str, Any],
        exact: bool,
    ) -> Check:
        """Describe the check. Raises UserError: bad-value, duplicate-case, duplicate-suite."""
        if tier is None:
            marked: list[Tier] = [mark for mark in TIERS if self._item.get_closest_marker(mark)]
            tier = marked[0] if marked else "unit"
        check = Check(self._module(), self._test(), place, role, name, tier, category, settings, exact)
        require_name(check)
        if tier not in TIERS:
            message = f"expected one of {', '.join(TIERS)} but got tier={tier}"
            raise UserError("bad-value", message, file=place.file, line=place.line)
        if name in self._names:
            message = f"expected a name= of its own for each check of a test but got name={name!r} twice"
            raise UserError("duplicate-case", message, file=place.file, line=place.line)
        self._names.add(name)
        taken = self._projects.suites(self._project).get(f"{tier}/{check.suite}")
        if taken is not None:
            message = f"expected a test file whose cases no suite has but {tier}/{check.suite} is the suite in {taken}"
            raise UserError("duplicate-suite", message, file=place.file, line=place.line)
        return check

    def _result(self, check: Check, actual: Any, oracle: Any, inputs: Mapping[str, ArrayLike]) -> CaseResult:
        source = check.settings
        own = tuple(read_layers("test", source, ("tolerance",), check.tolerance))
        layers = self._projects.pyramid(self._project, check.tier, check.category, own)
        arrays = {key: np.asarray(value) for key, value in inputs.items()}
        case = case_of(check, arrays, layers)
        judge = self._projects.judge(self._project)
        outcome = measured(case, actual, oracle, arrays, judge.environment.chain)
        for text in unmatched_outputs(own, {comparison.output for comparison in outcome.comparisons}):
            self._item.warn(pytest.PytestWarning(text))
        return judge.judge(case, outcome)

    def _module(self) -> str:
        path = self._relative(self._item.path)
        return str(Path(path).with_suffix("").as_posix())

    def _test(self) -> str:
        """Join the names of classes and function; a node id may have been given suffixes by pytest-xdist."""
        named = (node.name for node in self._item.listchain() if isinstance(node, pytest.Class | pytest.Item))
        return ".".join(named)

    def _place(self, file: str, line: int) -> Location:
        return Location(Path(self._relative(Path(file))).as_posix(), line)

    def _relative(self, path: Path) -> str:
        """Write a path relative to the project, or to pytest's root where it lies outside."""
        real = Path(realpath(path))
        if real.is_relative_to(self._project):
            return relpath(real, self._project)
        return relpath(path, self._projects.root)


def _role(reference: Any, golden: Any, place: Location) -> Role:
    if (reference is None) == (golden is None):
        came = "neither" if reference is None else "both"
        message = f"expected reference= or golden= but got {came}"
        raise UserError("bad-value", message, file=place.file, line=place.line)
    return "golden" if reference is None else "reference"
