import subprocess
import sys
from pathlib import Path

import pytest

from precreg.report.template import TEMPLATES_FOLDER

# Renders a page, and prints how many templates jinja2 compiled for it.
RENDER = """
import sys
from jinja2 import Environment
from precreg.report.template import page_templates

compiled, compile_template = [], Environment.compile
Environment.compile = lambda self, source, name, *others: compiled.append(name) or compile_template(
    self, source, name, *others
)
for name in page_templates().list_templates(extensions=["j2"]):
    page_templates().get_template(name)
print(len(compiled))
"""
ALL = len([*TEMPLATES_FOLDER.glob("*.j2")])


def _compiled(prefix: Path, *options: str) -> int:
    """Return how many templates a new process compiles, with a folder of its own for compiled modules."""
    variables = {"PYTHONPYCACHEPREFIX": str(prefix), "PATH": ""}
    command = [sys.executable, *options, "-c", RENDER]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, env=variables).stdout)


def _stored(prefix: Path) -> list[Path]:
    return sorted(prefix.rglob("*.template"))


def test_a_second_process_compiles_no_template(tmp_path: Path) -> None:
    assert _compiled(tmp_path) == ALL
    assert len(_stored(tmp_path)) == ALL
    assert _compiled(tmp_path) == 0


def test_a_python_that_writes_no_compiled_modules_stores_no_template(tmp_path: Path) -> None:
    assert _compiled(tmp_path, "-B") == ALL
    assert not _stored(tmp_path)


def test_a_folder_that_cannot_be_written_gives_the_same_templates(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert _compiled(tmp_path / "file" / "below") == ALL


@pytest.mark.parametrize("content", [b"", b"j2", b"another file"])
def test_a_damaged_file_is_compiled_again(tmp_path: Path, content: bytes) -> None:
    assert _compiled(tmp_path) == ALL
    damaged = _stored(tmp_path)[0]
    damaged.write_bytes(content)
    assert _compiled(tmp_path) == 1
    assert _compiled(tmp_path) == 0


def test_a_truncated_file_is_compiled_again(tmp_path: Path) -> None:
    assert _compiled(tmp_path) == ALL
    truncated = _stored(tmp_path)[0]
    truncated.write_bytes(truncated.read_bytes()[:-20])
    assert _compiled(tmp_path) == 1
