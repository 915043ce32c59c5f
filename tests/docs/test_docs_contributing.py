"""CONTRIBUTING.md: the files and names of its steps exist."""

import re

import pytest

from tests.e2e.command import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
STEPS = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
# Words in capitals, as in tables/NAME.yaml, stand for names that a contributor chooses.
PATHS = sorted(set(re.findall(r"`((?:precreg|tests|docs|benchmarks)/[a-z\d_./]*)`", STEPS)))
NAMES = sorted(set(re.findall(r"`(\w+)`\s+(?:in|of)\s+`([a-z\d_/]+\.py)`", STEPS)))


@pytest.mark.parametrize("path", PATHS)
def test_a_file_of_a_step_exists(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("name", "path"), NAMES)
def test_a_name_of_a_step_is_in_its_file(name, path):
    assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8"))
