"""`precreg capture` in a real project: the program stays as it is, and its calls become a suite that finds a loss."""

import sys

import pytest

from tests.e2e.command import change, git, precreg, repository, started

KERNELS = """\
import numpy as np


def softmax(x, axis=-1):
    terms = np.exp(x - x.max(axis=axis, keepdims=True))
    return terms / terms.sum(axis=axis, keepdims=True)
"""
LAYERS = """\
from kernels import softmax


def attend(x):
    return softmax(x)
"""
TRAIN = """\
import multiprocessing
import subprocess
import sys

import numpy as np

import layers
from kernels import softmax

random = np.random.default_rng(0)


def work(size):
    softmax(np.ones((size, 3), np.float32))


if __name__ == "__main__":
    for step in range(20):
        layers.attend(random.normal(size=(8, 64)).astype(np.float32))
        softmax(random.normal(size=(4, 16)) * 10.0 ** (step - 10), axis=0)
    softmax(np.zeros((8, 64), np.float32))
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            pool.map(work, [5 if method == "fork" else 6])
    code = "import kernels, numpy; kernels.softmax(numpy.ones(7)); import os; os._exit(0)"
    subprocess.run([sys.executable, "-c", code], check=True)
    print("trained", *sys.argv[1:])
    sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def project(tmp_path):
    for name, text in {"kernels.py": KERNELS, "layers.py": LAYERS, "train.py": TRAIN}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites/.keep").write_text("")
    return repository(tmp_path)


def capture(project, *options, target="kernels:softmax", program=("train.py", "0")):
    return precreg(project, "capture", target, *options, "--", sys.executable, *program)


def test_calls_of_a_program_become_a_suite_that_finds_a_loss(project):
    done = capture(project, "--limit", "12", program=("train.py", "3", "twice"))
    assert (done.returncode, done.stdout) == (3, "trained 3 twice\n")
    assert "Traceback" not in done.stderr
    assert "kept 12 of 44 calls of kernels:softmax" in done.stderr
    text = (project / "suites/unit/softmax.yaml").read_text()
    for shape in ("float32-8x64", "float64-4x16", "float32-5x3", "float32-6x3", "float64-7"):
        assert shape in text, f"{shape} was called: in the program, a pool, and another program"
    assert precreg(project, "run").returncode == 2
    assert precreg(project, "baseline", "accept", "*", "--reason", "first").returncode == 0
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "captured")
    again = precreg(project, "run")
    assert again.returncode == 0, again.stdout
    # In float32 alone, as a mixed precision kernel would: the reference gets float64.
    change(
        project / "kernels.py",
        "terms = np.exp(",
        "x = x.astype({'f': np.float16}.get(x.dtype.char, x.dtype))\n    terms = np.exp(",
    )
    lost = precreg(project, "run")
    assert lost.returncode == 1, lost.stdout
    assert "FAILED" in lost.stdout


def test_outputs_of_the_program_are_a_golden(project):
    done = capture(project, "--oracle", "golden", "--name", "seen")
    assert done.returncode == 0, done.stderr
    ran = precreg(project, "run")
    assert "out_of_tolerance" not in ran.stdout
    assert "error" not in ran.stdout.splitlines()[-1]
    change(project / "kernels.py", "terms / terms", "terms * 1.01 / terms")
    assert "out_of_tolerance" in precreg(project, "run").stdout


def test_a_suite_that_exists_stops_the_command_before_the_program(project):
    path = project / "suites/unit/softmax.yaml"
    path.parent.mkdir()
    path.write_text("suite: softmax\n")
    done = capture(project)
    assert (done.returncode, done.stdout) == (2, "")
    exists = "expected a name that is free but suites/unit/softmax.yaml exists\n  what to do: replace it with --force"
    assert exists in done.stderr
    assert path.read_text() == "suite: softmax\n"
    assert capture(project, "--force").returncode == 0
    assert "subject" in path.read_text()


@pytest.mark.parametrize(
    ("options", "program", "code", "said"),
    [
        ({"target": "kernels"}, ("train.py", "0"), 2, "error[bad-value]: expected module:function but got 'kernels'"),
        (
            {"target": "kernels:sotfmax"},
            ("train.py", "0"),
            2,
            'of kernels but got sotfmax; did you mean "softmax"?',
        ),
        ({"target": "other:softmax"}, ("train.py", "0"), 2, "expected calls of other:softmax but saw no call"),
        ({}, ("missing.py",), 2, "can't open file"),
        ({}, ("-c", "import os; os.abort()"), 134, "saw no call"),
    ],
)
def test_a_mistake_is_one_message(project, options, program, code, said):
    done = capture(project, program=program, **options)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project / "suites/unit").exists()


def test_a_command_that_does_not_start(project):
    done = precreg(project, "capture", "kernels:softmax", "--", "./no-such-program")
    assert done.returncode == 2
    assert "expected a command that starts but ./no-such-program does not: No such file" in done.stderr


def test_a_killed_program_leaves_its_calls(project):
    code = "import os, kernels, numpy; kernels.softmax(numpy.ones(4)); os.kill(os.getpid(), 9)"
    done = capture(project, program=("-c", code))
    assert done.returncode == 128 + 9
    assert "kept 1 of 1 calls" in done.stderr


def test_a_decorated_function_records_in_programs_and_not_in_runs_of_its_suite(project):
    change(project / "kernels.py", "def softmax", "@precreg.capture('softmax', limit=3)\ndef softmax")
    change(project / "kernels.py", "import numpy as np", "import numpy as np\n\nimport precreg")
    import subprocess

    from tests.e2e.command import environ

    command = [sys.executable, "train.py", "0"]
    done = subprocess.run(command, cwd=project, env=environ(), capture_output=True, text=True, check=True)
    assert "kept 3 of" in done.stderr
    text = (project / "suites/unit/softmax.yaml").read_text()
    ran = started(project, "run")
    assert "3 proposed" in ran.stdout, ran.stdout
    assert "left" not in ran.stdout
    assert "not written" not in ran.stdout + ran.stderr
    assert (project / "suites/unit/softmax.yaml").read_text() == text
