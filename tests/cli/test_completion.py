"""Completion: bash itself asks for words, as a person's shell does after Tab."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.e2e.command import PATIENCE_S, ROOT, environ
from tests.e2e.fork_server import write_command

bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


@pytest.fixture
def complete(tmp_path):
    """Return a function that returns the words that bash proposes for the last word of a line."""
    script = tmp_path / "bin/precreg"
    script.parent.mkdir()
    write_command(script, "precreg", PATIENCE_S)
    variables = environ()
    variables["PATH"] = f"{script.parent}{os.pathsep}{variables['PATH']}"

    def words(*line, folder=ROOT):
        quoted = " ".join(f"'{word}'" for word in ("precreg", *line))
        code = 'eval "$(_PRECREG_COMPLETE=bash_source precreg)"\n'
        code += f"COMP_WORDS=({quoted})\nCOMP_CWORD={len(line)}\n_precreg_completion precreg\n"
        code += 'printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "--norc", "-c", code], cwd=folder, env=variables, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout.split()

    return words


@bash
def test_bash_completes_each_kind_of_word(complete):
    assert complete("ru") == ["run"]
    assert {"init", "run", "baseline"} <= set(complete(""))
    assert {"unit/softmax/", "unit/apply_adam/"} <= set(complete("run", "unit/"))
    assert complete("run", "--tier", "m") == ["model"]
    assert "softmax" in complete("run", "--suite", "soft")
    assert complete("compare", "--standard", "onnx-backend") == ["onnx-backend-1"]
    assert complete("compare", "--dtype", "bfl") == ["bfloat16"]
    assert complete("compare", "--bound", "max_ulp") == ["max_ulp="]
    assert complete("search", "--metric", "max_u") == ["max_ulp"]
    assert complete("baseline", "acc") == ["accept"]


@bash
def test_few_ids_are_whole_and_functions_are_targets(complete, tmp_path):
    place = tmp_path / "suites/unit"
    place.mkdir(parents=True)
    (tmp_path / "k.py").write_text("def same(x):\n    return x\n\n\ndef _own():\n    pass\n")
    (place / "s.yaml").write_text(
        "suite: s\nsubject: k:same\nreference: k:same\nmatrix: {dtype: [float16, float32]}\ntags: [quick]\n"
        "inputs: {x: {shape: [2], dtype: $dtype, normal: {}}}\n"
    )
    assert complete("explain", "unit/", folder=tmp_path) == ["unit/s/float16", "unit/s/float32"]
    assert complete("--project", str(tmp_path), "trace", "unit/s/float1") == ["unit/s/float16"]
    assert complete("run", "--tag", "", folder=tmp_path) == ["quick"]
    # bash itself splits a word at a colon, so the module comes first.
    assert complete("init", "k", folder=tmp_path) == ["k:same"]


@bash
def test_a_mistake_in_a_suite_or_a_wrong_command_gives_no_words_and_no_message(complete, tmp_path):
    assert complete("run", "un", folder=tmp_path) == []
    (tmp_path / "suites/unit").mkdir(parents=True)
    (tmp_path / "suites/unit/s.yaml").write_text("suite: [\n")
    assert complete("run", "un", folder=tmp_path) == []
    assert complete("nothing", "un", folder=tmp_path) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell):
    done = subprocess.run(
        [sys.executable, "-m", "precreg"],
        env=environ(_PRECREG_COMPLETE=f"{shell}_source"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"_PRECREG_COMPLETE={shell}_complete" in done.stdout


# Packages, and rooms of precreg, that take long to import or that no list of cases needs.
HEAVY = {"numpy", "ml_dtypes", "scipy", "torch", "onnx", "rich", "jinja2"}
HEAVY |= {
    f"precreg.{room}" for room in ("vcs", "baseline", "history", "run", "shadow", "diagnose", "quality", "report")
}


def test_words_of_cases_import_nothing_heavy():
    """A person waits for Tab: the shipped suites have thousands of cases."""
    variables = environ(_PRECREG_COMPLETE="bash_complete", COMP_WORDS="precreg run unit/soft", COMP_CWORD="2")
    code = "import atexit, sys; sys.argv = ['precreg']\n"
    code += f"atexit.register(lambda: print(sorted({HEAVY!r} & set(sys.modules))))\n"
    code += "from precreg.__main__ import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert "unit/softmax/" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
