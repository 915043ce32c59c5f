import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from precreg.errors import UserError
from precreg.suite.expand import load_cases
from precreg.suite.select import MAX_LISTED, Selection, no_case_error, select_cases, shard_cases
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
        (Selection(patterns=("nothing",)), []),
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


@pytest.mark.parametrize(
    ("patterns", "told"),
    [
        (("sofmax",), 'no id has pattern=sofmax; did you mean "softmax"?'),
        (("softmax", "unit/amad"), 'no id has pattern=unit/amad; did you mean "unit/adam"?'),
        (("unit/adam/Float61-a",), 'no id has pattern=unit/adam/Float61-a; did you mean "unit/adam/float16-a"?'),
        (("*/qqqqqqqq",), "no id has pattern=*/qqqqqqqq"),
    ],
)
def test_where_nothing_is_selected_the_first_pattern_that_means_nothing_is_told_with_the_nearest(cases, patterns, told):
    assert no_case_error(cases, patterns).message.endswith(f"of {len(cases)} cases to be selected but got none: {told}")


def test_patterns_that_mean_something_are_not_blamed_where_another_option_leaves_nothing(cases):
    assert no_case_error(cases, ("softmax",)).message.endswith("but got none")


def test_of_many_names_only_the_nearest_is_told(cases):
    many = [replace(case, suite=f"suite{place}") for case in cases for place in range(MAX_LISTED)]
    with pytest.raises(UserError) as raised:
        select_cases(many, Selection(suites=("Suite_3",)))
    assert raised.value.message == 'expected a suite that a case has but got suite=Suite_3; did you mean "suite3"?'
