"""Kill real runs at any moment and at each write, and check that the project works and lost nothing.

`python -m tests.e2e.kills 200` prints a table of the kills and of the problems that they showed.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.e2e.command import PATIENCE_S, ROOT, environ, git, precreg, repository, with_suite
from tests.processes import processes_in, processes_with, servers_of, wait_until, workers_of

KERNEL = """
import os, time


def subject(x, n):
    time.sleep(0.02)
    if n == 3:
        os._exit(3)
    if n == 4:
        raise ValueError("always")
    return x * x.dtype.type(1.25 if n < 6 else 1.5)


def exact(x, n):
    return x * 1.25
"""
SUITE = """suite: s
subject: k:subject
reference: k:exact
matrix: {n: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]}
inputs: {x: {shape: 20, dtype: float32, normal: {}}}
params: {n: $n}
"""

# Runs the command, and kills itself, or its whole group, when it opens, renames, locks or removes a file of the project
# for the given time.
KILLED_AT_WRITE = """
import os, signal, sys
at, of_group, project = int(sys.argv[1]), sys.argv[2] == "group", sys.argv[3]
seen = 0
def count(event, arguments):
    global seen
    if event == "open":
        if not isinstance(arguments[0], (str, bytes)) or not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        if not os.path.abspath(os.fsdecode(arguments[0])).startswith(project):
            return
    elif event == "os.remove" and not os.path.abspath(os.fsdecode(arguments[0])).startswith(project):
        return
    elif event not in ("os.rename", "os.remove", "fcntl.flock", "os.truncate", "os.mkdir", "sqlite3.connect"):
        return
    seen += 1
    if seen == at:
        (os.killpg if of_group else os.kill)(os.getpgrp() if of_group else os.getpid(), signal.SIGKILL)
