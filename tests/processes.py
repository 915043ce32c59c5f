"""Processes, as the system shows them to a test."""

import os
import time

from tests.e2e.command import PATIENCE_S


def is_alive(pid):
    """Say whether a process runs; one that is dead and only waits for its parent to notice does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent_of(pid):
    """Return the id of a process's parent, and None for a process that is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def children_of(pid):
    """Return the ids of the living children of a process."""
    return [int(each) for each in os.listdir("/proc") if each.isdigit() and parent_of(each) == pid and is_alive(each)]


def workers_of(pid):
    """Return the processes that run cases for the parent: those that its fork server forked."""
    return [worker for server in servers_of(pid) for worker in children_of(server)]


def servers_of(pid):
    """Return the fork server of a process: the child of the keeper that it started."""
    return [server for keeper in children_of(pid) for server in children_of(keeper)]


def processes_with(mark):
    """Return the living processes with a text in their environment, for instance that of a test."""
    return [int(each) for each in os.listdir("/proc") if each.isdigit() and is_alive(each) and _has(each, mark)]


def _has(pid, mark):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark.encode() in file.read()
    except OSError:
        return False


def processes_in(folder):
    """Return the living processes whose current folder is this one, or was: a fork has no environment of its own."""
    return [int(each) for each in os.listdir("/proc") if each.isdigit() and is_alive(each) and _is_in(each, folder)]


def _is_in(pid, folder):
    try:
        return os.readlink(f"/proc/{pid}/cwd").partition(" (deleted)")[0] == os.path.realpath(folder)
    except OSError:
        return False


def wait_until(condition, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()
