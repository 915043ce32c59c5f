"""Where does a test check its own results?

The fixture `precision` gives tests the tolerances, baselines and reports of suites.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import pytest
from msgspec.structs import replace
from numpy.typing import ArrayLike

from precreg.errors import UserError
from precreg.pytest_plugin.projects import PROJECTS_KEY, SessionProjects
from precreg.pytest_plugin.recorder import apply_verdict, keep_result
from precreg.pytest_plugin.test_cases import (
    PrecisionCheck,
    SeedResults,
    case_of_check,
    measure_check,
    require_valid_check,
    role_of,
    seed_results,
    tolerance_settings,
)
from precreg.report import add_result_messages, describe_tolerance_fact
from precreg.tolerance import unmatched_outputs
from precreg.types import TIERS, CaseResult, Location, Tier

if TYPE_CHECKING:
    from numpy.random import Generator


class Precision:
    """Check the results of one test. Each check is a case, named after the test."""

    def __init__(self, item: pytest.Item, projects: SessionProjects) -> None:
        self._item, self._projects = item, projects
        self._project = projects.of_test(item.path)
        self._names: set[str] = set()
        item.stash[PROJECTS_KEY] = projects

    def check(
        self,
        actual: Any,
        *,
        reference: Any = None,
        golden: Any = None,
        inputs: Mapping[str, ArrayLike] | Callable[[Generator], Mapping[str, ArrayLike]] | None = None,
        seeds: int | None = None,
        name: str = "",
        tier: Tier | None = None,
        category: str | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        tolerance: Mapping[str, Any] | Literal["none"] | None = None,
        exact: bool = False,
    ) -> CaseResult:
        """Measure and judge the results of a test, and fail the test if the case of a suite would fail.

        `actual` is an array, a dict of arrays by output, or a tuple of arrays. Give either `reference`, the same in
        higher precision, or `golden`, to be matched in the outputs' own dtypes. `inputs` are the arrays by name that
        the result was computed from. For several `seeds`, 3 by default, give functions: `inputs` draws arrays from a
        generator of numpy, and `actual` and its oracle take them as keyword arguments. `name` distinguishes the checks
        of one test. `tier` is by default the test's mark, or unit. `category` selects a layer of tolerances. With
        `exact` any other bit is a regression.

        Returns the result with metrics and verdict. A case without a baseline does not stop the test.
        """
        __tracebackhide__ = True  # pytest then shows the line of the test that called, not this one
        place = self._place(sys._getframe(1))  # the line of the check identifies it in messages and reports
        mistake: UserError | None = None
        try:
            role, own = role_of(reference, golden, place), tolerance_settings(tolerance, place, rtol=rtol, atol=atol)
            check = PrecisionCheck("", "", place, role, name, tier or self._tier(), category, own, exact)
            check = self._complete_check(check)
            oracle = reference if role == "reference" else golden
            result = self._result(check, seed_results(actual, oracle, inputs, seeds, place))
        except UserError as error:
            mistake = error if error.file else UserError(error.slug, error.message, file=place.file, line=place.line)
        # Outside of the except clause, so that pytest does not print the chain of exceptions.
        if mistake is not None:
            pytest.fail(str(self._projects.shown(self._project, mistake)), pytrace=False)
        # Before the verdict, because that may raise and end the test.
        keep_result(self._item, self._project, result)
        apply_verdict(result)
        return result

    def _complete_check(self, check: PrecisionCheck) -> PrecisionCheck:
        """Add module and test to a check. Raises UserError as `require_valid_check` does."""
        module = self._projects.shown_path(self._project, str(self._item.path)).rpartition(".")[0]
        check = replace(check, module=module, test=self._test())
        place = self._projects.place_of_suite(self._project, f"{check.tier}/{check.suite}")
        require_valid_check(check, self._names, place)
        self._names.add(check.name)
        return check

    def _tier(self) -> Tier:
        marked: list[Tier] = [tier for tier in TIERS if self._item.get_closest_marker(tier)]
        return marked[0] if marked else "unit"

    def _result(self, check: PrecisionCheck, results: Sequence[SeedResults]) -> CaseResult:
        own, layers = self._projects.pyramid(self._project, check)
        case = case_of_check(check, results[0].inputs, layers, len(results))
        judge = self._projects.session(self._project).judge
        outcome = measure_check(case, results, judge.environment.chain)
        # A warning of pytest: it names the test, and -W error turns it into a failure.
        for fact in unmatched_outputs(own, {comparison.output for comparison in outcome.comparisons}):
            self._item.warn(pytest.PytestWarning(describe_tolerance_fact(fact)))
        return add_result_messages(judge.judge(case, outcome))

    def _test(self) -> str:
        """Join the names of classes and function."""
        # Not from the node id, to which pytest-xdist may add a suffix.
        named = (node.name for node in self._item.listchain() if isinstance(node, pytest.Class | pytest.Item))
        return ".".join(named)

    def _place(self, caller: FrameType) -> Location:
        return Location(self._projects.shown_path(self._project, caller.f_code.co_filename), caller.f_lineno)
