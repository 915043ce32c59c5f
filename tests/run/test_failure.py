import pytest

from precreg.errors import UserError
from precreg.subject.surroundings import (
    DETAIL_LENGTH,
    MESSAGE_LENGTH,
    CaseFailed,
    add_printed_output,
    blame_failures,
    describe_failure,
)
from precreg.types.outcome import Execution, Failure, Outcome
from precreg.types.verdict import Reason


def failure_of(error):
    with pytest.raises(CaseFailed) as caught, blame_failures(Reason.SUBJECT_ERROR):
        raise error
    return caught.value.failure


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("two\n  lines"), "ValueError: two lines"),
        (KeyError("x"), "KeyError: 'x'"),
        (StopIteration(), "StopIteration"),
        (SystemExit(3), "exited with 3"),
        (SystemExit(), "exited with 0"),
        (SystemExit("no licence"), "exited with no licence"),
        (UserError("missing-module", "expected a module"), "expected a module"),
    ],
)
def test_an_exception_is_one_line(error, message):
    failure = failure_of(error)
    assert (failure.reason, failure.message) == (Reason.SUBJECT_ERROR, message)


def test_notes_follow_the_message():
    error = ValueError("wrong")
    error.add_note("first\nnote")
    error.add_note("second")
    assert failure_of(error).message == "ValueError: wrong; first note; second"


def test_a_syntax_error_is_named_by_its_message():
    with pytest.raises(SyntaxError) as caught:
        compile("def f(:", "user.py", "exec")
    assert failure_of(caught.value).message == "SyntaxError: invalid syntax"


def test_what_no_record_could_hold_is_written_out():
    assert failure_of(ValueError("\udcff")).message == "ValueError: \\udcff"


def test_what_is_long_is_cut():
    failure = failure_of(ValueError("x" * 10**6))
    assert len(failure.message) == MESSAGE_LENGTH
    assert len(failure.detail) == DETAIL_LENGTH


def test_the_cause_is_told_too():
    def fails():
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    with pytest.raises(ValueError, match="outer") as caught:
        fails()
    assert "KeyError: 'inner'" in describe_failure(caught.value, Reason.REFERENCE_ERROR).detail


def test_an_interrupt_is_no_failure_of_a_subject():
    with pytest.raises(KeyboardInterrupt), blame_failures(Reason.SUBJECT_ERROR):
        raise KeyboardInterrupt


def test_what_was_printed_stands_after_the_traceback():
    failed = Outcome("c", "1:d", Execution(failure=Failure(Reason.SUBJECT_ERROR, "m", "traceback\n")))
    assert add_printed_output(failed, "said").execution.failure.detail == "traceback\nprinted:\nsaid"
    assert add_printed_output(failed, "") is failed


def test_what_a_case_printed_that_did_not_fail_is_dropped():
    passed = Outcome("c", "1:d", Execution())
    assert add_printed_output(passed, "said") is passed
