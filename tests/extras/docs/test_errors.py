"""docs/errors.md: the errors that need an extra are printed as their sections show them."""

import pytest

from tests.docs.test_docs import run
from tests.docs.test_docs import test_an_error_is_printed_as_its_section_shows_it as check
from tests.error_scenarios import WITH_EXTRAS

__all__ = ["run"]


@pytest.mark.parametrize("slug", sorted(WITH_EXTRAS))
def test_it_is_printed_as_its_section_shows_it(slug, tmp_path, run, monkeypatch):
    check(slug, tmp_path, run, monkeypatch)
