"""A repository of 60 commits with one planted change among refactorings, some of which cannot be imported."""

from dataclasses import dataclass

from tests.e2e.command import git, repository

COMMITS = 60
# The change: E[x^2] - E[x]^2 in place of the mean of squared differences, amid renames and new formatting.
GUILTY = 37
BROKEN = {8, 14, 15, 23, 29, 30, 31, 41, 44, 45, 52}
MOVES = {11: "moments", 27: "means", 37: "averages", 49: "reduce"}
GOOD_LINE = "{mean_of}({centred} * {centred})"
BAD_LINE = "{mean_of}(x * x) - {mean} * {mean}"

SUITE = """\
suite: norm
about: LayerNorm over the last axis
subject: {module}:layer_norm
reference: exact:layer_norm
matrix: {{dtype: [float32]}}
inputs:
  x: {{shape: [16, 64], dtype: $dtype, normal: {{mean: 3, std: 1}}}}
params: {{eps: 1.0e-5}}
seeds: 3
tolerance: {{rtol: 1.0e-2, atol: 1.0e-3}}
"""
EXACT = """\
import numpy as np


def layer_norm(x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
"""


@dataclass
class Code:
    """The state of the code at a commit."""

    number: int = 0
    module: str = "norm"
    helper_module: str = "statistics_of_rows"
    names: int = 0
    comments: int = 0
    line: str = GOOD_LINE

    def step(self):
        """Make the next commit's change: a refactoring, and at GUILTY the planted line, too."""
        self.number += 1
        if self.number in MOVES:
            self.helper_module = MOVES[self.number]
        if self.number == 20:
            self.module = "normalization"
        if self.number % 5 == 2 or self.number == GUILTY:
            self.names += 1
        if self.number % 5 != 2:
            self.comments += 1
        if self.number == GUILTY:
            self.line = BAD_LINE

    def files(self):
        """Return the sources by path."""
        used = {
            "mean_of": f"mean_of_rows_{self.names % 3}",
            "mean": ("mean", "average", "mu")[self.names % 3],
            "centred": ("centred", "delta", "d")[self.names % 3],
        }
        broken = "import a_module_that_nobody_has\n" if self.number in BROKEN else ""
        notes = "".join(f"# note {number}\n" for number in range(self.comments % 7))
        helper = (
            f"{notes}def {used['mean_of']}(x):\n"
            f'    """Mean of rows, version {self.comments}."""\n'
            "    return x.mean(axis=-1, keepdims=True)\n"
        )
        formula = self.line.format(**used)
        kernel = (
            f"import numpy as np\n\n{broken}from ops.{self.helper_module} import {used['mean_of']}\n\n\n{notes}"
            f"def layer_norm(x, eps):\n"
            f"    {used['mean']} = {used['mean_of']}(x)\n"
            f"    {used['centred']} = x - {used['mean']}\n"
            + ("\n" if self.comments % 2 else "")
            + f"    variance = {formula}\n"
            f"    return {used['centred']} / np.sqrt(variance + eps)\n"
        )
        return {
            "ops/__init__.py": "",
            f"ops/{self.helper_module}.py": helper,
            f"ops/{self.module}.py": kernel,
            f"docs/notes_{self.comments}.txt": "one more page\n",
            "suites/unit/norm.yaml": SUITE.format(module=f"ops.{self.module}"),
            "suites/unit/exact.py": EXACT,
        }


def sixty_commits(folder):
    """Write the repository; return its folder and the ids of its commits, oldest first."""
    code = Code()
    _write(folder, code)
    repository(folder)
    for _ in range(COMMITS):
        code.step()
        _write(folder, code)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"refactoring {code.number}")
    return folder, git(folder, "rev-list", "--reverse", "HEAD").split()


def _write(folder, code):
    files = code.files()
    for old in [*folder.glob("ops/*.py"), *folder.glob("docs/*")]:
        old.unlink()
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
