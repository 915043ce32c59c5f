"""A kind of an installed package: what precreg asks of it, and how it survives one that fails."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.run.case_run import run_case
from precreg.run.pipeline import prepare_cases
from precreg.subject.kind import (
    BUILT_IN_SUBJECTS,
    Kind,
    is_recorded,
    kind_named,
    kinds_among,
    prepare_computation,
    read_spec,
    reference_spec,
    requirements_of,
    target_of,
)
from precreg.suite.expand import load_cases
from precreg.types import Computation, Reason
from precreg.vcs.dependency import affected_cases

MODULE = "from precreg.subjects import Dependencies, Kind, Outputs, unavailable\n\n\n"


class Place:
    """A place in a suite that gives errors a line."""

    directory = project = Path("/nowhere")

    def error(self, slug, message, *keys, hint=""):
        return UserError(slug, message, file="suites/unit/s.yaml", line=2 + len(keys))


@pytest.fixture
def bring(tmp_path, monkeypatch):
    """Return a function that installs a package whose module has a text, as a kind of its name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def bring(name, text):
        (tmp_path / f"{name}_module.py").write_text(MODULE + text)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[precreg.subjects]\n{name} = {name}_module:KIND\n")
        return Computation(name, "spec")

    return bring


@pytest.mark.parametrize("name", sorted(BUILT_IN_SUBJECTS))
def test_a_kind_of_precreg_is_a_kind(name):
    assert isinstance(kind_named(name), Kind)


def test_names_of_kinds_are_known_without_their_packages(bring):
    bring("heavy", "raise RuntimeError\n")
    assert kinds_among(["scale", "heavy", "python", 3]) == ["heavy", "python"]


def test_an_installed_kind_with_the_name_of_an_option_leaves_the_kinds_of_precreg_alone(bring):
    bring("seed", "KIND = Kind(run=print)\n")
    assert kinds_among(["torch", "seed"]) == ["torch"]
    assert kinds_among(["torch", "seed", "files"]) == ["torch", "files"]
    assert kinds_among(["seed"]) == ["seed"]


def test_what_a_kind_answers(bring):
    answers = "target=lambda spec: 'k:f', requirements=lambda spec: ['torch'], reference=lambda spec: (1, {2: 3})"
    kind = bring("answers", f"KIND = Kind(run=print, {answers})\n")
    assert (target_of(kind), requirements_of(kind)) == ("k:f", ("torch",))
    # As JSON stores it, so that a record and a digest have the same.
    assert reference_spec(kind) == [1, {"2": 3}]


def test_a_kind_that_says_nothing_answers_nothing(bring):
    kind = bring("silent", "KIND = Kind(run=print)\n")
    assert (target_of(kind), requirements_of(kind), reference_spec(kind)) == (None, (), None)
    assert read_spec("silent", {"a": 1}, {}, Place()) == {"a": 1}


@pytest.mark.parametrize(
    ("field", "body", "says"),
    [
        ("read", "lambda value, options, place: value['file']", "raised TypeError: "),
        ("read", "lambda value, options, place: exit(3)", "raised SystemExit: 3"),
        ("read", "lambda value, options, place: {1, 2}", "returned a specification that JSON cannot store: "),
        ("target", "lambda spec: 7", "returned 7 as module:function"),
        ("target", "lambda spec: spec.x", "raised AttributeError: "),
        ("requirements", "lambda spec: 'torch'", "returned 'torch' as requirements"),
        ("requirements", "lambda spec: 1 / 0", "raised ZeroDivisionError: division by zero"),
        ("reference", "lambda spec: object()", "returned a specification that JSON cannot store: "),
        ("is_recorded", "lambda spec: spec.x", "raised AttributeError: "),
    ],
)
def test_a_kind_that_fails_is_named(bring, request, field, body, says):
    name = f"fails{request.node.callspec.indices['field']}"
    kind = bring(name, f"KIND = Kind(run=print, {field}={body})\n")
    ask = {
        "read": lambda: read_spec(name, "a", {}, Place()),
        "target": lambda: target_of(kind),
        "requirements": lambda: requirements_of(kind),
        "reference": lambda: reference_spec(kind),
        "is_recorded": lambda: is_recorded(kind),
    }
    with pytest.raises(UserError) as caught:
        ask[field]()
    assert caught.value.slug == "bad-kind"
    assert f"{name} of {name}_module:KIND {says}" in caught.value.message
    assert (caught.value.line == 2) == (field == "read")


def cases_of(tmp_path, name, more=""):
    path = tmp_path / "suites/unit/s.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"suite: s\nsubject: {{{name}: a}}\nreference: numpy:positive\n"
        f"inputs: {{x: {{shape: [4], dtype: float32, normal: {{}}}}}}\n{more}"
    )
    return load_cases(tmp_path)


def test_a_package_that_cannot_be_imported_fails_its_cases_with_the_traceback(bring, tmp_path):
    bring("old_driver", "raise RuntimeError('the driver is too old')\n")
    (case,) = cases_of(tmp_path, "old_driver")
    failure = run_case(case, tmp_path, ("generic",)).execution.failure
    assert failure.reason is Reason.SUBJECT_ERROR
    assert "the driver is too old" in failure.message + failure.detail
    # Nothing is known of its dependencies, so each change selects its cases.
    assert affected_cases([case], {"elsewhere.py"}, tmp_path) == [case]


