from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.suite.expand import load_cases
from precreg.suite.select import (
    MAX_LISTED,
    Selection,
    fits_pattern,
    match_names,
    no_case_error,
    select_cases,
    shard_cases,
)
from precreg.types.case import Case, Computation, Location
from tests.suite.conftest import SUITE

ADAM = (
    SUITE.replace("softmax", "adam")
    + "matrix: {dtype: [float16, float32], order: [a, ab]}\nparams: {o: $order, d: $dtype}\n"
)


@pytest.fixture
def cases(write):
    model = {"suites/model/net.yaml": SUITE + "tags: [slow]\n", "suites/model/kernels.py": "naive = exact = print\n"}
    return load_cases(write(model, adam=ADAM, softmax=SUITE + "tags: [fast]\n"))


@pytest.mark.parametrize(
    ("selection", "ids"),
    [
        (Selection(tiers=("model",)), ["model/softmax/default"]),
        (Selection(suites=("softmax",)), ["model/softmax/default", "unit/softmax/default"]),
        (Selection(suites=("unit/softmax",)), ["unit/softmax/default"]),
        (Selection(tags=("fast", "slow")), ["model/softmax/default", "unit/softmax/default"]),
        (Selection(tags=("slow",), tiers=("unit",)), []),
        (Selection(patterns=("unit/adam/float16-a",)), ["unit/adam/float16-a"]),
        (Selection(patterns=("float16-a",)), ["unit/adam/float16-a", "unit/adam/float16-ab"]),
        (
            Selection(patterns=("*/float??-ab", "unit/soft")),
            ["unit/adam/float16-ab", "unit/adam/float32-ab", "unit/softmax/default"],
        ),
        (Selection(patterns=("soft*",)), ["model/softmax/default", "unit/softmax/default"]),
        (Selection(patterns=("float??-a",)), ["unit/adam/float16-a", "unit/adam/float32-a"]),
        (Selection(patterns=("unit/adam/float16-a", "model")), ["model/softmax/default", "unit/adam/float16-a"]),
    ],
)
def test_selection(cases, selection, ids):
    assert [case.id for case in select_cases(cases, selection)] == ids


def test_an_empty_selection_takes_all(cases):
    assert select_cases(cases, Selection()) == cases


@pytest.mark.parametrize(
    ("selection", "says"),
    [
        (Selection(tiers=("units",)), 'tier=units; did you mean "unit"?'),
        (Selection(suites=("adm",)), 'suite=adm; did you mean "adam"?'),
        (Selection(suites=("unit/adm",)), 'suite=unit/adm; did you mean "unit/adam"?'),
        (Selection(suites=("zzz",)), "suite=zzz"),
        (Selection(tags=("fst",)), 'expected one of fast, slow but got tag=fst; did you mean "fast"?'),
    ],
)
def test_names_that_nothing_has(cases, selection, says):
    with pytest.raises(UserError) as caught:
        select_cases(cases, selection)
    assert caught.value.slug == "bad-value"
    assert says in caught.value.message


def case(number):
    nothing = Computation("python", "k:f")
    id = f"unit/s/n={number}"
    return Case(
        id, "unit", "s", f"n={number}", Location("s.yaml"), "1:0", id, "1:0", "suites/unit", nothing, nothing,
        "reference", {}, {}, {}, (),
    )  # fmt: skip


@given(st.integers(0, 200), st.integers(1, 9))
def test_shards_are_disjoint_complete_balanced_and_in_order(n, count):
    cases = [case(number) for number in range(n)]
    shards = [shard_cases(cases, index, count) for index in range(1, count + 1)]
    assert sorted(case.id for part in shards for case in part) == sorted(case.id for case in cases)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    assert all(part == [case for case in cases if case in part] for part in shards)
    assert shards == [shard_cases(list(reversed(cases)), index, count)[::-1] for index in range(1, count + 1)]


@pytest.mark.parametrize(("index", "count"), [(0, 2), (3, 2), (1, 0), (-1, 2)])
def test_a_bad_shard(index, count):
    with pytest.raises(UserError) as caught:
        shard_cases([], index, count)
    assert caught.value.slug == "bad-shard"
    assert f"shard={index}/{count}" in caught.value.message


IDS = ["model/softmax/default", *(f"unit/adam/{name}" for name in ("float16-a", "float16-ab", "float32-a"))]
IDS += ["unit/adam/float32-ab", "unit/softmax/default"]


