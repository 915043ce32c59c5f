"""One run of the real command with all attacks of tests/run/workers/hostile.py, among cases that attack nobody."""

import json

import pytest

from tests.e2e.command import ROOT, journal_cases, repository, started
from tests.processes import processes_with
from tests.run.workers.test_hostile import CRASHES, LEAVERS, TIMEOUTS

SUITE = """suite: {name}
subject: hostile:{name}
reference: hostile:same
inputs: {{x: {{shape: 20, dtype: float32, normal: {{}}}}}}
seeds: 1
timeout: {timeout}
"""
SLOW_ATTACKS = [*TIMEOUTS, "stops_the_server"]
PEACEFUL = [f"peaceful_{number}" for number in range(10)]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """Return the finished command, its results by suite, and the mark of its processes."""
    folder = tmp_path_factory.mktemp("attacked")
    place = folder / "suites" / "unit"
    place.mkdir(parents=True)
    kernels = (ROOT / "tests" / "run" / "workers" / "hostile.py").read_text()
    (place / "hostile.py").write_text(kernels + "".join(f"\n\n{name} = same\n" for name in PEACEFUL))
    for name in [*CRASHES, *SLOW_ATTACKS, *PEACEFUL]:
        timeout = 1 if name in SLOW_ATTACKS else 300
        (place / f"{name}.yaml").write_text(SUITE.format(name=name, timeout=timeout))
    for name in LEAVERS:
        file = folder / f"{name}.pid"
        text = SUITE.format(name=name, timeout=300) + f"params: {{file: {file}}}\n"
        (place / f"{name}.yaml").write_text(text)
    done = started(repository(folder), "run", "--jobs", "2", "--no-cache", PRECREG_TEST_MARK=str(folder))
    record = json.loads((folder / "reports" / "record.json").read_text())
    return done, {result["suite"]: result for result in record["results"]}, folder


def test_every_case_has_its_verdict(attacked):
    done, found, _ = attacked
    expected = dict.fromkeys([*PEACEFUL, *LEAVERS], "new")
    expected |= dict.fromkeys(CRASHES, "crashed") | dict.fromkeys(SLOW_ATTACKS, "timed_out")
    assert {suite: result["verdict"]["reason"] for suite, result in found.items()} == expected
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_the_message_of_a_crash_is_in_the_summary(attacked):
    done, found, _ = attacked
    for suite, message in CRASHES.items():
        assert message in found[suite]["verdict"]["message"]
    assert "killed by SIGTERM while running the subject, seed 0" in done.stdout


def test_the_record_names_the_cases_that_left_processes(attacked):
    _, found, _ = attacked
    left = {suite for suite, result in found.items() if result["outcome"]["execution"]["left"]}
    assert left == set(LEAVERS)


def test_the_journal_has_every_outcome(attacked):
    _, found, folder = attacked
    assert sorted(journal_cases(folder)) == sorted(result["id"] for result in found.values())


def test_no_process_is_left(attacked):
    assert processes_with(f"PRECREG_TEST_MARK={attacked[2]}") == []
