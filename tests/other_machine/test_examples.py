"""examples/: another machine gives the verdicts of the pages."""

import json

import pytest

from tests.e2e.examples import OTHER_MACHINE, follow
from tests.e2e.test_examples import HERE
from tests.e2e.test_readme import shell as shell
from tests.other_machine.test_planted import was_accepted_elsewhere


@pytest.mark.parametrize("name", HERE)
def test_the_commands_print_what_the_page_shows(name, shell, tmp_path):
    project = follow(shell, name, tmp_path, "Break it", **OTHER_MACHINE)
    results = json.loads((project / "reports" / "record.json").read_text())["results"]
    assert results
    assert all(was_accepted_elsewhere(result) for result in results)
