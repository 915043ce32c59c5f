"""The pytest plugin: suites as items, the fixture `precision`, and one record of both.

Every pytest session loads this module, so it imports nothing that pytest has not; what it needs comes when there is a
suite or a check. It is the only room that knows pytest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from precreg.pytest_plugin.projects import PROJECTS_KEY, SessionProjects

if TYPE_CHECKING:
    from precreg.pytest_plugin.check import Precision


TIER_MARKERS = ("unit", "integration", "model")
"""As in types.py, whose import a session without suites must not wait for; a test holds the two together."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what the plugin is told: where suites are, and where reports go."""
    parser.addini("precreg_suites", "The suites/ folders of the precreg projects to collect.", type="paths", default=[])
    parser.getgroup("precreg").addoption(
        "--precreg-output",
        metavar="DIR",
        help="The folder of precreg's reports, after a =; else reports/ in the project.",
    )
    parser.getgroup("precreg").addoption(
        "--precreg-against",
        metavar="REVISION",
        default="auto",
        help="The commit whose baselines and bounds judge, after a =, as of precreg run --against.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Limit BLAS before a conftest imports numpy, so that cases have the bits that `precreg run` gives them."""
    if early_config.getini("precreg_suites"):
        from precreg.environment import limit_blas_threads

        limit_blas_threads()


def pytest_configure(config: pytest.Config) -> None:
    """Collect suites where the ini option names some; record in the one process that hears of every test."""
    for tier in TIER_MARKERS:
        config.addinivalue_line("markers", f"{tier}: the tier of precreg's cases and of checks with `precision`")
    config.stash[PROJECTS_KEY] = projects = SessionProjects(config)
    if projects.named:
        from precreg.pytest_plugin.suites import SuiteHooks

        config.pluginmanager.register(SuiteHooks(projects), "precreg-suites")
    if not hasattr(config, "workerinput"):
        from precreg.pytest_plugin.recorder import SessionRecorder

        config.pluginmanager.register(SessionRecorder(config, projects), "precreg-recorder")


@pytest.fixture
def precision(request: pytest.FixtureRequest) -> Precision:
    """Hold results against a reference or a golden, within tolerances, and against what was accepted before."""
    from precreg.pytest_plugin.check import Precision

    return Precision(request.node, request.config.stash[PROJECTS_KEY])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """Give the report of a test what its cases came to; it takes that through pytest-xdist as well."""
    made: Any = yield
    if PROJECTS_KEY in item.stash:
        from precreg.pytest_plugin.recorder import attach_results

        attach_results(item, made.get_result())


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> Any:
    """Count what waits for a person apart from what failed."""
    if hasattr(report, "precreg_proposed"):
        return "proposed", "P", ("PROPOSED", {"yellow": True})
    return None
