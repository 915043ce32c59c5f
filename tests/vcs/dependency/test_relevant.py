import pytest

from precreg.vcs.dependency_index import can_affect_cases


@pytest.mark.parametrize("path", ["README.md", "suites/unit/NOTES.RST", "a/b.adoc", ".gitlab-ci.yml", ".ci/run.py"])
def test_documents_and_what_is_hidden_matter_to_no_case(path):
    assert not can_affect_cases(path)


@pytest.mark.parametrize("path", ["setup.py", "README", "md", "suites/unit/.x.yaml", "a/x.npy", "pyproject.toml"])
def test_anything_else_may(path):
    assert can_affect_cases(path)
