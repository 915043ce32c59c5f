"""The start and the end of a program's process."""

import signal

import pytest

from precreg.subject.command import process
from precreg.subject.command.process import run_program


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("own_group", [True, False])
def test_a_signal_during_the_start_of_a_program_ends_the_program(tmp_path, monkeypatch, number, own_group):
    """The program runs before Popen returns, so a signal may come before there is an object to end it with."""
    programs = []

    def start(*arguments, **options):
        programs.append(popen(*arguments, **options))
        signal.raise_signal(number)
        return programs[0]

    def end(number, _frame):
        raise SystemExit(128 + number)

    popen = process.Popen
    monkeypatch.setattr(process, "Popen", start)
    before = signal.signal(number, end)
    try:
        with pytest.raises(SystemExit) as found:
            run_program(["sleep", "1000"], tmp_path, {}, own_group=own_group)
        assert signal.getsignal(number) is end
    finally:
        signal.signal(number, before)
    assert found.value.code == 128 + number
    assert programs[0].returncode == -signal.SIGKILL
