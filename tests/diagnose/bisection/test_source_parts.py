"""Parts of a change: undoing all of them gives the good code, whatever changed, and each names its place."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precreg.diagnose.bisection.source_parts import (
    edited,
    functions_changed,
    lines_changed,
    operations_of,
    statements_of,
)

GOOD = '''\
import math

SCALE = 2.0


def mean(values):
    """Mean of values."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


class Norm:
    eps = 1e-5

    def of(self, values, power=2):
        centre = mean(values)
        # The second moment.
        spread = mean([(value - centre) ** power for value in values])
        return math.sqrt(spread + self.eps)
'''


def parts_of(bad, good=GOOD, name="a.py"):
    return functions_changed({name: name}, {name: good.encode()}, {name: bad.encode()}, {name})


def undone(bad, parts):
    """Return the syntax of the bad source with parts undone."""
    return ast.dump(ast.parse(edited(bad.encode(), parts)))


def behaviour(source, values=(1.0, 2.5, 4.0)):
    """Return the results of whatever the module defines under these names."""
    space = {}
    exec(compile(source, "a", "exec"), space)
    return [space["SCALE"], space["mean"](values), space["Norm"]().of(values)]


EDITS = {
    "an operation": ("total / len(values)", "total * (1 / len(values))"),
    "a constant": ("SCALE = 2.0", "SCALE = 3.0"),
    "a class attribute": ("eps = 1e-5", "eps = 1e-3"),
    "a default": ("power=2", "power=3"),
    "a statement more": ("    centre = mean(values)\n", "    centre = mean(values)\n        centre = round(centre)\n"),
    "a statement less": ("        total += value\n", "        total += value\n        total *= 1.5\n"),
    "an inner statement": ("total += value", "total += round(value)"),
    "two statements for one": ("        centre = mean(values)\n", "        low = min(values)\n        centre = low\n"),
    "a call": ("math.sqrt(spread", "math.exp(spread"),
}


@pytest.mark.parametrize("kind", EDITS)
def test_undoing_every_function_and_statement_gives_the_good_code(kind):
    before, after = EDITS[kind]
    assert GOOD.count(before) == 1
    bad = GOOD.replace(before, after)
    parts = parts_of(bad)
    assert parts
    assert undone(bad, parts) == ast.dump(ast.parse(GOOD))
    finer = [statement for part in parts for statement in (statements_of(part) or [part])]
    assert behaviour(edited(bad.encode(), finer)) == behaviour(GOOD)
    finest = [operation for part in finer for operation in (operations_of(part) or [part])]
    assert behaviour(edited(bad.encode(), finest)) == behaviour(GOOD)


@given(st.lists(st.sampled_from(sorted(EDITS)), min_size=1, unique=True))
def test_parts_of_several_edits_combine(kinds):
    bad = GOOD
    for kind in kinds:
        bad = bad.replace(*EDITS[kind])
    parts = parts_of(bad)
    finer = [statement for part in parts for statement in (statements_of(part) or [part])]
    finest = [operation for part in finer for operation in (operations_of(part) or [part])]
    for level in (parts, finer, finest):
        assert behaviour(edited(bad.encode(), level)) == behaviour(GOOD)
    assert all(part.change.file == "a.py" for part in finest)


def test_formatting_comments_and_docstrings_are_no_change():
    bad = GOOD.replace("# The second moment.\n", "# Variance.\n\n").replace('"""Mean of values."""', '"""The mean."""')
    assert parts_of(bad.replace("total / len(values)", "total / len( values )")) == []


def test_a_part_names_line_function_and_both_sources():
    bad = GOOD.replace("total / len(values)", "total * (1 / len(values))")
    (function,) = parts_of(bad)
    (statement,) = statements_of(function)
    (operation,) = operations_of(statement)
    # The root of the expression differs, so the smallest pair is the whole expression.
    change = operation.change
    assert (change.level, change.function, change.line) == ("operation", "mean", 11)
    assert (change.good, change.bad) == ("total / len(values)", "total * (1 / len(values))")


def test_the_smallest_expression_within_a_long_one_is_found():
    bad = GOOD.replace("(value - centre) ** power", "(value + centre) ** power")
    (function,) = parts_of(bad)
    (operation,) = operations_of(statements_of(function)[0])
    assert (operation.change.good, operation.change.bad) == ("value - centre", "value + centre")


def test_a_function_that_moved_and_has_other_names_is_compared_with_its_former_self():
    good = {"old.py": GOOD.encode()}
    moved = (
        GOOD.replace("def mean(values)", "def average(numbers)")
        .replace("for value in values:\n        total += value", "for n in numbers:\n        acc += round(n)")
        .replace("total = 0.0", "acc = 0.0")
        .replace("return total / len(values)", "return acc / len(numbers)")
        .replace("mean(", "average(")
    )
    parts = functions_changed({"new.py": "old.py"}, good, {"new.py": moved.encode()}, {"new.py"})
    (function,) = [part for part in parts if part.nodes]
    assert function.change.function == "average"
    (statement,) = statements_of(function)
    (operation,) = operations_of(statement)
    assert (operation.change.good, operation.change.bad) == ("n", "round(n)")
    fixed = edited(moved.encode(), [operation]).decode()
    assert "acc += (n)\n" in fixed


def test_a_function_of_two_removed_ones_comes_back_at_the_end():
    bad = GOOD.replace(GOOD[GOOD.index("def mean") : GOOD.index("class")], "")
    (part,) = parts_of(bad)
    assert (part.change.function, part.change.bad) == ("mean", "")
    assert behaviour(edited(bad.encode(), [part])) == behaviour(GOOD)


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_undoing_all_groups_of_lines_gives_the_good_file(good, bad):
    old, new = ("".join(f"{line}\n" for line in lines).encode() for lines in (good, bad))
    parts = lines_changed("a.yaml", old, new)
    assert edited(new, parts) == old
    assert (parts == []) == (old == new)


def test_parts_that_overlap_are_refused():
    bad = GOOD.replace("total / len(values)", "total * (1 / len(values))")
    (function,) = parts_of(bad)
    with pytest.raises(ValueError, match="overlaps"):
        edited(bad.encode(), [function, *statements_of(function)])


def test_a_file_that_is_not_python_has_no_functions():
    assert parts_of("def (", GOOD) == []
