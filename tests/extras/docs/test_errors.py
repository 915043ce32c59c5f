"""The errors of docs/errors.md that need an extra."""

import re

import pytest

from precreg.errors import ADVICE
from tests.docs.test_docs import matches, message, page, sections
from tests.e2e.command import precreg
from tests.error_scenarios import OF_EXTRAS, SCENARIOS, Project


@pytest.mark.parametrize("slug", sorted(OF_EXTRAS))
def test_an_error_is_printed_as_its_section_shows_it(slug, tmp_path, monkeypatch):
    def run(*arguments):
        done = precreg(tmp_path, *arguments)
        return done.stdout + done.stderr

    example = re.search(r"^```text\n(.*?)^```$", sections(page("errors.md"))[slug], re.MULTILINE | re.DOTALL)[1]
    assert example.endswith(f"\n  what to do: {ADVICE[slug]}\n")
    shown = message(SCENARIOS[slug](Project(tmp_path, run, monkeypatch)), slug)
    assert matches(example, shown), shown
