"""How does a shell run a command in a fork of the server? Its `precreg` is this client, which starts in milliseconds.

`python -IS fork_client.py SOCKET PATIENCE [-P] MODULE ARGUMENTS...` runs `python [-P] -m MODULE ARGUMENTS...` in a
fork, with the standard streams, the folder and the variables of the client, and ends with its exit code.
"""

import json
import os
import socket
import sys

# Python and libraries read these as they start and load, which the server did before: the command gets an interpreter.
_READ_AT_START = ("ATEN_", "NPY_", "OPENBLAS_CORETYPE", "PYTHON")
# PYTHONUNBUFFERED changes only when a text is written, and many machines set it for all processes.
_MAY_DIFFER = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")


def _may_fork():
    return not any(name.startswith(_READ_AT_START) and name not in _MAY_DIFFER for name in os.environ)


def main(place, patience, *words):
    """Run the command, and return its exit code."""
    if not _may_fork():
        safe = words[0] == "-P"
        os.execv(sys.executable, [sys.executable, *words[:safe], "-m", *words[safe:]])
    request = json.dumps([words, os.getcwd(), dict(os.environ), int(patience)]).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(place)
        socket.send_fds(server, [request], [1, 2, 0])
        answer = server.recv(16)
    if not answer:
        sys.exit("the server of commands has ended, and printed why to stderr")
    # A shell reports a signal so.
    return int(answer) if int(answer) >= 0 else 128 - int(answer)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
