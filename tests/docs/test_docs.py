"""The pages in docs/ say what the program does: examples are loaded and run, tables and numbers compared with it."""

import re
import runpy
from hashlib import blake2b
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from msgspec.structs import fields

from precreg.arithmetic.formats import DTYPE_NAMES
from precreg.cli.main import precreg
from precreg.environment.machine import detect_environment
from precreg.errors import ADVICE, HINTS, page_of_error
from precreg.report.record import read_run_record
from precreg.storage.yaml_source import read_yaml
from precreg.subject.module_space import leave_module_space
from precreg.suite.expand import load_cases
from precreg.suite.files import BudgetEntry, CaseEntry, FilesEntry, SuiteFile, TolerancesFile
from precreg.suite.inputs.distributions import word_stream
from precreg.suite.inputs.options import special_values
from precreg.suite.inputs.spec import DISTRIBUTIONS
from precreg.suite.schema import json_schema, tolerances_schema
from precreg.types.outcome import Execution, Failure, Outcome
from precreg.types.verdict import Reason, Status, Verdict
from precreg.verdict.judge import EXPECTED_FAILURE_REASONS, Policy, judge_case
from precreg.verdict.whole_run import run_exit_code
from tests.error_scenarios import SCENARIOS, WITH_EXTRAS, Project
from tests.verdict.made import ENVIRONMENT, case

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "precreg"
MAX_PAGE_WORDS = 2500


def page(*names):
    """Return the text of a page, or of several that are parts of one story, in that order."""
    return "\n".join((DOCS / name).read_text() for name in names)


def sections(text):
    """Return the text of each `## HEADING` of a page."""
    return {head.strip(): body for head, _, body in (part.partition("\n") for part in text.split("\n## ")[1:])}


def files(text):
    """Return what each block of a page that names a file has in it, by its path."""
    return dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def write_files(folder, text):
    """Write every file that a page shows; return the folder."""
    for path, content in files(text).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return folder


def commands(text):
    """Return the arguments of each `$ precreg ...` of a page, with the lines that are shown below it."""
    return re.findall(r"^\$ precreg (.*)\n((?:(?!\$ |```).*\n)*)", text, re.MULTILINE)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs `precreg ARGUMENTS` in this process, and returns all it prints."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "CI",
        "CI_NODE_INDEX",
        "CI_NODE_TOTAL",
        "PRECREG_ENVIRONMENT",
        "PRECREG_HISTORY",
        "PRECISION_THRESHOLDS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LC_ALL", "C")

    def run(*arguments):
        with pytest.raises(SystemExit):
            precreg(arguments, prog_name="precreg")
        # A scenario that changes sys.path puts the found one back, and would bring the folders of a case back with it.
        leave_module_space()
        captured = capsys.readouterr()
        return captured.out + captured.err

    return run


def message(printed, slug):
    """Return the three lines of an error, without the indentation they have beside a case."""
    # Beside a case the message has a line of its own above.
    heading = re.compile(rf"^ *(\S.*)\n *((?:\S.*: )?error\[{slug}\])$", re.MULTILINE)
    printed = heading.sub(r"\2: \1", printed)
    found = re.search(rf"^ *(\S.*)?error\[{slug}\]: .*\n *what to do: .*\n *see: .*$", printed, re.MULTILINE)
    assert found, printed
    first, second, third = found[0].splitlines()
    return f"{first.strip()}\n  {second.strip()}\n  {third.strip()}\n"


