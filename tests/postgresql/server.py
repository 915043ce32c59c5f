"""A PostgreSQL server for the tests: files in a temporary folder, a free port of this machine, a user and password."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import psycopg

USER, PASSWORD = "monitor", "open sesame/%"
NOBODY = 65534


class Server:
    """A server that runs from `start` to `stop`. PostgreSQL refuses to run as root, so there it runs as nobody."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.as_user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]

    def start(self):
        if self.as_user:
            os.chown(self.folder, NOBODY, NOBODY)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        data = self.folder / "data"
        self._run("initdb", "-D", data, "-U", USER, "--auth=scram-sha-256", f"--pwfile={secret}", "-N", "-E", "UTF8")
        # a server that is thrown away need not outlast a power cut
        settings = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run("pg_ctl", "-D", data, "-w", "-l", self.folder / "log", "-o", settings, "start")

    def stop(self):
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")

    def execute(self, statement):
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(statement)

    def dsn(self):
        return f"host=127.0.0.1 port={self.port} user={USER} password='{PASSWORD}' dbname=postgres"

    def _run(self, program, *arguments):
        command = [_bin() / program, *map(str, arguments)]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        # into files: pg_ctl's server would hold a pipe open for as long as it runs
        with (self.folder / "output").open("w+b") as output:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, stdout=output, stderr=output, check=False, **self.as_user
            )
        assert done.returncode == 0, (self.folder / "output").read_text()


def _bin():
    """Return the folder of the server's programs, which Debian keeps off the PATH."""
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
