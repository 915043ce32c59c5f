"""Suites as pytest's items: what is collected, what selects, what each verdict is to pytest."""

import pytest

from tests.baseline.plain import document_of, write_document
from tests.e2e.command import change, precreg
from tests.pytest_plugin.session import (
    ABSENT,
    MIXED,
    accept,
    counted,
    project,
    pytest_,
    pytest_started,
    record,
    verdicts,
)

FILE = "suites/unit/mixed.yaml"
STATUSES = {
    "unit/mixed/good": ("passed", "identical"),
    "unit/mixed/bad": ("failed", "out_of_tolerance"),
    "unit/mixed/raises": ("error", "subject_error"),
    "unit/mixed/known": ("passed", "expected_failure"),
    "unit/mixed/fresh": ("proposed", "new"),
    "integration/absent/default": ("skipped", "unavailable"),
}
COUNTS = {"failed": 2, "passed": 1, "skipped": 1, "xfailed": 1, "proposed": 1}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A project with a case of every status; tests that change it take a copy of their own."""
    folder = project(tmp_path_factory.mktemp("mixed"), unit_mixed=MIXED, integration_absent=ABSENT)
    precreg(folder, "run")
    accept(folder, "unit/mixed/good")
    return folder


@pytest.fixture(scope="module")
def by_command(mixed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    assert precreg(mixed, "run", "--output", folder).returncode == 1
    assert verdicts(folder) == STATUSES
    return record(folder)


@pytest.mark.parametrize(
    "processes", [("-p", "no:xdist"), ("-n", "2"), ("-n", "2", "--dist", "loadfile"), ("-n2", "--dist=worksteal")]
)
def test_every_status_is_what_pytest_calls_it_and_the_record_is_that_of_the_command(
    mixed, by_command, tmp_path, processes
):
    done = pytest_(mixed, "-rs", f"--precreg-output={tmp_path}", *processes)
    assert (done.returncode, counted(done)) == (1, COUNTS), done.stdout
    assert verdicts(tmp_path) == STATUSES
    assert {path.name for path in tmp_path.iterdir()} >= {"record.json", "junit.xml", "report.html", "summary.md"}
    assert "precreg/" not in done.stdout, "a frame of ours is in a traceback"
    for text in (
        "out_of_tolerance: out: match_ratio is 0",
        "suite     suites/unit/mixed.yaml:1",
        "subject_error: ValueError: the subject's own words",
        'raise ValueError("the subject\'s own words")',
        "PROPOSED unit/mixed/fresh   new",
        "accept    precreg baseline diff",
        "suites/integration/absent.yaml:1: needs no_such_package, which is not installed",
    ):
        assert text in done.stdout
    for part in ("environment", "orphans", "warnings", "exit_code", "ci", "project"):
        assert record(tmp_path)[part] == by_command[part], part
    assert record(tmp_path)["selection"] == {}


def test_a_case_nobody_accepted_fails_in_ci_and_is_a_failure_of_its_own_elsewhere(mixed, tmp_path):
    alone = pytest_(mixed, f"{FILE}::fresh", "-v", f"--precreg-output={tmp_path}")
    assert (alone.returncode, counted(alone)) == (1, {"proposed": 1})
    assert f"{FILE}::fresh PROPOSED" in alone.stdout
    in_ci = pytest_(mixed, f"{FILE}::fresh", f"--precreg-output={tmp_path}", CI="1")
    assert (in_ci.returncode, counted(in_ci)) == (1, {"failed": 1})
    assert "new: no baseline in" in in_ci.stdout
    assert record(tmp_path)["ci"] is True


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((f"{FILE}::good",), ["good"]),
        ((FILE, "-k", "good or fresh"), ["good", "fresh"]),
        (("-m", "young"), ["fresh"]),
        (("-m", "integration"), ["default"]),
        (("-m", "slow and not unit"), ["default"]),
        (("-k", "slow"), ["default"]),
        (("-k", "skip"), ["default"]),
        (("suites", FILE, "-k", "mixed and good"), ["good"]),
    ],
)
def test_what_selects_tests_selects_cases(mixed, arguments, names):
    done = pytest_(mixed, "--co", "-q", "--strict-markers", *arguments)
    assert [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line] == names, done.stdout
    assert "warning" not in done.stdout


def test_a_suite_that_is_named_twice_runs_once(mixed, tmp_path):
    done = pytest_(mixed, "suites", FILE, f"{FILE}::good", "--keep-duplicates", f"--precreg-output={tmp_path}")
    counts = counted(done)
    counts.pop("deselected", None)
    assert counts == COUNTS
    assert verdicts(tmp_path) == STATUSES
    assert len(record(tmp_path)["results"]) == len(STATUSES)


def test_a_part_is_marked_as_one_and_calls_nothing_an_orphan(mixed, tmp_path):
    orphan = document_of(mixed / "baselines/generic/unit/mixed.json") | {"suite": "model/gone"}
    write_document(mixed / "baselines/generic/model/gone.json", orphan)
    pytest_(mixed, FILE, f"--precreg-output={tmp_path}")
    part = record(tmp_path)
    whole = pytest_(mixed, "-n", "2", f"--precreg-output={tmp_path}")
    (mixed / "baselines/generic/model/gone.json").unlink()
    assert part["orphans"] == []
    assert part["selection"]["pytest"].startswith("-p no:hypothesispytest suites/unit/mixed.yaml")
    orphan = {"kind": "orphan", "case": "model/gone/good", "file": "baselines/generic/model/gone.json"}
    assert record(tmp_path)["orphans"] == [orphan]
    assert "baselines without a case: model/gone/good" in whole.stdout


def test_from_a_folder_below_and_with_a_root_above(mixed, tmp_path):
    below = pytest_(mixed / "suites" / "unit", "mixed.yaml", "-k", "good", f"--precreg-output={tmp_path}/below")
    assert (below.returncode, verdicts(tmp_path / "below")) == (0, {"unit/mixed/good": ("passed", "identical")})
    above = mixed.parent
    (above / "above.ini").write_text(f"[pytest]\nprecreg_suites = {mixed.name}/suites\n")
    options = ("-c", "above.ini", "-p", "no:cacheprovider", "-n", "2")
    done = pytest_(above, *options, mixed / FILE, f"--precreg-output={tmp_path}/above")
    assert verdicts(tmp_path / "above") == {id: verdict for id, verdict in STATUSES.items() if "unit" in id}
    assert f"{mixed.name}/{FILE}::bad" in done.stdout


def test_the_first_failure_ends_it_and_what_ran_is_recorded(mixed, tmp_path):
    done = pytest_(mixed, FILE, "-x", f"--precreg-output={tmp_path}")
    assert counted(done) == {"failed": 1, "passed": 1}
    assert sorted(verdicts(tmp_path)) == ["unit/mixed/bad", "unit/mixed/good"]


def test_last_failed_has_failures_errors_and_proposals(mixed, tmp_path):
    pytest_(mixed, FILE, f"--precreg-output={tmp_path}")
    done = pytest_(mixed, "--lf", "-n", "2", f"--precreg-output={tmp_path}")
    assert sorted(verdicts(tmp_path)) == ["unit/mixed/bad", "unit/mixed/fresh", "unit/mixed/raises"]
    first = pytest_(mixed, FILE, "--ff", "-v", f"--precreg-output={tmp_path}")
    assert counted(done) == {"failed": 2, "proposed": 1}
    assert [line.split()[0] for line in first.stdout.splitlines() if "%]" in line][:2] == [
        f"{FILE}::bad",
        f"{FILE}::raises",
    ]


def test_proposals_are_those_of_the_command(tmp_path):
    folder = project(tmp_path, unit_mixed=MIXED)
    pytest_(folder, "-n", "2")
    by_plugin = (folder / ".precreg/proposals/unit/mixed.json").read_text()
    precreg(folder, "run")
    by_command = (folder / ".precreg/proposals/unit/mixed.json").read_text()
    without_time = [
        [line for line in text.splitlines() if "duration_s" not in line] for text in (by_plugin, by_command)
    ]
    assert without_time[0] == without_time[1]
    accept(folder, "unit/mixed/good", "unit/mixed/fresh")
    done = pytest_(folder, "-k", "good or fresh")
    assert (done.returncode, counted(done)) == (0, {"passed": 2, "deselected": 3})


def test_a_worker_that_dies_takes_its_own_case_alone(tmp_path):
    folder = project(tmp_path, unit_mixed=MIXED.replace("fresh]", "fresh, vanishes, one, two, three]"))
    done = pytest_(folder, "-n", "2")
    found = verdicts(folder / "reports")
    assert counted(done) == {"failed": 3, "xfailed": 1, "proposed": 5}, done.stdout
    assert found.pop("unit/mixed/vanishes") == ("error", "crashed")
    assert len(found) == 8
    assert record(folder / "reports")["selection"] == {}
    assert "no case" not in done.stdout


def test_a_mistake_in_a_suite_is_told_with_its_line_and_other_suites_are_collected(tmp_path):
    folder = project(tmp_path, unit_mixed=MIXED, unit_wrong=MIXED.replace("suite: mixed", "suite: wrong"))
    change(folder / "suites/unit/wrong.yaml", "rtol", "rtlo")
    done = pytest_(folder, "--continue-on-collection-errors", "-k", "good")
    assert done.returncode == 1
    assert "ERROR collecting suites/unit/wrong.yaml" in done.stdout
    assert "suites/unit/wrong.yaml:7: error[unknown-metric]" in done.stdout
    assert "Traceback" not in done.stdout
    assert verdicts(folder / "reports") == {"unit/mixed/good": ("proposed", "new")}
    (folder / "suites/unit/wrong.yaml").write_text(MIXED)
    twice = pytest_(folder, "--co")
    assert "suites/unit/wrong.yaml:1: error[duplicate-suite]" in twice.stdout
    assert twice.returncode == 2


def test_a_baseline_that_cannot_be_read_stops_its_suite_before_anything_runs(tmp_path):
    folder = project(tmp_path, unit_mixed=MIXED)
    (folder / "baselines/generic/unit").mkdir(parents=True)
    (folder / "baselines/generic/unit/mixed.json").write_text("{")
    done = pytest_(folder)
    assert "baselines/generic/unit/mixed.json:1: error[unreadable-baseline]" in done.stdout
    assert done.returncode == 2
    assert not (folder / "reports").exists()


def test_what_cannot_be_written_is_told_and_no_success(tmp_path):
    folder = project(tmp_path, unit_mixed=MIXED)
    pytest_(folder)
    accept(folder, "unit/mixed/good")
    (folder / "taken").write_text("")
    done = pytest_(folder, "-k", "good", "--precreg-output=taken")
    assert "error[not-writable]" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize("option", ["precreg_suites=suites/unit", "precreg_suites=nowhere"])
def test_the_option_names_folders_called_suites(tmp_path, option):
    folder = project(tmp_path, unit_mixed=MIXED)
    done = pytest_(folder, "-o", option)
    assert (done.returncode, done.stderr.startswith("ERROR: error[no-project]: expected a folder")) == (4, True)


def test_damaged_proposals_stop_a_session_that_has_not_begun(tmp_path):
    folder = project(tmp_path, unit_mixed=MIXED)
    (folder / ".precreg/proposals/unit").mkdir(parents=True)
    (folder / ".precreg/proposals/unit/mixed.json").write_text("{")
    done = pytest_(folder)
    assert "mixed.json:1: error[unreadable-proposals]" in done.stdout + done.stderr
    assert done.returncode == 4


def test_without_the_option_nothing_is_collected_and_nothing_is_imported(tmp_path):
    folder = project(tmp_path, unit_mixed=MIXED)
    (folder / "pytest.ini").unlink()
    (folder / "test_alone.py").write_text(
        "import sys\n\n\ndef test_alone():\n"
        "    ours = {name for name in sys.modules if name.startswith('precreg.')}\n"
        "    assert not {'numpy', 'msgspec', 'yaml', 'git', 'click'} & set(sys.modules), ours\n"
    )
    done = pytest_started(folder, "-p", "no:xdist")
    assert (done.returncode, counted(done)) == (0, {"passed": 1}), done.stdout
    assert "precreg ==" not in done.stdout
    assert not (folder / "reports").exists()


def test_what_had_ended_when_a_session_is_interrupted_is_recorded(tmp_path):
    folder = project(tmp_path, unit_mixed=MIXED)
    raises = 'raise ValueError("the subject\'s own words")'
    change(folder / "suites/kernels.py", raises, "__import__('signal').raise_signal(2)")
    done = pytest_(folder)
    assert done.returncode == 2
    assert sorted(verdicts(folder / "reports")) == ["unit/mixed/bad", "unit/mixed/good"]
    assert record(folder / "reports")["selection"]
