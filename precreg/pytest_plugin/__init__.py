"""Which options and hooks does the pytest plugin have?

It collects suites as items, offers the fixture `precision`, and writes one record of both. Every pytest session loads
this module, so it imports only pytest; other modules come with the first suite or check. No other room knows pytest.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from precreg.pytest_plugin.projects import PROJECTS_KEY, SessionProjects

if TYPE_CHECKING:
    from precreg.pytest_plugin.check import Precision

# The values of types.TIERS, whose import would delay every pytest session. A test compares them.
CAPTURES_KEY = pytest.StashKey[Any]()
TIER_MARKERS = ("unit", "integration", "model")
# The largest value of `precreg run --diagnose`, which a record can store. A test compares them.
MAX_SECONDS = 1e6


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options: folders of suites, folder of reports, the base, and the time for causes."""
    parser.addini("precreg_suites", "The suites/ folders of the precreg projects to collect.", type="paths", default=[])
    parser.getgroup("precreg").addoption(
        "--precreg-output",
        metavar="DIR",
        help="The folder of precreg's reports, after a =; by default reports/ in the project.",
    )
    parser.getgroup("precreg").addoption(
        "--precreg-against",
        metavar="REVISION",
        default="auto",
        help="The commit whose baselines and bounds judge, after a =, as in precreg run --against.",
    )
    # Unlike precreg run: a test session that ends later than its tests surprises, and shows failures before its end.
    parser.getgroup("precreg").addoption(
        "--precreg-diagnose",
        metavar="SECONDS",
        type=_seconds,
        default=0.0,
        help="Search for the causes of failed cases at the end, after a =, as precreg run --diagnose; 0 by default.",
    )


def _seconds(text: str) -> float:
    """Return a time of an option. Raises argparse.ArgumentTypeError, which names the option."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    # NaN is in no range.
    if not 0 <= seconds <= MAX_SECONDS:
        raise ArgumentTypeError(f"expected seconds from 0 to {MAX_SECONDS:g} but got {text}")
    return seconds


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Limit BLAS before a conftest imports numpy, so that cases have the bits that `precreg run` gives them."""
    # Sessions without suites keep their threads: precreg must not slow down foreign tests.
    if early_config.getini("precreg_suites"):
        from precreg.environment import limit_blas_threads

        limit_blas_threads()


def pytest_configure(config: pytest.Config) -> None:
    """Collect suites if the ini option names some, and record in the one process that gets every report."""
    for tier in TIER_MARKERS:
        config.addinivalue_line("markers", f"{tier}: the tier of precreg's cases and of checks with `precision`")
    config.stash[PROJECTS_KEY] = projects = SessionProjects(config)
    if projects.named:
        from precreg.pytest_plugin.suites import SuiteHooks

        config.pluginmanager.register(SuiteHooks(projects), "precreg-suites")
    # pytest-xdist sets `workerinput` in its worker processes, whose reports arrive in the main process.
    if not hasattr(config, "workerinput"):
        from precreg.pytest_plugin.recorder import SessionRecorder

        config.pluginmanager.register(SessionRecorder(config, projects), "precreg-recorder")


@pytest.fixture
def precision(request: pytest.FixtureRequest) -> Precision:
    """Compare results with a reference or a golden, by tolerances, and with their accepted baselines."""
    from precreg.pytest_plugin.check import Precision

    return Precision(request.node, request.config.stash[PROJECTS_KEY])


@pytest.fixture
def precreg_capture(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Record the calls of functions until the test ends.

    The fixture is a function, as in `precreg_capture("kernels:softmax", limit=20)`, with the arguments of
    precreg.capture. The suite is written when the session ends, from the calls of all tests.
    """
    from precreg.pytest_plugin.captures import SessionCaptures

    captures = request.config.stash.setdefault(CAPTURES_KEY, SessionCaptures(request.config))
    with captures.of_test() as record:
        yield record


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """Attach the results of a test's cases to its report, which also crosses processes of pytest-xdist."""
    made: Any = yield
    # Only cases and tests with the fixture have it, so other tests cost one look-up.
    if PROJECTS_KEY in item.stash:
        from precreg.pytest_plugin.recorder import attach_results

        attach_results(item, made.get_result())


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> Any:
    """Count proposed cases apart from failures."""
    if hasattr(report, "precreg_proposed"):
        return "proposed", "P", ("PROPOSED", {"yellow": True})
    return None
