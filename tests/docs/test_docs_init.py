"""docs/init.md and docs/index.md: a shell runs their commands, and the tables name what the program does."""

import re

import pytest

from precreg.run.first_measurement import DTYPES, GUESS_SECONDS, SLOW_SECONDS, UNSTEADY_REPEATS
from precreg.suite.starter.writing import MARGIN
from precreg.types import DEFAULT_SEEDS
from tests.docs.test_docs import page, table
from tests.e2e.test_readme import BLOCK, pattern
from tests.e2e.test_readme import shell as shell

PAGE = page("init.md")


def steps(text_of_page):
    for language, path, text in BLOCK.findall(text_of_page):
        if path:
            yield "file", path, text
        elif language == "console":
            for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, *expected = command.splitlines()
                yield "command", line, expected


@pytest.mark.parametrize("name", ["init.md", "index.md"])
def test_the_commands_print_what_the_page_shows(name, shell):
    commands = 0
    for kind, what, then in steps(page(name)):
        if kind == "file":
            with open(f"{shell.folder()}/{what}", "w") as file:
                file.write(then)
            continue
        commands += 1
        variables = "PRECREG_DIAGNOSE=30 " if what == "precreg run" else ""
        done = shell(variables + what)
        shown = done.stdout + done.stderr
        assert "Traceback" not in shown
        code = next((int(line[5]) for line in then if line.startswith("exit ")), 0)
        for line in then:
            if not re.fullmatch(r"exit \d", line):
                assert re.search(f"^{pattern(line)}", shown, re.MULTILINE), f"$ {what}\nexpected {line!r} in\n{shown}"
        assert done.returncode == code, shown
    assert commands > 7


def test_the_figures_of_the_page_are_those_of_the_program():
    rules = {row["choice"]: row["rule"] for row in table(PAGE, "choice", "rule")}
    assert all(dtype in rules["dtypes"] for dtype in DTYPES)
    assert rules["tolerance"].startswith(f"{MARGIN} times")
    assert rules["seeds"].startswith(f"{DEFAULT_SEEDS}; 1 and float32 alone")
    assert f"longer than {SLOW_SECONDS:g} s" in rules["seeds"]
    assert f"runs {UNSTEADY_REPEATS} times" in rules["repeats"]
    assert f"a limit of {GUESS_SECONDS} s" in PAGE
