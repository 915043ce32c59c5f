"""`precreg init` in real folders: green at once, nothing overwritten, and an answer for each function that is odd."""

import re
import shutil
import signal
import subprocess
import sys
from functools import cache

import pytest
import yaml

from tests.e2e.command import PATIENCE_S, environ, git, precreg, repository, started

KERNELS = '''\
import time

import numpy as np


def softmax(x, axis=-1):
    terms = np.exp(x - x.max(axis=axis, keepdims=True))
    return terms / terms.sum(axis=axis, keepdims=True)


def linear(x, weight, bias):
    """A linear layer.

    x : array of shape (batch, inputs)
    weight : array of shape (outputs, inputs)
    bias : array of shape (outputs,)
    """
    return x @ weight.T + bias


def log_sum(x):
    return np.log(x).sum(axis=-1)


def cholesky(a):
    return np.linalg.cholesky(a)


def in_any_order(x):
    return x[np.random.default_rng().permutation(len(x))].cumsum(axis=0)[-1]


def changes_and_prints(x):
    print("hello")
    x *= 2
    return x * 1.1


def in_float32(x):
    return x.astype(np.float32) * np.float32(3.3)


def norm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight + bias


def gather(rows, indices):
    return rows[indices]


def text(x):
    return "abc"


def raises(x):
    raise ValueError("wrong day")


def resize(x, mode: str):
    return x


def no_arguments():
    return np.ones(3)


def hangs(x):
    time.sleep(1000)


async def later(x):
    return x


value = 3
'''
GOOD = [
    *("softmax", "linear", "log_sum", "cholesky", "in_any_order"),
    *("changes_and_prints", "in_float32", "norm", "gather"),
]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    return repository(tmp_path)


def suite_of(project, name):
    return yaml.safe_load((project / f"suites/unit/{name}.yaml").read_text())


@pytest.fixture(scope="module")
def initialized(tmp_path_factory):
    """Return a function that gives the project of one function after `precreg init`, and the finished process."""

    @cache
    def of(name):
        folder = tmp_path_factory.mktemp(name)
        (folder / "kernels.py").write_text(KERNELS)
        return repository(folder), precreg(folder, "init", f"kernels:{name}")

    return of


@pytest.fixture
def begun(initialized, tmp_path):
    """Return a copy of the project after `precreg init kernels:softmax`."""
    return shutil.copytree(initialized("softmax")[0], tmp_path / "begun")


@pytest.fixture(scope="module")
def hanging(tmp_path_factory):
    """Start `precreg init` for a function that hangs, and return the process.

    It waits for twenty seconds. Tests that ask for this fixture run meanwhile.
    """
    folder = tmp_path_factory.mktemp("hangs")
    (folder / "kernels.py").write_text(KERNELS)
    command = [sys.executable, "-m", "precreg", "init", "kernels:hangs"]
    with subprocess.Popen(
        command, cwd=repository(folder), env=environ(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)


@pytest.mark.usefixtures("hanging")
@pytest.mark.parametrize("name", GOOD)
def test_a_function_is_green_at_once(initialized, name):
    project, done = initialized(name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello" not in done.stdout
    assert re.search(r"^green after [\d.]+ s; the next commands:$", done.stdout, re.MULTILINE)
    assert len(done.stdout.partition("next commands:\n")[2].splitlines()) == 3
    ran = precreg(project, "run")
    assert ran.returncode == 0, ran.stdout
    assert "exit 0: nothing regressed" in ran.stdout
    assert (project / f"baselines/generic/unit/{name}.json").is_file()
    assert '"first measurement"' in (project / f"baselines/generic/unit/{name}.json").read_text()


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("softmax", {"x": ["$rows", 64]}),
        ("linear", {"x": ["$batch", 40], "weight": [56, 40], "bias": [56]}),
        ("norm", {"x": ["$rows", 64], "weight": [64], "bias": [64]}),
        ("gather", {"rows": ["$rows_size", 64], "indices": ["$rows_size", 64]}),
    ],
)
def test_shapes_come_from_the_docstring_the_names_and_trials(initialized, name, shapes):
    project, _ = initialized(name)
    assert {each: value["shape"] for each, value in suite_of(project, name)["inputs"].items()} == shapes


def test_choices_follow_the_function(initialized):
    def chosen(name):
        return suite_of(initialized(name)[0], name)

    assert chosen("norm")["params"] == {"eps": 1e-5}
    assert "bfloat16" not in chosen("norm")["matrix"]["dtype"], "numpy gives float32 for it"
    assert chosen("in_any_order")["deterministic"] is False
    assert "uniform" in chosen("log_sum")["inputs"]["x"]
    assert "spd" in chosen("cholesky")["inputs"]["a"]
    assert chosen("in_float32")["golden"] == {"files": "$call"}, "no reference is wider"


