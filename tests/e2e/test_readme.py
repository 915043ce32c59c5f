"""README's tutorial, run as a newcomer would type it: files are written, commands run in one shell, output compared."""

import re
import subprocess

import pytest

from precreg.cli.main import COMMANDS
from tests.e2e.command import PATIENCE_S, ROOT, environ, precreg
from tests.e2e.fork_server import write_command

README = (ROOT / "README.md").read_text()
# Each language of README with the heading of its tutorial.
TUTORIALS = {"README.md": "## A regression in five minutes", "README.zh-CN.md": "## 五分钟看到一次回归"}
COMMANDS_PAGE = (ROOT / "docs" / "commands.md").read_text()
MAX_WORDS = 1200
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def tutorial(name):
    """Yield ("file", path, text) and ("command", line, expected lines) in the order of the page."""
    part = (ROOT / name).read_text().partition(TUTORIALS[name])[2].partition("\n## ")[0]
    for language, path, text in BLOCK.findall(part):
        if path:
            yield "file", path, text
        elif language == "console":
            for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, *expected = command.splitlines()
                yield "command", line, expected


def pattern(expected):
    """Make a regular expression of an expected line, in which `...` stands for anything."""
    return ".*".join(re.escape(part) for part in re.split(r"\s*\.\.\.\s*", expected))


@pytest.fixture
def shell(tmp_path):
    """Return a function that runs a line in a shell that keeps its folder, with `precreg` on the PATH."""
    script = tmp_path / "bin" / "precreg"
    script.parent.mkdir()
    write_command(script, "precreg", PATIENCE_S)
    where = tmp_path / "where"
    where.write_text(str(tmp_path))
    variables = environ(GIT_CONFIG_COUNT="0")
    variables["PATH"] = f"{script.parent}:{variables['PATH']}"

    def run(line):
        whole = f'cd "$(cat {where})"\n{line}\ncode=$?\npwd > {where}\nexit $code'
        return subprocess.run(["sh", "-c", whole], env=variables, capture_output=True, text=True, check=False)

    run.folder = lambda: where.read_text().strip()
    return run


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_tutorial(shell, name):
    steps = list(tutorial(name))
    assert len(steps) > 10
    for kind, what, then in steps:
        if kind == "file":
            with open(f"{shell.folder()}/{what}", "w") as file:
                file.write(then)
            continue
        done = shell(what)
        shown = done.stdout + done.stderr
        assert "Traceback" not in shown
        for line in then:
            assert re.search(f"^{pattern(line)}", shown, re.MULTILINE), f"$ {what}\nexpected {line!r} in\n{shown}"
        code = next((int(line[5]) for line in then if line.startswith("exit ")), 0)
        assert done.returncode == code, shown


def test_the_two_commands_come_first():
    first = BLOCK.search(README)
    commands = [line.split("#")[0].strip() for line in first[3].splitlines()]
    assert commands == ["make run", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(f"^{command.split()[1]}:", makefile, re.MULTILINE) for command in commands)
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_every_command_is_in_the_table_and_answers_help(tmp_path):
    for name in COMMANDS:
        assert f"| `precreg {name}" in COMMANDS_PAGE
        done = precreg(tmp_path, name, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith("Usage: precreg")
    shown = precreg(tmp_path, "--help").stdout
    assert all(name in shown for name in COMMANDS)


def test_a_newcomer_reads_it_in_minutes():
    assert len(README.split()) < MAX_WORDS


def test_every_page_that_is_named_is_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