RUN = "def run(spec, call):\n    return Outputs({{'out': call.inputs['x']}}, 0.0, {facts})\n\n\nKIND = Kind(run=run)\n"


@pytest.mark.parametrize(
    ("name", "prepare"),
    [("raising", "lambda *_: 1 / 0"), ("leaving", "lambda *_: exit(0)"), ("losing", "'absent_builder:prepare'")],
)
def test_a_kind_that_fails_to_prepare_stops_no_run(bring, name, prepare):
    kind = bring(name, f"KIND = Kind(run=print, prepare={prepare})\n")
    prepare_computation(kind, Path("/nowhere"), Path("/nowhere"))


def test_a_kind_that_prints_leaves_the_standard_output_to_the_command(bring, capfd):
    said = "print('reading') or value"
    kind = bring(
        "chatty",
        f"print('importing')\nKIND = Kind(run=print, read=lambda value, options, place: {said},\n"
        "prepare=lambda *_: print('preparing'))\n",
    )
    assert read_spec("chatty", "a", {}, Place()) == "a"
    prepare_computation(kind, Path("/nowhere"), Path("/nowhere"))
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "importing\nreading\npreparing\n")


def test_each_computation_of_a_run_is_prepared_once(bring, tmp_path):
    text = "def prepare(spec, directory, project):\n    (project / 'log').open('a').write(spec + '.')\n"
    bring("building", text + "\n\nKIND = Kind(run=print, prepare=prepare)\n")
    cases = cases_of(tmp_path, "building", "params: {m: $n}\nmatrix: {n: [1, 2, 3]}\n")
    prepare_cases(cases, tmp_path)
    assert (tmp_path / "log").read_text() == "a."


def test_a_kind_that_cannot_say_if_it_is_recorded_fails_its_case(bring, tmp_path):
    bring("unsure", RUN.format(facts="{}").replace("run=run", "run=run, is_recorded=lambda spec: spec.x"))
    (case,) = cases_of(tmp_path, "unsure")
    case = replace(case, oracle=case.subject)
    failure = run_case(case, tmp_path, ("generic",)).execution.failure
    assert failure.reason is Reason.REFERENCE_ERROR
    assert "unsure of unsure_module:KIND raised AttributeError" in failure.message


def test_facts_are_texts_of_one_line(bring, tmp_path):
    bring("factual", RUN.format(facts="{'driver': '550\\n .54', 3: True, 'odd': '\\udc80'}"))
    (case,) = cases_of(tmp_path, "factual", "seeds: 2\n")
    execution = run_case(case, tmp_path, ("generic",)).execution
    assert execution.facts == {"driver": "550 .54", "3": "True", "odd": "?"}


def test_facts_that_are_no_mapping_are_an_error(bring, tmp_path):
    bring("listing", RUN.format(facts="['driver']"))
    (case,) = cases_of(tmp_path, "listing")
    failure = run_case(case, tmp_path, ("generic",)).execution.failure
    assert (failure.reason, failure.message) == (
        Reason.SUBJECT_ERROR,
        "expected facts as a dict of texts but got list",
    )


def test_a_run_named_by_a_text_is_imported_at_the_first_case(bring, tmp_path):
    bring("late", "KIND = Kind(run='late_computing:run')\n")
    (case,) = cases_of(tmp_path, "late")
    assert "No module named 'late_computing'" in run_case(case, tmp_path, ("generic",)).execution.failure.message


def test_a_change_of_the_package_that_declares_selects_its_cases(bring, tmp_path):
    declared = "lambda spec, folder: Dependencies(files=['tables/**'], modules=['powers'])"
    bring("declaring", f"KIND = Kind(run=print, dependencies={declared})\n")
    (case,) = cases_of(tmp_path, "declaring")
    for file in ("suites/unit/tables/a/b.txt", "suites/powers.py", "declaring_module.py", "suites/unit/s.yaml"):
        assert affected_cases([case], {file}, tmp_path) == [case], file
    assert affected_cases([case], {"other.py"}, tmp_path) == []


def test_the_module_of_a_target_is_searched_for_dependencies(bring, tmp_path):
    bring(
        "calling", "KIND = Kind(run=print, target=lambda spec: 'kernels:f', dependencies=lambda *_: Dependencies())\n"
    )
    (case,) = cases_of(tmp_path, "calling")
    (tmp_path / "suites/unit/kernels.py").write_text("import helpers\n")
    (tmp_path / "suites/unit/helpers.py").write_text("")
    for file in ("suites/unit/kernels.py", "suites/unit/helpers.py"):
        assert affected_cases([case], {file}, tmp_path) == [case], file


def test_a_device_that_is_absent_skips_the_case_by_name(bring, tmp_path):
    bring("absent", "def run(spec, call):\n    raise unavailable('needs it: plug it in')\n\n\nKIND = Kind(run=run)\n")
    (case,) = cases_of(tmp_path, "absent")
    failure = run_case(case, tmp_path, ("generic",)).execution.failure
    assert (failure.reason, failure.message) == (Reason.UNAVAILABLE, "needs it: plug it in")
