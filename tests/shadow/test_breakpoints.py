"""Breakpoints: what is refused, which operation stops, and what the debugger has at hand in the user's frame."""

import io
import re
import sys

import numpy as np
import pytest

import precreg
from precreg.errors import UserError
from precreg.shadow.breakpoints import parse_break
from precreg.types import ErrorSize, Operation, Site


def operation(**fields):
    given = {"number": 1, "name": "add", "engine": "numpy", "site": Site(), "dtype": "float16", "shape": (2,)}
    return Operation(**{**given, **fields})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("eror > 4 ulp", 'did you mean "error"?'),
        ("error < 4", "expected > or >="),
        ("error == 4", "expected > or >="),
        ("error > four", "a number of at least 0 but got 'four'"),
        ("error > -1", "a number of at least 0"),
        ("error > nan", "a number of at least 0"),
        ("error > inf", "a number of at least 0"),
        ("error > 4 bits", "the unit ulp or none"),
        ("error > 4 %", "the unit ulp or none"),
        ("lost_bits > 4 ulp", "no unit"),
        ("error >", "FIGURE > NUMBER"),
        ("> 4", "FIGURE > NUMBER"),
        ("error > 4 ulp or nan", "FIGURE > NUMBER"),
        ("", "an operation, FILE:LINE"),
        ("a;b", "an operation, FILE:LINE"),
    ],
)
def test_a_breakpoint_that_cannot_be_read_is_refused(text, expected):
    with pytest.raises(UserError, match=re.escape(expected)) as caught:
        parse_break(text)
    assert caught.value.slug == "bad-watch"
    assert "--break" in caught.value.message or "did you mean" in caught.value.message


@pytest.mark.parametrize(
    ("text", "own", "holds"),
    [
        ("own > 1e-3", ErrorSize(1.1e-3), True),
        ("own > 1e-3", ErrorSize(1e-3), False),
        ("own >= 1e-3", ErrorSize(1e-3), True),
        ("OWN>0.001", ErrorSize(1.1e-3), True),
        # eps of float16 is 2^-10.
        ("own > 4 ulp", ErrorSize(4.1 * 2.0**-10), True),
        ("own > 4 ulp", ErrorSize(3.9 * 2.0**-10), False),
        ("own > 4ulp", ErrorSize(0.0, max_ulp=5.0), True),
        ("own > 4 ulp", ErrorSize(1.0, max_ulp=3.0), False),
        ("own > 1e9", ErrorSize(float("inf")), True),
        ("own > 0", None, False),
    ],
)
def test_a_condition_holds_beyond_its_limit(text, own, holds):
    assert parse_break(text).condition.holds(operation(own=own)) is holds


@pytest.mark.parametrize("figure", ["error", "total"])
def test_error_is_the_total_error(figure):
    condition = parse_break(f"{figure} > 0.5").condition
    assert condition.holds(operation(total=ErrorSize(1.0)))
    assert not condition.holds(operation(own=ErrorSize(1.0)))


def test_amplification_and_lost_bits_are_plain_numbers():
    assert parse_break("amplification > 100").condition.holds(operation(amplification=101.0))
    assert parse_break("lost_bits >= 10").condition.holds(operation(lost_bits=10.0))
    assert not parse_break("lost_bits > 10").condition.holds(operation())