@pytest.mark.parametrize(
    ("patterns", "told"),
    [
        (("sofmax",), 'pattern=sofmax; did you mean "softmax"?'),
        (("softmax", "unit/amad"), 'pattern=unit/amad; did you mean "unit/adam"?'),
        (("unit/adam/Float61-a",), 'pattern=unit/adam/Float61-a; did you mean "unit/adam/float16-a"?'),
        (("*/qqqqqqqq",), "pattern=*/qqqqqqqq;"),
        (("*SOFTMAX*",), 'pattern=*SOFTMAX*; did you mean "softmax"?'),
        (("",), "pattern=;"),
    ],
)
def test_a_pattern_that_matches_nothing_is_refused_with_the_nearest_name_and_the_names(cases, patterns, told):
    with pytest.raises(UserError) as caught:
        select_cases(cases, Selection(patterns=patterns))
    assert caught.value.slug == "nothing-selected"
    assert caught.value.message == f"expected a case that matches but got {told} there are 6: {', '.join(IDS)}"


def test_options_that_leave_nothing_together(cases):
    assert select_cases(cases, Selection(patterns=("softmax",), tags=("slow",), tiers=("unit",))) == []
    assert no_case_error(cases).message.startswith("expected options that select a case but no case has all of them; ")
    assert "depends on a change since v1.0; there are 6: " in no_case_error(cases, "v1.0").message


@pytest.mark.parametrize("selection", [Selection(patterns=("x",)), Selection(tags=("x",)), Selection(suites=("x",))])
def test_a_project_without_a_case(selection):
    assert select_cases([], Selection()) == []
    with pytest.raises(UserError) as caught:
        select_cases([], selection)
    assert caught.value.slug == no_case_error([]).slug == "empty-project"


def test_of_many_names_ten_and_the_nearest_are_named(cases):
    many = [replace(case, suite=f"suite{place}") for case in cases for place in range(MAX_LISTED)]
    with pytest.raises(UserError) as raised:
        select_cases(many, Selection(suites=("Suite_3",)))
    told = 'expected a suite that a case has but got suite=Suite_3; did you mean "suite3"?'
    assert raised.value.message == f"{told} there are 30: {', '.join(NAMES)} and 20 more"


NAMES = [f"model/suite{place}" for place in range(10)]
ODD = ["unit/s/a", "unit/s/a[1,2]", "unit/s/a[1,2]b", "unit/S/a1", "model/unit/ab"]


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("unit/s/a", ["unit/s/a"]),
        ("a[1,2]", ["unit/s/a[1,2]", "unit/s/a[1,2]b", "unit/S/a1"]),
        ("unit/s/a[1,2]", ["unit/s/a[1,2]"]),
        ("a[12]", ["unit/S/a1"]),
        ("s", ["unit/s/a", "unit/s/a[1,2]", "unit/s/a[1,2]b"]),
        ("unit", ODD),
        ("unit/*", ["unit/s/a", "unit/s/a[1,2]", "unit/s/a[1,2]b", "unit/S/a1"]),
        ("uni?", ODD),
        ("[S]", ["unit/S/a1"]),
        ("*", ODD),
        ("s/*", []),
        ("*/s/*b", ["unit/s/a[1,2]b"]),
        ("", []),
    ],
)
def test_the_one_rule_for_patterns(pattern, matching):
    assert match_names(ODD, [pattern]) == {*matching}


def test_a_known_name_matches_itself_alone_even_if_it_is_not_among_the_names():
    assert match_names(["unit/s/ab"], ["unit/s/a"]) == {"unit/s/ab"}
    assert match_names(["unit/s/ab"], ["unit/s/a"], known=["unit/s/a"]) == set()


@given(st.lists(st.text("ab/*?[]!-", min_size=1), unique=True), st.text("ab/*?[]!-", max_size=5))
def test_a_name_matches_itself_alone_and_any_other_text_each_name_that_contains_it(names, pattern):
    found = match_names(names, [pattern])
    if pattern in names:
        assert found == {pattern}
    elif pattern:
        assert found >= {name for name in names if pattern in name}


@given(st.text("ab", max_size=8), st.text("ab**?[]!", max_size=7))
def test_a_pattern_fits_the_names_that_python_s_fnmatch_finds(name, pattern):
    assert fits_pattern(name, pattern) == fnmatchcase(name, pattern)
