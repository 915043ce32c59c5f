"""Commands import at their top only modules that every call of them needs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import precreg.cli

FOLDER = Path(precreg.cli.__file__).parent
EVERYWHERE = {"precreg", "precreg.errors", "click"}
# Every check before a push needs git, and this part of the room imports nothing heavy.
# The self-tests show defaults of quality/ in their help, which are defined there alone.
# click has imported its completion before it asks for words, and no other call imports completion.
ALSO = {
    "hook": {"precreg.vcs"},
    "quality": {"precreg.environment", "precreg.quality"},
    "completion": {"click.shell_completion"},
}


def imported_at_the_top(path):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_command_imports_late(path):
    foreign = {name for name in imported_at_the_top(path) if name.partition(".")[0] not in sys.stdlib_module_names}
    assert {name for name in foreign if not name.startswith("precreg.cli.")} <= EVERYWHERE | ALSO.get(path.stem, set())


def test_asking_whether_there_is_anything_to_run_imports_neither_the_session_nor_reports():
    code = "import sys, precreg.cli.run, precreg.cli.hook\n"
    code += "late = {'numpy', 'precreg.run', 'precreg.report', 'precreg.suite'}\n"
    code += "print(sorted(late & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