def stopped(monkeypatch, capsys, commands, function, *breaks):
    """Trace a function with breakpoints, and return what the debugger printed when it got these commands."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{command}\n" for command in commands)))
    with precreg.trace(breaks=breaks) as t:
        function(t)
    return capsys.readouterr().out, t.trace


def variance(t):
    x = t.array(np.float16([1, 2, 4]))
    mean = x.mean()
    centred = x - mean
    return centred * centred


@pytest.mark.parametrize("place", ["subtract", "sub*", f"test_breakpoints.py:{variance.__code__.co_firstlineno + 3}"])
def test_the_debugger_opens_at_the_users_line_with_all_values(monkeypatch, capsys, place):
    commands = [
        "p operation.name, operation.number",
        "p actual.tolist()",
        "p [round(float(each), 4) for each in exact]",
        "p own_exact.dtype",
        "p float(mean)",
        "c",
    ]
    printed, trace = stopped(monkeypatch, capsys, commands, variance, place)
    assert printed.count("break at") == 1
    assert "test_breakpoints.py" in printed
    assert "-> centred = x - mean" in printed
    assert "('subtract', 2)" in printed
    assert "[-1.333984375, -0.333984375, 1.666015625]" in printed
    assert "[-1.3333, -0.3333, 1.6667]" in printed
    assert "dtype('float64')" in printed
    assert len(trace.operations) == 3


def test_next_goes_on_line_by_line_in_the_users_code(monkeypatch, capsys):
    printed, trace = stopped(monkeypatch, capsys, ["n", "p centred.shape", "n", "c"], variance, "subtract")
    assert "-> return centred * centred" in printed
    assert "(3,)" in printed
    assert len(trace.operations) == 3


def own_names(t):
    actual = t.array(np.float16([1, 2]))
    exact = "mine"
    result = actual + np.float16(1)
    assert exact == "mine"
    return result, set(locals())


def test_names_of_the_frame_itself_are_not_hidden_and_none_is_left(monkeypatch, capsys):
    left = []
    commands = ["p exact", "p exact_.tolist()", "p operation.name", "c"]
    printed, _ = stopped(monkeypatch, capsys, commands, lambda t: left.append(own_names(t)[1]), "add")
    assert "names here: actual_, exact_, own_exact, operation" in printed
    assert all(text in printed for text in ("'mine'", "[2.0, 3.0]", "'add'"))
    # pytest has names of its own there.
    assert [{name for name in names if not name.startswith("@")} for names in left] == [
        {"t", "actual", "exact", "result"}
    ]


def test_expressions_of_the_debugger_are_not_part_of_the_trace(monkeypatch, capsys):
    _, trace = stopped(monkeypatch, capsys, ["p (x + x).shape, float(mean)", "c"], variance, "subtract")
    assert [each.name for each in trace.operations] == ["mean", "subtract", "multiply"]
    assert trace.events == ()


@pytest.mark.parametrize("commands", [["q"], []])
def test_leaving_the_debugger_interrupts(monkeypatch, capsys, commands):
    with pytest.raises(KeyboardInterrupt):
        stopped(monkeypatch, capsys, commands, variance, "subtract")
    with precreg.trace():
        pass


def overflowing(t):
    x = t.array(np.float16([60000, 1]))
    doubled = x + x
    return doubled - doubled


@pytest.mark.parametrize(("special", "line"), [("inf", "doubled = x + x"), ("nan", "return doubled - doubled")])
def test_the_first_infinity_and_nan_stop(monkeypatch, capsys, special, line):
    with np.errstate(all="ignore"):
        printed, _ = stopped(monkeypatch, capsys, ["c", "c"], overflowing, special)
    assert f"-> {line}" in printed.partition("(Pdb)")[0]


def test_a_condition_stops_at_the_first_operation_beyond_it(monkeypatch, capsys):
    def rounded(t):
        x = t.array(np.float32([1, 3]))
        y = x / np.float32(3)
        return y.astype(np.float16)

    printed, _ = stopped(monkeypatch, capsys, ["p operation.name", "c"], rounded, "error > 100 ulp")
    assert "break at" not in printed
    printed, _ = stopped(monkeypatch, capsys, ["p operation.name", "c"], rounded, "error > 1e-5")
    assert "'astype'" in printed


def test_a_breakpoint_that_never_stopped_is_in_the_trace(monkeypatch, capsys):
    _, trace = stopped(monkeypatch, capsys, [], variance, "matmul", "own > 1")
    assert [each.text for each in trace.unmatched] == ["matmul", "own > 1"]