sys.argv = ["precreg", *sys.argv[4:]]
sys.addaudithook(count)
from precreg.__main__ import main
main()
"""
HOWS = ["kill", "kill_group", "term", "interrupt", "kill_worker", "kill_server"]


class Kill(NamedTuple):
    """How a run is killed: at a write of the process, after so many lines of the journal, or after a time."""

    how: str
    moment: str
    at: float


class Killed:
    """A project whose undisturbed run is known, and the runs that are killed in it."""

    def __init__(self, folder):
        self.project = repository(with_suite(folder / "project", SUITE, KERNEL))
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.mark = f"PRECREG_TEST_MARK={folder}"
        self.variables = {"PRECREG_TEST_MARK": str(folder), "TMPDIR": str(self.temporary)}
        self.run()
        self.command("baseline", "accept", "--all", "--reason", "first")
        git(self.project, "add", "-A")
        git(self.project, "commit", "-qm", "baselines")
        kernel = self.project / "suites" / "unit" / "k.py"
        kernel.write_text(KERNEL.replace("1.25 if", "1.2500001 if").replace("1.5)", "1.25)"))
        self.expected_code = self.run().returncode
        self.expected = self.verdicts()
        self.baselines = self.files("baselines")
        self.proposals = self.waiting()

    def command(self, *arguments):
        return precreg(self.project, *arguments, TMPDIR=str(self.temporary))

    def run(self, *options):
        return self.command("run", "--jobs", "2", "--pair", "off", *options)

    def verdicts(self):
        record = json.loads((self.project / "reports" / "record.json").read_text())
        return {
            result["id"]: (result["verdict"], result["outcome"]["execution"].get("outputs"))
            for result in record["results"]
        }

    def waiting(self):
        """Return the proposals without their times, which alone differ from run to run."""
        found = self.files(".precreg/proposals")
        return {path: re.sub(rb'"duration_s": [0-9.e-]+', b"", text) for path, text in found.items()}

    def files(self, folder):
        return {path: path.read_bytes() for path in (self.project / folder).rglob("*") if path.is_file()}

    def journal(self):
        path = self.project / ".precreg" / "journal.jsonl"
        return path.read_bytes() if path.exists() else b""

    def killed_run(self, kill):
        """Start a run, kill it, and return its exit code once no process of it is left."""
        arguments = ["run", "--jobs", "2", "--pair", "off"]
        code = ["-m", "precreg", *arguments]
        if kill.moment == "write":
            of = "group" if kill.how == "kill_group" else "self"
            code = ["-c", KILLED_AT_WRITE, str(int(kill.at)), of, str(self.project), *arguments]
        elif (self.project / ".precreg" / "journal.jsonl").exists():
            (self.project / ".precreg" / "journal.jsonl").unlink()
        running = subprocess.Popen(
            [sys.executable, *code],
            cwd=self.project,
            env=environ(**self.variables, PYTHONPATH=str(ROOT)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if kill.moment == "time":
            time.sleep(kill.at)
        elif kill.moment == "line":
            wait_until(lambda: self.journal().count(b"\n") >= kill.at or running.poll() is not None)
        if kill.moment != "write":
            send(kill.how, running)
        code = running.wait(PATIENCE_S)
        if not wait_until(lambda: not self.processes(), 30):
            raise AssertionError(f"{kill}: processes are left: {self.processes()}")
        return code

    def processes(self):
        return {*processes_with(self.mark), *processes_in(self.project)}

    def check(self, kill):
        """Kill a run, go on with --resume, and return the problems."""
        code = self.killed_run(kill)
        had = self.journal().rpartition(b"\n")[0]
        went_on = kill.how in ("kill_worker", "kill_server") and code >= 0
        problems = [*self.differences(may_crash=1)] if went_on else []
        resumed = self.run("--resume")
        if resumed.returncode == 2 and ("nothing-to-resume" in resumed.stderr):
            if had:
                problems.append("the journal had outcomes and no header")
            resumed = self.run()
        if resumed.returncode != self.expected_code:
            problems.append(f"exit code {resumed.returncode}: {resumed.stderr[-500:]}")
        if not self.journal().startswith(had):
            problems.append("an outcome of the journal was lost")
        problems += self.differences(may_crash=went_on)
        problems += self.left()
        return problems

    def differences(self, may_crash):
        found = self.verdicts()
        other = [id for id in self.expected if found.get(id) != self.expected[id]]
        crashed = [id for id in other if id in found and found[id][0]["reason"] == "crashed"]
        if len(crashed) <= may_crash:
            other = [id for id in other if id not in crashed]
        yield from (f"another verdict of {id}: {found.get(id)}" for id in other)
        yield from (f"no such case: {id}" for id in found.keys() - self.expected.keys())

    def left(self):
        temporary = [path for path in self.project.rglob("*") if path.name.endswith(".tmp")]
        yield from (f"left: {path}" for path in temporary)
        # Python's tempfile tries a folder with a file of four bytes.
        made = [path for path in self.temporary.iterdir() if path.is_dir() or path.stat().st_size > 4]
        yield from (f"left: {path}" for path in made)
        # The server of workers ends by itself, just after its run.
        if not wait_until(lambda: not self.processes(), 30):
            yield f"processes are left: {self.processes()}"
        if self.files("baselines") != self.baselines:
            yield "the baselines changed"
        if self.waiting() != self.proposals:
            yield "other proposals"
        if git(self.project, "worktree", "list").count("\n"):
            yield "a worktree is left"


def send(how, running):
    """Send the signal of a kill to its process; without a worker or a server there is none to send."""
    if how in ("kill_worker", "kill_server"):
        wait_until(lambda: workers_of(running.pid) or running.poll() is not None)
        found = (workers_of if how == "kill_worker" else servers_of)(running.pid)
        # A worker may have just ended: a case of this suite ends its own.
        with suppress(ProcessLookupError):
            for pid in found[:1]:
                os.kill(pid, signal.SIGKILL)
        return
    number = {"term": signal.SIGTERM, "interrupt": signal.SIGINT}.get(how, signal.SIGKILL)
    if running.poll() is None:
        (os.killpg if how == "kill_group" else os.kill)(running.pid, number)


def kills(number, seed=0):
    """Yield so many kills: a third at the writes in turn, the others at lines of the journal and at random times."""
    choose = random.Random(seed)
    for index in range(number):
        if index % 3 == 0:
            yield Kill(choose.choice(["kill", "kill_group"]), "write", 1 + index // 3)
        elif index % 3 == 1:
            yield Kill(choose.choice(HOWS), "line", choose.randint(1, 16))
        else:
            yield Kill(choose.choice(HOWS), "time", choose.uniform(0.05, 2.0))


def main(number):
    counts, bad = Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        killed = Killed(Path(folder))
        for kill in kills(number, seed=number):
            problems = killed.check(kill)
            counts[kill.how, kill.moment] += 1
            bad += bool(problems)
            for problem in problems:
                print(kill, problem, flush=True)
    for (how, moment), count in sorted(counts.items()):
        print(f"{how:12} {moment:6} {count}")
    print(f"{number} kills, {bad} with problems")


if __name__ == "__main__":
    main(int(sys.argv[1]))
