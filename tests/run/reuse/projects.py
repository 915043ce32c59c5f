"""Small projects whose outcomes are kept, and runs of them in worker processes."""

from time import sleep

import pytest

from precreg.baseline.store import Baselines
from precreg.environment.machine import detect_environment
from precreg.run.pipeline import Plan, run_and_judge
from precreg.run.reuse.outcomes import OutcomeCache
from precreg.suite.expand import load_cases
from precreg.verdict.judge import Policy

# The system writes times of files some milliseconds behind the clock.
TICK_S = 0.03

SUITE = """\
suite: {name}
subject: {module}:f
reference: {module}:g
inputs: {{x: {{shape: [8], dtype: float32, normal: {{}}}}}}
tolerance: {{rtol: 1e-3}}
"""
KERNEL = """\
def f(x):
    return x * 2


def g(x):
    return x * 2
"""


def write(folder, files):
    """Write texts or bytes by path, and make the folders."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def suite(name, module=None, **options):
    """Return a suite of one case, with further lines."""
    more = "".join(f"{key}: {value}\n" for key, value in options.items())
    return SUITE.format(name=name, module=module or name) + more


class Runs:
    """Runs of one project; each result has the ids of the cases that reused an outcome, and all results by id."""

    def __init__(self, project):
        self.project = project
        self.number = 0
        self.counts = None
        self.fates = {}

    def __call__(self, *, cached=True, jobs=1):
        """Run all cases, and return those that reused an outcome."""
        self.number += 1
        sleep(TICK_S)
        cases, environment = load_cases(self.project), detect_environment("cpu-test")
        cache = None
        if cached:
            cache = OutcomeCache(
                self.project, environment, started=f"2026-01-01T00:00:{self.number:02}", commit="c0ffee"
            )
        plan = Plan(self.project, environment, jobs, reuse=cache)
        baselines = Baselines(self.project)
        self.results = {each.id: each for each in run_and_judge(cases, plan, Policy(), baselines)}
        if cache is not None:
            cache.close()
            self.counts, self.fates = cache.counts(), dict(cache.fates)
        return {id.split("/")[1] for id, each in self.results.items() if each.outcome.reused}


@pytest.fixture
def runs(tmp_path):
    """A project of two suites that have nothing in common, and its runs."""
    project = tmp_path / "project"
    write(
        project,
        {
            "suites/unit/a.yaml": suite("a"),
            "suites/unit/a.py": KERNEL,
            "suites/unit/b.yaml": suite("b"),
            "suites/unit/b.py": KERNEL,
        },
    )
    return Runs(project)