def matches(expected, printed):
    """Tell whether a text is the expected one, in which `...` stands for anything on its line."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("..."))), printed) is not None


def test_every_slug_has_a_section_in_order():
    for name, hints in HINTS.items():
        text = page(f"errors/{name}.md")
        assert list(sections(text)) == list(hints)
        assert len(text.split()) <= MAX_PAGE_WORDS
    assert {file.stem for file in (DOCS / "errors").glob("*.md")} == set(HINTS)
    assert sorted(SCENARIOS) == sorted(ADVICE)


def test_the_first_page_lists_every_slug_with_its_page():
    listed = re.findall(r"\[([a-z-]+)\]\(errors/([a-z]+)\.md#([a-z-]+)\)", page("errors.md"))
    assert listed == [(slug, name, slug) for name, hints in HINTS.items() for slug in hints]


@pytest.mark.parametrize("slug", [slug for slug in ADVICE if slug not in WITH_EXTRAS])
def test_an_error_is_printed_as_its_section_shows_it(slug, tmp_path, run, monkeypatch):
    file, _, anchor = page_of_error(slug).removeprefix("docs/").partition("#")
    example = re.search(r"^```text\n(.*?)^```$", sections(page(file))[anchor], re.MULTILINE | re.DOTALL)[1]
    assert example.endswith(f"\n  see: {page_of_error(slug)}\n")
    printed = SCENARIOS[slug](Project(tmp_path, run, monkeypatch))
    shown = message(printed, slug).replace(str(tmp_path), "/home/ada/demo")
    assert matches(example, shown), shown


def test_every_slug_is_raised_somewhere():
    sources = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "errors.py")
    assert [slug for slug in ADVICE if f'"{slug}"' not in sources] == []


def table(text, *columns):
    """Return the rows, as dicts, of the table of a page whose header is that, without backticks."""
    header = f"| {' | '.join(columns)} |\n"
    assert text.count(header) == 1, header
    lines = text.partition(header)[2].splitlines()[1:]
    cells = (
        [re.sub(r"^`([^`]*)`$", r"\1", cell.strip()) for cell in line.strip("|").split(" | ")]
        for line in lines[: lines.index("")]
    )
    return [dict(zip(columns, row, strict=True)) for row in cells]


def names(text):
    """Return everything in backticks."""
    return re.findall(r"`([^`\n]+)`", text)


VERDICTS = sections(page("verdicts.md", "accepting.md"))


def test_every_reason_is_in_the_table_with_its_statuses():
    rows = table(VERDICTS["Reasons"], "reason", "status", "status in CI", "when")
    assert [row["reason"] for row in rows] == list(Reason)
    for row in rows:
        for column, policy in {"status": Policy(), "status in CI": Policy(ci=True)}.items():
            assert row[column] == status_of(Reason(row["reason"]), policy), row
    assert [row["status"] for row in table(page("verdicts.md"), "status", "meaning")] == list(Status)
    assert status_of(Reason.UNAVAILABLE, Policy(require=True)) is Status.ERROR


def status_of(reason, policy):
    """Ask the judge, by way of a case that got no further than this reason."""
    outcome = Outcome("unit/s/a", "1:d", Execution(failure=Failure(reason, "why")))
    return judge_case(case(), outcome, {}, None, ENVIRONMENT, policy).status


def test_every_reason_answers_one_question():
    asked = re.findall(r"^\d\. .*?(?=^\d\. |\n\n|\Z)", VERDICTS["The order of questions"], re.MULTILINE | re.DOTALL)
    assert len(asked) == 7
    last = "At the end" + VERDICTS["The order of questions"].partition("At the end")[2].partition("\n\n")[0]
    answered = [name for question in [*asked, last] for name in names(question) if name in list(Reason)]
    assert sorted(answered) == sorted(Reason)


def test_what_expect_fail_expects():
    expected = VERDICTS["Reasons"].partition("expects wrong figures:")[2].partition(";")[0]
    assert set(names(expected)) == EXPECTED_FAILURE_REASONS


def test_the_chains_of_environments():
    for row in table(VERDICTS["Environments"], "label", "chain"):
        assert detect_environment(row["label"]).chain == tuple(names(row["chain"]))


def test_the_exit_codes():
    rows = table(VERDICTS["Exit codes"], "code", "when")
    by_code = {row["code"]: [name for name in names(row["when"]) if name in list(Status)] for row in rows}
    assert sorted(status for listed in by_code.values() for status in listed) == sorted(Status)
    for code, listed in by_code.items():
        for status in listed:
            assert run_exit_code([Verdict(Status(status), Reason.NEW, "")]) == int(code)
    assert run_exit_code([]) == 2


SUITE_PAGES = page("suites.md", "suite-inputs.md", "suite-subjects.md", "suite-tolerances.md")
SUITES = sections(SUITE_PAGES)
FILES = files(SUITE_PAGES)
YAML_FILES = [path for path in FILES if path.endswith(".yaml")]


@pytest.fixture
def project(tmp_path):
    """The project that the page on suites shows, file by file, with the arrays that its script writes."""
    write_files(tmp_path, SUITE_PAGES)
    runpy.run_path(str(tmp_path / "suites" / "unit" / "record.py"))
    return tmp_path


def test_every_file_of_the_page_gives_cases(project):
    sources = {case.source.file for case in load_cases(project)}
    assert sources == {path for path in YAML_FILES if path != "suites/tolerances.yaml"}


def test_the_project_of_the_page_runs_and_every_case_is_accurate_enough(project, run):
    run("run", "--jobs", "0")
    results = read_run_record(project / "reports" / "record.json").results
    found = {result.id: result.verdict.reason for result in results}
    bad = found.pop("integration/running_sum/float16-rows=4000")
    assert bad is Reason.EXPECTED_FAILURE
    assert set(found.values()) == {Reason.NEW}, found


def test_a_borrowed_baseline_judges(project, run):
    run("run", "--jobs", "0", "--suite", "recorded_sine")
    run("baseline", "accept", "--all", "--reason", "released")
    assert "FAILED   unit/recorded_sine/1.1-sine   regressed" in run("run", "--jobs", "0", "--suite", "recorded_sine")


@pytest.mark.parametrize("block", re.findall(r"^```console\n(.*?)^```$", SUITE_PAGES, re.MULTILINE | re.DOTALL))
def test_commands_print_what_the_page_shows(block, project, run, monkeypatch):
    command, *expected = block.splitlines()
    thresholds, _, words = command.removeprefix("$ ").rpartition("precreg ")
    with monkeypatch.context() as patch:
        patch.setenv("PRECISION_THRESHOLDS", thresholds.removeprefix("PRECISION_THRESHOLDS=").strip(" '"))
        shown = run(*words.split()).splitlines()
    for line in expected:
        pattern = ".*".join(map(re.escape, re.split(r"\s*\.\.\.\s*", line)))
        assert any(re.fullmatch(pattern, found) for found in shown), f"{line}\nnot in\n" + "\n".join(shown)
    if command.startswith("$ precreg list"):
        assert shown[: len(expected)] == expected
        assert len(shown) == len(expected) + 1


@pytest.mark.parametrize("path", YAML_FILES)
def test_an_editor_takes_every_file_of_the_page(path, project):
    schema = tolerances_schema() if path == "suites/tolerances.yaml" else json_schema()
    jsonschema.validate(read_yaml(project / path, path).data, schema)


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (SuiteFile, ("key", "default", "meaning")),
        (FilesEntry, ("key of `files`", "default", "meaning")),
        (CaseEntry, ("key of an entry", "default", "meaning")),
        (BudgetEntry, ("key of `budget`", "default", "meaning")),
        (TolerancesFile, ("key of `suites/tolerances.yaml`", "default", "meaning")),
    ],
)
def test_every_key_is_in_its_table_with_its_default(kind, columns):
    rows = {row[columns[0]]: row.get("default", "") for row in table(SUITE_PAGES, *columns)}
    assert list(rows) == [field.name for field in fields(kind)]
    for field in fields(kind):
        assert (rows[field.name] == "required") is field.required
        if isinstance(field.default, bool | int | float):
            shown = {"False": "false", "True": "true"}.get(str(field.default), f"{field.default:g}")
            assert rows[field.name] == shown


def test_every_distribution_is_in_the_table_with_its_options():
    rows = table(SUITES["Inputs"], "distribution", "options", "numbers")
    assert [row["distribution"] for row in rows] == list(DISTRIBUTIONS)
    drawn = FILES["suites/unit/every_input.yaml"]
    for row in rows:
        struct = DISTRIBUTIONS[row["distribution"]]
        given = "" if row["options"] == "none" else row["options"]
        shown = dict(option.partition(": ")[::2] for option in names(f"`{given.strip('`')}`"))
        assert list(shown) == list(struct.__struct_fields__)
        for field in fields(struct):
            assert (shown[field.name] == "") is field.required, (row, field.name)
            if isinstance(field.default, float):
                assert float(shown[field.name]) == field.default
        assert f"{row['distribution']}: {{" in drawn


def test_every_dtype_and_special_value_is_named():
    paragraphs = SUITES["Inputs"].split("\n\n")
    dtypes = next(paragraph for paragraph in paragraphs if paragraph.startswith("The dtypes:"))
    assert tuple(names(dtypes.partition(". A complex")[0])) == DTYPE_NAMES
    special = next(paragraph for paragraph in paragraphs if paragraph.startswith("Special values"))
    floats, integers = special.split("Integers have")
    plain = [name for name in special_values("float32") if not name.startswith("-")]
    assert [name for name in names(floats) if name != "-"] == plain
    assert names(integers) == list(special_values("int8"))


def test_the_key_of_an_input_is_what_the_page_says():
    said = " ".join(SUITES["Inputs"].split())
    assert "BLAKE2b-128 of `precreg-inputs-1`, a NUL, the name, a NUL, and the seed in decimal" in said
    key = np.frombuffer(blake2b(b"precreg-inputs-1\0x\x007", digest_size=16).digest(), "<u8")
    assert "Philox4x64-10 with counters 1, 2, 3, ..." in said
    assert word_stream("x", 7)(9).tolist() == np.random.Philox(key=key).random_raw(9).tolist()


def test_every_link_leads_somewhere():
    for file in DOCS.rglob("*.md"):
        for target, anchor in re.findall(r"\]\((?!https://)([^)#]*)#?([^)]*)\)", file.read_text()):
            other = file.parent / target if target else file
            assert other.exists(), f"{file.name}: {target}"
            heads = re.findall(r"^#+ (.*)$", other.read_text(), re.MULTILINE) if anchor else []
            anchors = {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}
            assert not anchor or anchor in anchors, f"{file.name}: {target}#{anchor}"