AVERAGES = """\
import numpy as np


def smoothed(x):
    out, level = np.empty_like(x), np.float64(0)
    for at in range(x.shape[-1]):
        level = 0.9 * level + 0.1 * x[..., at].astype(np.float64)
        out[..., at] = level
    return out


def average(x, w):
    return (w * x).sum(-1) / w.sum(-1)
"""


def test_a_dtype_without_any_error_is_noted(project):
    (project / "averages.py").write_text(AVERAGES)
    done = precreg(project, "init", "averages:smoothed")
    assert "note       all errors of float64 are 0: its reference may be no wider" in done.stdout
    done = precreg(project, "init", "averages:average")
    assert "are 0" not in done.stdout
    bounds = suite_of(project, "average")["tolerance"]
    assert float(bounds["float32"]["atol"]) < 1e-3, "no sum of weights is near 0"


def test_bounds_hold_the_first_errors_and_break_for_larger_ones(begun):
    bounds = suite_of(begun, "softmax")["tolerance"]
    assert set(bounds) == {"float16", "bfloat16", "float32", "float64"}
    assert float(bounds["float64"]["rtol"]) < float(bounds["float32"]["rtol"]) < float(bounds["float16"]["rtol"]) < 0.1
    text = (begun / "kernels.py").read_text()
    # The reference is the same function in float64, so the mistake is in the narrow dtypes alone.
    mistake = "return x.dtype.type(1 + 0.2 * (x.itemsize < 8)) * terms / "
    (begun / "kernels.py").write_text(text.replace("return terms / ", mistake))
    done = precreg(begun, "run", "softmax")
    assert (done.returncode, "out_of_tolerance" in done.stdout) == (1, True), done.stdout


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("kernels:text", "calls of kernels:text failed with: expected an array of numbers"),
        ("kernels:raises", "calls of kernels:raises failed with: ValueError: wrong day"),
        ("kernels:resize", "expected arrays and numbers but kernels:resize needs mode"),
        ("kernels:no_arguments", "expected arguments that are arrays but kernels:no_arguments needs none"),
        ("kernels:later", "expected a function that returns arrays but kernels:later is a coroutine"),
        ("kernels:value", "expected a function but got kernels:value of type int"),
        ("kernels:sofmax", 'did you mean "softmax"?'),
        ("kernel:softmax", 'did you mean "kernels"?'),
        ("kernels.softmax", 'did you mean "kernels:softmax"?'),
        ("kernels", 'did you mean "kernels:softmax"?'),
        ("kernels:", "expected module:function"),
        ("model.onnx", "expected a model but model.onnx is not there"),
    ],
)
def test_a_target_that_cannot_be_measured_writes_nothing(project, target, message):
    done = precreg(project, "init", target)
    assert done.returncode == 2
    assert message in done.stderr, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert git(project, "status", "--short") == ""


@pytest.mark.parametrize("kind", ["source", "program"])
def test_a_program_gets_a_suite_to_complete(project, kind):
    source = "#include <stdlib.h>\n#include <stdio.h>\nint main(int n, char **a) {\n  char buffer[16384];\n"
    source += '  FILE *in = fopen(a[1], "rb"), *out = fopen(a[2], "wb");\n'
    source += "  size_t size = fread(buffer, 1, sizeof buffer, in);\n"
    source += "  return fwrite(buffer, 1, size, out) != size || fclose(out);\n}\n"
    (project / "my copy.c").write_text(source)
    target = "my copy.c"
    if kind == "program":
        subprocess.run(["cc", project / target, "-o", project / "my copy"], check=True)
        target = "./my copy"
    done = precreg(project, "init", target)
    assert done.returncode == 2
    assert f"{target} is a {kind}" in done.stderr
    assert "docs/programs.md" in done.stderr
    suite = done.stderr[done.stderr.index("suite: ") : done.stderr.index("error[no-guess]")]
    place = project / "suites/unit"
    place.mkdir(parents=True, exist_ok=True)
    (place / "my_copy.yaml").write_text(suite.replace("FUNCTION", "same"))
    (place / "exact.py").write_text("def same(x):\n    return {'y': x}\n")
    done = precreg(project, "run", "my_copy")
    assert (done.returncode, "1 proposed" in done.stdout) == (2, True), done.stdout


def test_a_function_that_hangs_is_given_up(hanging):
    _, printed = hanging.communicate(timeout=PATIENCE_S)
    assert hanging.returncode == 2
    assert "expected a call of kernels:hangs within 20 s but 2 took longer" in printed, printed
    assert "suite: hangs" in printed, "a suite to complete"


