"""Oracles in a process of their own: the same arrays, nothing of the subject, and failures that cost one case."""

import itertools
import socket
import threading
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from precreg.run.oracle_calls import MAX_AHEAD_BYTES, OracleCall
from precreg.run.oracle_process import OracleProcess, _receive, _send
from precreg.run.promotion import promote_inputs
from precreg.run.workers.pool import run_in_workers
from precreg.run.workers.worker import CaseTask, run_in_process
from precreg.subject.call import Outputs
from precreg.subject.stage import Activity
from precreg.subject.surroundings import CaseFailed
from precreg.types.case import Computation, ReferenceDtype
from precreg.types.verdict import Reason

CHAIN = ("cpu-x86_64", "cpu", "generic")


@pytest.fixture
def run(project):
    def run(cases):
        outcomes = {outcome.case: outcome for outcome in run_in_workers(cases, CaseTask(project, CHAIN), 1)}
        return [outcomes[case.id].execution for case in cases]

    return run


def sent_and_received(arrays):
    """Send arrays through a pair of sockets, and return them as the other end has them."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=_send, args=(ours, "message", [arrays]))
        sender.start()
        message, (received,) = _receive(theirs)
        sender.join()
    assert message == "message"
    return received


CUBE = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "array",
    [
        np.float64(3.5).reshape(()),
        np.zeros((0, 3)),
        np.zeros((3, 0), order="F"),
        CUBE,
        np.asfortranarray(CUBE),
        CUBE.transpose(1, 0, 2),
        CUBE.transpose(2, 0, 1),
        CUBE[:, ::-1, ::2],
        np.broadcast_to(np.arange(4.0), (3, 4)),
        CUBE.astype(ml_dtypes.bfloat16),
        CUBE.astype(ml_dtypes.float8_e4m3fn).transpose(2, 1, 0),
        CUBE.astype(np.longdouble) / 3,
        CUBE * 1j,
        CUBE > 3,
        CUBE.astype(">f8"),
        np.random.default_rng(0).random((300, 400)),
        np.random.default_rng(0).random((300, 400)).T,
    ],
    ids=lambda array: f"{array.dtype}-{array.shape}-{array.strides}",
)
def test_an_array_keeps_its_bits_and_the_order_of_its_elements_in_memory(array):
    (received,) = sent_and_received({"x": array}).values()
    assert (received.dtype, received.shape) == (array.dtype, array.shape)
    assert received.tobytes() == array.tobytes()
    # Sums depend on the order in memory, of which a copy keeps all that counts.
    assert received.copy("K").strides == array.copy("K").strides
    assert received.flags.writeable


def test_outputs_keep_their_names_and_their_order():
    assert [*sent_and_received({"b": CUBE, "a": np.zeros(3), "": np.zeros(10**5)})] == ["b", "a", ""]


def test_an_oracle_has_a_process_of_its_own_in_workers_alone(run, case, project):
    (apart,) = run([case("process_id", "process_id", name="a")])
    task = CaseTask(project, CHAIN)
    (beside,) = [each.execution for each in run_in_process([case("process_id", "process_id", name="a")], task)]
    assert apart.outputs["out"] != apart.oracle
    assert apart.oracle_files == ("suites/unit/kernels.py",)
    assert beside.oracle_files == (), "nobody notes the files of a process that has run other code"


def test_a_subject_changes_nothing_of_its_oracle(run, case):
    alone, patched = run(
        [case("double", "mean_by_numpy", name="a"), case("patches_the_mean", "mean_by_numpy", name="b")]
    )
    assert alone.failure is patched.failure is None
    assert patched.oracle == alone.oracle


def test_the_files_of_an_oracle_have_names_that_its_code_makes(run, case, project):
    (project / "suites/unit/table.txt").write_text("2")
    params = {"table": "table.txt"}
    (execution,) = run([case("reads_its_table", "reads_its_table", params=params)])
    assert execution.oracle_files == ("suites/unit/kernels.py", "suites/unit/table.txt")


@pytest.mark.parametrize(
    ("reference", "reason", "message"),
    [
        ("raises", Reason.REFERENCE_ERROR, "ValueError: not like this"),
        ("exits", Reason.REFERENCE_ERROR, "exited with 3"),
        ("returns_none", Reason.REFERENCE_ERROR, "expected an array but got None for output out"),
        ("exits_at_once", Reason.REFERENCE_ERROR, "its process exited with code 5"),
        ("is_killed", Reason.REFERENCE_ERROR, "its process was killed by SIGKILL"),
        ("segfaults", Reason.REFERENCE_ERROR, "its process was killed by SIGSEGV"),
        ("hangs", Reason.TIMED_OUT, "exceeded its timeout of 1 s"),
        ("writes_into_all_sockets", Reason.REFERENCE_ERROR, "answered with something else than arrays"),
    ],
)
def test_an_oracle_that_goes_wrong_costs_its_own_case(run, case, reference, reason, message):
    cases = [case(name="before"), case(reference=reference, name="bad", timeout_s=1.0), case(name="after")]
    before, bad, after = run(cases)
    assert bad.failure.reason is reason
    assert bad.failure.message.startswith(message)
    assert before.failure is after.failure is None
    assert before.oracle == after.oracle


def test_the_text_that_an_oracle_prints_is_a_part_of_its_failure(run, case):
    (execution,) = run([case(reference="raises")])
    assert "shortly before" in execution.failure.detail


def test_oracles_of_more_modules_than_children_stay_are_all_served(project, case):
    for number in range(7):
        (project / "suites/unit" / f"ref{number}.py").write_text(f"def f(x):\n    return x * {number}\n")
    cases = [
        case(name=f"{again}-{number}", oracle=case().oracle.__class__("python", f"ref{number}:f"))
        for again in range(2)
        for number in range(7)
    ]
    outcomes = {each.case: each.execution for each in run_in_workers(cases, CaseTask(project, CHAIN), 1)}
    found = [outcomes[each.id] for each in cases]
    assert [each.failure for each in found] == [None] * 14
    assert [each.oracle for each in found[:7]] == [each.oracle for each in found[7:]]
    assert found[3].oracle_files == ("suites/unit/ref3.py",)


def test_a_lost_process_is_noticed():
    process = OracleProcess(lambda _call, _place, arrays: Outputs(arrays, 0.0))
    call = OracleCall(Computation("python", "one:f"), Activity.REFERENCE, (0,), {}, Path("/"), Path("/"))
    assert process.call(call, [{"x": CUBE}]).outputs[0]["x"].tolist() == CUBE.tolist()
    assert not process.is_lost
    process._control.close()
    with pytest.raises(CaseFailed, match="the process that runs references was ended"):
        process.call(call._replace(oracle=Computation("python", "other:f")), [])
    assert process.is_lost


def numbered_calls(number, **fields):
    """Return calls of one oracle, each with one input."""
    call = OracleCall(Computation("python", "one:f"), Activity.REFERENCE, (0,), {}, Path("/"), Path("/"))
    return [(call._replace(case=f"case-{place}", **fields), [{"x": CUBE + place}]) for place in range(number)]


def count_in_child():
    """Make a process whose child counts its calls: the output of a call is its number."""
    numbers = itertools.count()
    return OracleProcess(lambda _call, _place, _arrays: Outputs({"n": np.array(next(numbers))}, 0.0))


def asked(process, call, following=tuple):
    return int(process.call(*call, following).outputs[0]["n"])


def test_a_quick_oracle_runs_ahead_of_its_cases(monkeypatch):
    monkeypatch.setattr("precreg.run.oracle_process._QUICK_S", 60.0)
    process, calls = count_in_child(), numbered_calls(8)
    # The first call imports, and the second one shows how long a call takes.
    assert [asked(process, each, lambda: calls[2:]) for each in calls[:2]] == [0, 1]
    assert asked(process, calls[2], lambda: calls[3:]) == 2
    assert [asked(process, calls[place]) for place in (7, 3, 4)] == [7, 3, 4]
    # A case with other inputs gets no reply for the drawn ones, and from then on each call is sent by itself.
    other = calls[5][0], [{"x": -CUBE}]
    assert asked(process, other) == 8
    assert asked(process, calls[6]) == 6
    assert asked(process, numbered_calls(12)[9], lambda: numbered_calls(12)[10:]) == 9
    assert asked(process, numbered_calls(12)[11]) == 10


def test_a_slow_oracle_runs_for_one_case_at_a_time(monkeypatch):
    monkeypatch.setattr("precreg.run.oracle_process._QUICK_S", 0.0)
    process, calls = count_in_child(), numbered_calls(6)
    found = [asked(process, each, lambda: calls[3:]) for each in calls[:3]]
    assert [*found, asked(process, calls[5])] == [0, 1, 2, 3]


def test_large_outputs_do_not_wait_for_their_cases(monkeypatch):
    monkeypatch.setattr("precreg.run.oracle_process._QUICK_S", 60.0)
    numbers = itertools.count()

    def compute(_call, _place, _arrays):
        return Outputs({"n": np.full(MAX_AHEAD_BYTES, next(numbers), np.uint16)}, 0.0)

    process, calls = OracleProcess(compute), numbered_calls(8)
    found = [int(process.call(*each, lambda: calls[3:]).outputs[0]["n"][0]) for each in calls[:4]]
    # The third call was the first of several, and its child computed no other. The next child counts from 0 on.
    assert found == [0, 1, 2, 0]


def test_the_calls_of_several_cases_that_take_long_run_one_by_one(monkeypatch):
    monkeypatch.setattr("precreg.run.oracle_process._QUICK_S", 60.0)
    monkeypatch.setattr("precreg.run.oracle_process.AHEAD_PATIENCE_S", 0.2)

    def hang(call, _place, _arrays):
        if call.case == "case-5":
            time.sleep(600)
        return Outputs({"n": np.array(int(call.case[-1]))}, 0.0)

    process, calls = OracleProcess(hang), numbered_calls(8)
    found = [asked(process, each, lambda: calls[3:]) for each in calls[:3]]
    assert [*found, asked(process, calls[4]), asked(process, calls[6])] == [0, 1, 2, 4, 6]


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("raise", Reason.REFERENCE_ERROR),
        ("exit", Reason.REFERENCE_ERROR),
        ("hang", Reason.TIMED_OUT),
        ("print", None),
        ("patch", None),
    ],
)
def test_an_oracle_that_goes_wrong_ahead_of_its_case_costs_no_other_case(run, case, order, reason):
    def cases(orders):
        names = ("double_in_any_case", "obeys")
        return [case(*names, name=f"{at:02}", params={"order": each}, timeout_s=5.0) for at, each in enumerate(orders)]

    alone, found = run(cases([""])), run(cases([*[""] * 17, order, *[""] * 30]))
    bad = found.pop(17)
    assert {each.failure for each in found} == {None}
    assert {each.left for each in found} == {()}
    if reason is None:
        assert bad.failure is None
        assert [change.names for change in bad.left] == ([("numpy.mean",)] if order == "patch" else [])
    else:
        assert bad.failure.reason is reason
        # A lost child runs a call once more, because an earlier case may have broken it.
        assert bad.failure.detail.count("got the order") == (2 if order == "exit" else 1)
    assert {each.oracle_files for each in found} == {alone[0].oracle_files}


def test_oracles_that_run_ahead_give_the_bits_of_the_process_of_the_command(run, case, project):
    cases = [case(name=f"{number:02}", seeds=1 + number % 3, dtype="float32") for number in range(40)]
    beside = [each.execution for each in run_in_process(cases, CaseTask(project, CHAIN))]
    apart = run(cases)
    assert [(each.inputs, each.outputs, each.oracle) for each in apart] == [
        (each.inputs, each.outputs, each.oracle) for each in beside
    ]


def test_a_child_of_a_subject_reaches_no_reference_of_another_case(run, case):
    cases = [
        case("double", "double", name="a"),
        case("forks_a_child_that_writes_into_all_sockets", "mean_by_numpy", name="b"),
        case("double", "double", name="c"),
    ]
    first, forking, last = run(cases)
    assert (first.failure, last.failure) == (None, None)
    assert forking.failure is None


def test_a_broken_reply_of_a_reference_costs_its_own_case(run, case):
    broken = ("double", "answers_with_a_length_without_end")
    first, again, last = run([case(*broken, name="a"), case(*broken, name="b"), case("double", "double", name="c")])
    assert [each.failure.reason for each in (first, again)] == [Reason.REFERENCE_ERROR] * 2
    assert last.failure is None


@pytest.mark.parametrize(
    ("dtype", "widest", "expected"),
    [
        ("float32", "longdouble", "float64"),
        ("float32", "float64", "float64"),
        ("float64", "longdouble", "longdouble"),
        ("float64", "float64", "float64"),
        ("complex64", "float64", "complex128"),
        ("complex128", "float64", "complex128"),
        ("complex128", "longdouble", "clongdouble"),
        ("longdouble", "float64", "longdouble"),
        ("clongdouble", "float64", "clongdouble"),
        ("int32", "float64", "int32"),
    ],
)
def test_a_kind_may_limit_the_inputs_of_its_references(dtype, widest, expected):
    promoted = promote_inputs({"x": np.ones(1, dtype)}, ReferenceDtype(widest), narrow_too=False)
    assert promoted["x"].dtype == np.dtype(expected)
