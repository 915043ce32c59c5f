"""Subjects that attack the processes around them; copied into the project of a test."""

import gc
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
from msgspec import msgpack

from precreg.run.workers.channel import WorkerConnection

MARK = b"\xc1prc"


def same(x, **params):
    return x


def connection():
    """Return the descriptor of this worker's connection; its other sockets lead to the process of references."""
    (found,) = [each for each in gc.get_objects() if isinstance(each, WorkerConnection)]
    return found._descriptor


def open_descriptors():
    return [int(each) for each in os.listdir("/proc/self/fd") if int(each) > 2 and is_open(int(each))]


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def write(content):
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(connection(), rest) :]


def send(content, length=None):
    write(MARK + struct.pack("<I", len(content) if length is None else length) + content)


def answer(**fields):
    return b"\0" + msgpack.encode({"case": "unit/s/bad", "definition": "1:bad", "execution": {}} | fields)


def wait():
    while True:
        time.sleep(1000)


def length_without_a_message(x):
    send(b"", 1000)
    wait()


def length_without_a_message_and_on(x):
    send(b"", 100_000)
    return x


def half_a_header(x):
    write(MARK + b"\1")
    wait()


def one_byte_at_a_time(x):
    write(MARK + struct.pack("<I", 2**27))
    while True:
        write(b"x")


def huge_length(x):
    send(b"", 2**32 - 1)
    wait()


def garbage(x):
    write(np.random.default_rng(7).bytes(1000))
    wait()


def text(x):
    write(b"Warning: something is deprecated\n")
    return x


def zeros(x):
    write(bytes(100))
    return x


def ready_again(x):
    send(b"")
    return x


def another_shape(x):
    send(b"\0" + msgpack.encode({"case": 7, "execution": [1, 2]}))
    return x


def no_msgpack(x):
    send(b"\0" + b"\xc1" * 50)
    return x


def very_deep(x):
    send(b"\0" + b"\x91" * 100_000)
    return x


def surrogates(x):
    send(b"\0\x81\xa4case\xa3\xed\xa0\x80")
    return x


def huge_array(x):
    send(b"\0\xdd\xff\xff\xff\xff")
    return x


def no_kind(x):
    send(b"\7" + answer()[1:])
    return x


def answer_of_another(x):
    send(answer(case="unit/s/other"))
    return x


def flood(x):
    while True:
        write(bytes(2**20))


def flood_of_messages(x):
    while True:
        send(answer(case="unit/s/other"))


def flood_of_a_thread(x):
    threading.Thread(target=flood, args=(x,), daemon=True).start()
    wait()


def closes_its_connection(x):
    os.close(connection())
    wait()


def shuts_its_connection_down(x):
    socket.socket(fileno=connection()).shutdown(socket.SHUT_RDWR)
    wait()


def closes_every_descriptor(x):
    os.closerange(3, 256)
    wait()


def junk_to_every_descriptor(x):
    for each in open_descriptors():
        with suppress(OSError):
            os.write(each, b"\xffjunk" * 100)
    return x


def numbers_to_every_descriptor(x):
    for each in open_descriptors():
        with suppress(OSError):
            os.write(each, struct.pack("<q", 0) * 10)
    return x


def truncates_every_descriptor(x):
    for each in open_descriptors():
        with suppress(OSError):
            os.ftruncate(each, 0)
    os.kill(os.getpid(), signal.SIGKILL)


def stops(x):
    os.kill(os.getpid(), signal.SIGSTOP)


def stops_its_group(x):
    os.killpg(0, signal.SIGSTOP)


def stops_the_server(x):
    os.kill(os.getppid(), signal.SIGSTOP)
    wait()


def stops_the_server_and_dies(x):
    os.kill(os.getppid(), signal.SIGSTOP)
    os._exit(9)


def kills_the_server(x):
    os.kill(os.getppid(), signal.SIGKILL)
    wait()


def ends_the_server(x):
    os.kill(os.getppid(), signal.SIGTERM)
    wait()


def ignores_children(x):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


SLEEPER = "import os, sys, time; os.environ['HOSTILE']; time.sleep(1000)"


def daemon(x, file):
    """Fork twice and start a session between, as a daemon does; the daemon ignores what it can."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            _wait_with_pid(file)
        os._exit(0)
    os.wait()
    return _when_written(x, file)


def new_session(x, file):
    subprocess.Popen([sys.executable, "-c", SLEEPER], start_new_session=True, env={**os.environ, "HOSTILE": "1"})
    return x


def session_that_hangs(x, file):
    if os.fork() == 0:
        os.setsid()
        _wait_with_pid(file)
    _when_written(x, file)
    wait()


def session_that_dies(x, file):
    if os.fork() == 0:
        os.setsid()
        _wait_with_pid(file)
    _when_written(x, file)
    os._exit(4)


def generations(x, file):
    """Leave a line of processes, each in a session of its own."""
    if os.fork() == 0:
        for _ in range(5):
            os.setsid()
            if os.fork() != 0:
                wait()
        _wait_with_pid(file)
    return _when_written(x, file)


def generations_without_a_server(x, file):
    generations(x, file)
    kills_the_server(x)


def moves_to_a_group(x, file):
    if os.fork() == 0:
        os.setpgid(0, 0)
        _wait_with_pid(file)
    return _when_written(x, file)


def shell_in_background(x, file):
    subprocess.run(["sh", "-c", f"setsid sleep 1000 & echo $! > {file}"], check=True)
    return x


def _wait_with_pid(file):
    with open(f"{file}.tmp", "w") as stream:
        json.dump(os.getpid(), stream)
    os.rename(f"{file}.tmp", file)
    wait()


def _when_written(x, file):
    while not os.path.exists(file):
        time.sleep(0.001)
    return x
