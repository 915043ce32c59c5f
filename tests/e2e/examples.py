"""The projects of examples/: their pages as steps of a shell, and their pipelines.

`python -m tests.e2e.examples [NAME...]` runs the projects, and accepts their baselines again. Those of torch and ONNX
need the extras.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tests.e2e.command import PATIENCE_S, ROOT, environ, git, precreg, started
from tests.e2e.fork_server import write_command
from tests.e2e.pushes import with_hook_in_fork
from tests.e2e.test_escalation import disabled_features
from tests.e2e.test_readme import BLOCK, pattern
from tests.pipeline.local import component_with

EXAMPLES = ROOT / "examples"
# numpy and OpenBLAS compute with fewer instructions, and so does torch: many results have other last bits.
OTHER_MACHINE = {
    "NPY_DISABLE_CPU_FEATURES": disabled_features(),
    "OPENBLAS_CORETYPE": "Prescott",
    "ATEN_CPU_CAPABILITY": "default",
}


def project_names():
    """Return the names of the projects to copy: the folders with a page."""
    return sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))


def tracked(name):
    """Return the files of a project that git has, relative to its folder."""
    return git(EXAMPLES / name, "ls-files").splitlines()


def copy(name, folder):
    """Copy the files of a project that git has into `folder/precreg/examples`, as a clone of precreg has them."""
    for file in tracked(name):
        place = folder / "precreg" / "examples" / name / file
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(EXAMPLES / name / file, place)
    return folder / "precreg" / "examples" / name


def add_tools(shell):
    """Put this Python and its pytest beside `precreg` on the PATH of a shell that has not changed its folder."""
    programs = Path(shell.folder()) / "bin"
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python").chmod(0o755)
    write_command(programs / "pytest", "pytest", PATIENCE_S)


def steps(page):
    """Yield ("file", path, text) and ("command", line, expected lines) in the order of a page."""
    for language, path, text in BLOCK.findall(page):
        if path:
            yield "file", path, text
        elif language == "console":
            for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, *expected = command.splitlines()
                yield "command", line, expected


def patch(name):
    """Return the planted change of a project: the diff that its page shows."""
    ((_, _, text),) = (step for step in steps((EXAMPLES / name / "README.md").read_text()) if step[0] == "file")
    return text


def follow(shell, name, folder, part="", **variables):
    """Run the commands of a page of examples/ in a shell, and compare the lines of each with the page.

    Args:
        shell: the shell, whose folder then is that of the project.
        name: the project.
        folder: the folder of the shell.
        part: the heading of the last part to run; all of them by default.
        variables: the environment of the commands.
    """
    copy(name, folder)
    add_tools(shell)
    page = (EXAMPLES / name / "README.md").read_text()
    if part:
        before, heading, after = page.partition(f"## {part}\n")
        assert heading
        page = before + after.partition("\n## ")[0]
    diagnose = {"PRECREG_DIAGNOSE": "60"} if " cause: " in page else {}
    exports = "".join(f"export {key}='{value}'\n" for key, value in {**diagnose, **variables}.items())
    for kind, what, then in steps(page):
        if kind == "file":
            Path(shell.folder(), what).write_text(then)
            continue
        done = shell(exports + what)
        shown = done.stdout + done.stderr
        assert "Traceback" not in shown, shown
        for line in then:
            if not re.fullmatch(r"exit \d", line):
                assert re.search(f"^{pattern(line)}", shown, re.MULTILINE), f"$ {what}\nexpected {line!r} in\n{shown}"
        code = next((int(line[5]) for line in then if line.startswith("exit ")), 0)
        assert done.returncode == code, f"$ {what}\n{shown}"
    return Path(shell.folder())


def pushes(name, folder, then=()):
    """Push a project as it is, and with its planted change; return the two pushes.

    Args:
        name: the project.
        folder: an empty folder.
        then: a command that follows the change.
    """
    project = copy(name, folder)
    git(folder, "init", "-q", "--bare", "remote.git")
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("config", "user.name", "Ada"),
        ("config", "user.email", "ada@example.org"),
        ("remote", "add", "origin", f"{folder}/remote.git"),
        ("add", "-A"),
        ("commit", "-qm", "first"),
    ):
        git(project, *arguments)
    assert precreg(project, "hook", "install").returncode == 0
    with_hook_in_fork(project)
    first = _push(project)
    (folder / "planted.patch").write_text(patch(name))
    git(project, "apply", f"{folder}/planted.patch")
    if then:
        subprocess.run(then, cwd=project, check=True)
    git(project, "commit", "-qam", "planted")
    return first, _push(project)


def _push(project):
    command = ["git", "push", "-q", "origin", "main"]
    return subprocess.run(command, cwd=project, env=environ(), capture_output=True, text=True, check=False)


def run_jobs(shell, name, folder):
    """Run the scripts of the component's jobs in a project, as the server of its pipeline does; return its folder."""
    project = copy(name, folder)
    git(project, "init", "-q", "-b", "main")
    inputs = component_inputs(name)
    jobs = component_with(**inputs)
    shell(f"cd {project}")
    for tier in inputs["tiers"].split():
        variables = f"export CI=true INSTALL=true PRECREG=precreg TIER={tier} CI_JOB_NAME_SLUG=precreg-{tier}\n"
        script = [*jobs[".precreg-job"]["before_script"], *jobs[".precreg-tier"]["script"]]
        done = shell(variables + "set -e\n" + "\n".join(script))
        assert done.returncode == 0, done.stdout + done.stderr
    done = shell("export CI=true PRECREG=precreg\n" + "\n".join(jobs["precreg-report"]["script"]))
    assert done.returncode == 0, done.stdout + done.stderr
    return project


def component_inputs(name):
    """Return the inputs that a project gives to the component."""
    (include,) = yaml.safe_load((EXAMPLES / name / ".gitlab-ci.yml").read_text())["include"]
    assert include["component"].endswith("/precreg/precreg@1.0.0")
    return include["inputs"]


def accept(name):
    """Accept the baselines of a project again, in a repository of its own, as the maintainers of this one."""
    with tempfile.TemporaryDirectory() as folder:
        project = copy(name, Path(folder))
        shutil.rmtree(project / "baselines", ignore_errors=True)
        git(project, "init", "-q", "-b", "main")
        for key in ("user.name", "user.email"):
            git(project, "config", key, git(ROOT, "config", key))
        git(project, "add", "-A")
        git(project, "commit", "-qm", "Start from the example")
        has_tests = (project / "tests").is_dir()
        command = [sys.executable, "-m", "pytest"] if has_tests else [sys.executable, "-m", "precreg", "run"]
        subprocess.run(command, cwd=project, env=environ(), check=False)
        done = started(project, "baseline", "accept", "--all", "--reason", "first measurement")
        assert done.returncode == 0, done.stderr
        shutil.rmtree(EXAMPLES / name / "baselines", ignore_errors=True)
        shutil.copytree(project / "baselines", EXAMPLES / name / "baselines")


if __name__ == "__main__":
    for each in sys.argv[1:] or project_names():
        accept(each)