def test_existing_files_keep_every_line(project):
    for path, text in {".gitlab-ci.yml": "mine: {script: [true]}\n", ".gitattributes": "*.png binary"}.items():
        (project / path).write_text(text)
    hook = project / ".git/hooks/pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    done = precreg(project, "init", "kernels:softmax")
    assert done.returncode == 0, done.stderr
    assert "kept       .gitlab-ci.yml" in done.stdout
    assert "precreg hook install --chain" in done.stdout
    assert (project / ".gitlab-ci.yml").read_text() == "mine: {script: [true]}\n"
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"
    assert (project / ".gitattributes").read_text() == "*.png binary"
    for suffix, shown in (("sums", "set"), ("json", "unspecified")):
        path = f"baselines/generic/unit/softmax.{suffix}"
        attributes = git(project, "check-attr", "linguist-generated", "gitlab-generated", "--", path).splitlines()
        assert [line.rpartition(" ")[2] for line in attributes] == [shown, shown]
    assert (project / ".gitignore").read_text() == "__pycache__/\n.precreg/\nreports/\n"
    before = (project / "suites/unit/softmax.yaml").read_bytes()
    again = precreg(project, "init", "kernels:softmax")
    assert again.returncode == 0
    assert "kept       suites/unit/softmax.yaml" in again.stdout
    assert (project / "suites/unit/softmax.yaml").read_bytes() == before
    assert (project / ".gitignore").read_text() == "__pycache__/\n.precreg/\nreports/\n"


def test_the_pipeline_is_that_of_the_forge_and_of_the_folder(tmp_path):
    root = tmp_path / "repository"
    inner = root / "libraries/numbers"
    inner.mkdir(parents=True)
    (inner / "kernels.py").write_text(KERNELS)
    (inner / "requirements.txt").write_text("numpy\n")
    repository(root)
    git(root, "remote", "add", "origin", "git@github.com:ada/numbers.git")
    done = precreg(inner, "--project", ".", "init", "kernels:softmax")
    assert done.returncode == 0, done.stderr
    workflow = yaml.safe_load((root / ".github/workflows/precreg.yml").read_text())
    steps = workflow["jobs"]["precision"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [
        "pip install --quiet -r requirements.txt",
        "pip install --quiet precreg",
        'precreg run --against "origin/${{ github.base_ref || github.ref_name }}"',
    ]
    assert {step["working-directory"] for step in steps if "run" in step} == {"libraries/numbers/"}
    assert (inner / ".gitignore").exists()
    assert " libraries/numbers\n" in (root / ".git/hooks/pre-push").read_text()
    git(root, "remote", "remove", "origin")
    (root / ".github/workflows/precreg.yml").unlink()
    (root / ".github/workflows").rmdir()
    (root / ".github").rmdir()
    assert precreg(inner, "--project", ".", "init", "kernels:softmax").returncode == 0
    pipeline = yaml.safe_load((root / ".gitlab-ci.yml").read_text())
    assert pipeline["precision"]["script"][0] == "cd libraries/numbers/"
    assert pipeline["precision"]["artifacts"]["paths"] == ["libraries/numbers/reports/"]


def test_a_push_is_checked_by_the_hook(begun, tmp_path):
    git(begun, "add", "-A")
    git(begun, "commit", "-qm", "begun")
    git(tmp_path, "init", "-q", "--bare", "remote")
    git(begun, "remote", "add", "origin", str(tmp_path / "remote"))
    command = ["git", "-C", str(begun), "push", "origin", "main"]
    done = subprocess.run(command, env=environ(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "8 of 8 cases before the push" in done.stdout + done.stderr


def test_ci_writes_nothing(project):
    done = precreg(project, "init", "kernels:softmax", CI="true")
    assert done.returncode == 2
    assert "error[accept-in-ci]" in done.stderr
    assert git(project, "status", "--short") == ""


def test_a_package_in_src_and_a_file_are_targets(tmp_path):
    package = tmp_path / "src/numbers_of_mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(KERNELS)
    repository(tmp_path)
    assert precreg(tmp_path, "init", "numbers_of_mine.kernels:softmax").returncode == 0
    assert suite_of(tmp_path, "softmax")["subject"] == "src.numbers_of_mine.kernels:softmax"
    assert precreg(package, "init", "kernels.py:linear").returncode == 0
    assert suite_of(tmp_path, "linear")["subject"] == "src.numbers_of_mine.kernels:linear"


def test_the_printed_commands_can_be_pasted(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    done = started(folder, "init")
    assert done.returncode == 0, done.stderr
    first, second, _third = (line.strip() for line in done.stdout.partition("next commands:\n")[2].splitlines())
    script = f'precreg() {{ "{sys.executable}" -m precreg "$@"; }}\n{first}\n{second}'
    variables = environ(GIT_AUTHOR_NAME="Ada", GIT_AUTHOR_EMAIL="a@b.c", GIT_COMMITTER_NAME="Ada")
    variables["GIT_COMMITTER_EMAIL"] = "a@b.c"
    ran = subprocess.run(["sh", "-c", script], cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "4 cases regressed against their baselines" in ran.stdout
    assert git(folder, "log", "--format=%s") == "Precision baseline: first measurement"
