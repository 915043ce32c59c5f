"""Signals wait until a block has ended."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from precreg.subject.signals import defer_signals


def test_an_interrupt_waits_until_the_worker_is_known():
    done = []

    def interrupted():
        with defer_signals(signal.SIGINT):
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_an_interrupt_none_is_raised():
    with defer_signals(signal.SIGINT):
        pass


def test_an_interrupt_is_not_lost_behind_an_error():
    def interrupted():
        with defer_signals(signal.SIGINT):
            signal.raise_signal(signal.SIGINT)
            raise OSError

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_a_signal_that_the_program_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with defer_signals(signal.SIGINT, signal.SIGHUP):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_sets_no_handler():
    def handler():
        with defer_signals(signal.SIGINT):
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(handler).result() is signal.default_int_handler
