"""Whatever kills a run, and whenever: --resume gives what an undisturbed run gives, and nothing is left behind."""

import pytest

from tests.e2e.kills import Kill, Killed, kills

# The writes of a run, in order: the first ones come before the journal has a header, the last ones after the reports.
WRITES = [2, 5, 8, 13, 21, 34]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return Killed(tmp_path_factory.mktemp("killed"))


@pytest.mark.parametrize("kill", list(kills(14)), ids=lambda kill: f"{kill.how}-{kill.moment}-{kill.at:.3g}")
def test_a_killed_run_loses_nothing_and_leaves_nothing(killed, kill):
    assert killed.check(kill) == []


@pytest.mark.parametrize("write", WRITES)
def test_a_run_killed_at_a_write_loses_nothing(killed, write):
    assert killed.check(Kill("kill", "write", write)) == []
