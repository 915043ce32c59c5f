"""docs/pre-push.md as a reader would follow it: its commands in one shell, its configurations by pre-commit itself."""

import re
import shutil
import subprocess
import sys

import pytest
import yaml

from precreg.storage.files import DOCUMENTS
from tests.e2e.command import ROOT, git
from tests.e2e.pushes import accepted, project
from tests.e2e.test_readme import BLOCK, pattern, shell

__all__ = ["accepted", "project", "shell"]

PAGE = (ROOT / "docs" / "pre-push.md").read_text()
FILES = {path: text for _, path, text in BLOCK.findall(PAGE) if path}


def commands():
    """Yield (command, expected lines) in the order of the page."""
    for language, path, text in BLOCK.findall(PAGE):
        if language == "console" and not path:
            for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, *expected = command.splitlines()
                yield line, expected


def test_the_commands_of_the_page(project, shell, tmp_path):
    (tmp_path / "where").write_text(f"{shutil.move(project, tmp_path / 'demo')}")
    for command, expected in commands():
        done = shell(command)
        shown = done.stdout + done.stderr
        for line in expected:
            assert re.search(f"^{pattern(line)}$", shown, re.MULTILINE), f"$ {command}\nexpected {line!r} in\n{shown}"
        stopped = any("the push is stopped" in line for line in expected)
        assert (done.returncode != 0) is stopped, shown
    assert len(git(tmp_path / "demo", "log", "--oneline", "origin/main..main").splitlines()) == 1


@pytest.mark.parametrize("name", FILES)
def test_pre_commit_takes_the_configurations_of_the_page(name, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(FILES[name])
    command = [sys.executable, "-m", "pre_commit", "validate-config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_pre_commit_takes_the_hooks_that_are_offered():
    manifest = ROOT / ".pre-commit-hooks.yaml"
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(manifest)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    offered = {hook["id"]: hook for hook in yaml.safe_load(manifest.read_text())}
    named = {hook["id"] for text in FILES.values() for repo in yaml.safe_load(text)["repos"] for hook in repo["hooks"]}
    assert set(offered) == named
    (local,) = yaml.safe_load(FILES[".pre-commit-config.yaml"])["repos"][0]["hooks"]
    assert local.items() <= offered["precreg"].items()


def test_documents_are_those_of_the_page():
    said = re.search(r"Documents \((.*?)\)", PAGE)[1]
    assert set(re.findall(r"`(.*?)`", said)) == DOCUMENTS
