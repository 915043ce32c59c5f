import pytest

from precreg.errors import UserError
from precreg.subject.kind import BUILT_IN_SUBJECTS, subject_entry_point, subject_kind
from precreg.suite.expand import load_cases

SUITE = "suite: s\nsubject: {KIND: anything}\nreference: numpy:sin\n"


def loading(project, kind):
    """Return the mistake of a suite whose subject is of that kind, as it is found when suites are read."""
    path = project / "suites/unit/s.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(SUITE.replace("KIND", kind))
    with pytest.raises(UserError) as caught:
        load_cases(project)
    return caught.value


def test_our_own_kinds_are_modules_that_run():
    assert all(callable(subject_kind(kind)) for kind in BUILT_IN_SUBJECTS)


def test_an_installed_package_brings_a_kind(install):
    install("precreg-emulator", "emulator", "emulated_kind")
    assert subject_entry_point("emulator").value == "emulated_kind:run"


def test_two_packages_with_one_name_are_refused_when_suites_are_read(install, tmp_path):
    install("first", "twice", "first_kind")
    install("second", "twice", "second_kind")
    error = loading(tmp_path, "twice")
    assert (error.slug, error.file, error.line) == ("unknown-subject-kind", "suites/unit/s.yaml", 2)
    assert "first_kind:run and second_kind:run" in error.message


def test_a_misspelt_kind_names_the_nearest(tmp_path):
    error = loading(tmp_path, "pyton")
    assert (error.slug, error.line) == ("unknown-subject-kind", 2)
    assert 'kind=pyton; did you mean "python"' in error.message
