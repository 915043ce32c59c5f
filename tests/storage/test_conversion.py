"""Plain data that becomes no struct: each mistake has its kind, its path and precreg's own words."""

import copy
import json
from typing import Any

import msgspec
import pytest

from precreg.baseline.proposal_file import Proposal
from precreg.storage.conversion import DataError, convert_data, find_mistakes
from precreg.suite.files import SuiteFile, TolerancesFile
from precreg.suite.inputs.spec import DISTRIBUTIONS
from precreg.types.metric import MetricDescription
from precreg.types.outcome import Histogram
from precreg.types.record import AcceptedValue, AxisSums, BaselineEntry, KeptSums
from precreg.types.verdict import Finding, Reason
from tests.baseline.samples import entry
from tests.suite.test_no_traceback import ODD, mutants

SUMS = [KeptSums(1.0, "//ABgAwA")] * 2
ENTRY = msgspec.structs.replace(
    entry(),
    groups={"out": [AxisSums(0, 1, SUMS, SUMS, SUMS, SUMS, SUMS)]},
    described=[MetricDescription("signs.share", "1", "share of signs", "lower", "ours")],
    accepted=[AcceptedValue("2026-11-02", "Ada", "1a2b", "faster", "1:aa", {"out": {"bias": [None, 0.5]}})],
)
PROPOSAL = Proposal(Reason.NEW, "generic", None, ENTRY, findings=[Finding(Reason.NEW, "no baseline", seed=1)])


def plain(value):
    """Return the plain data of a struct as JSON gives it."""
    return json.loads(msgspec.json.encode(value))


SUITE = {
    "suite": "s",
    "subject": "k:f",
    "files": {"actual": "a.npy", "golden": "b.npy"},
    "cases": [{"match": "*", "seeds": 3, "expect": "fail", "reason": "known", "timeout": 2.5}],
    "study": {"growth": {"over": "n"}, "trade_off": {"over": "form", "plain": "none"}},
    "tags": ["slow"],
    "exact": True,
    "budget": {"time_ratio": 2},
}
OPTIONS = {
    "normal": {"mean": 0, "std": 1.5},
    "log_uniform": {"low": 1, "high": 2, "sign": "both"},
    "special": {"values": ["nan"], "share": 0.5, "rest": {"constant": {"value": 1}, "normal": None}},
    "legacy_normal": {"seed": 3, "digest": "0" * 32},
    "file": {"path": "a.npz", "key": "x"},
}
SAMPLES = [
    (BaselineEntry, plain(ENTRY)),
    (Proposal, plain(PROPOSAL)),
    (SuiteFile, SUITE),
    (TolerancesFile, {"default": {}, "allow_looser_thresholds": False}),
    (dict[str, str], {"python": "3.14"}),
    *((DISTRIBUTIONS[name], options) for name, options in OPTIONS.items()),
]
by_sample = pytest.mark.parametrize(("kind", "data"), SAMPLES, ids=[str(kind) for kind, _ in SAMPLES])


@by_sample
def test_data_without_a_mistake_is_converted(kind, data):
    assert convert_data(copy.deepcopy(data), kind) == msgspec.convert(data, kind)
    assert list(find_mistakes(data, kind)) == []


def is_refused(data, kind):
    try:
        msgspec.convert(data, kind)
    except msgspec.ValidationError:
        return True
    return False


@by_sample
def test_every_mistake_that_msgspec_finds_is_found_and_no_other(kind, data):
    for mutant in mutants(data):
        found = [mistake.message for mistake in find_mistakes(mutant, kind)]
        assert bool(found) == is_refused(mutant, kind), (mutant, found)


def at(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(data)
    parent = changed
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return changed


GROUP = ("groups", "out", 0)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("duration_s",), "fast", "expected a number but got duration_s=fast"),
        (("inputs", 1), 7, "expected text but got inputs.1=7"),
        (("outputs",), [], "expected a mapping but got outputs=[]"),
        (("outputs", "out", "shape"), 8, "expected a list but got outputs.out.shape=8"),
        (("outputs", "out", "shape", 0), True, "expected a whole number but got outputs.out.shape.0=true"),
        (
            ("outputs", "out", "metrics", "bias", 1),
            "0",
            'expected a number or null but got outputs.out.metrics.bias.1="0"',
        ),
        (("sketch", "out"), None, "expected a mapping but got sketch.out=null"),
        ((*GROUP, 1), 17, "expected a whole number <= 16 but got groups.out.0.joined=17"),
        ((*GROUP, 2), {}, "expected a list but got groups.out.0.absolute={}"),
        (
            (*GROUP, 2, 0, 1),
            "A",
            "expected text matching regex '^([A-Za-z0-9+/]{2})+\\\\Z' but got groups.out.0.absolute.0.shares=A",
        ),
        ((*GROUP, 2, 0), [1.0], "expected a list of 2 values but got groups.out.0.absolute.0=[1.0]"),
        (
            ("described", 0),
            ["signs.share", "1", "share of signs", "up", "ours"],
            "expected higher or lower but got described.0.better=up",
        ),
        (("described", 0), ["signs.share"], 'expected a list of 5 values but got described.0=["signs.share"]'),
        (("reach",), {"out": {"bias": -1}}, "expected a number >= 0 but got reach.out.bias=-1"),
    ],
)
def test_a_wrong_value_is_named_with_its_whole_path(path, value, message):
    with pytest.raises(DataError) as caught:
        convert_data(at(plain(ENTRY), path, value), BaselineEntry)
    assert (caught.value.slug, caught.value.message) == ("bad-value", message)


def test_a_word_that_is_none_of_a_few_is_named_with_them():
    found = next(find_mistakes(at(plain(PROPOSAL), ("verdict",), "fine"), Proposal))
    assert found.message.startswith("expected identical or within_tolerance or ")
    assert found.message.endswith(" but got verdict=fine")


@pytest.mark.parametrize(
    ("data", "slug", "message", "path"),
    [
        (
            {"zeros": 0, "bins": []},
            "missing-key",
            "expected counts: but the key is not there",
            (),
        ),
        (
            {"cases": [{"seeds": 1}], "suite": "s"},
            "missing-key",
            "expected cases.0.match: but the key is not there",
            ("cases", 0),
        ),
        (
            {"suite": "s", "budget": {"ratio": 2}},
            "unknown-key",
            'expected one of time_ratio but got budget.ratio=2; did you mean "time_ratio"?',
            ("budget", "ratio"),
        ),
    ],
)
def test_a_key_is_named_with_its_whole_path(data, slug, message, path):
    (found,) = find_mistakes(data, SuiteFile if "suite" in data else Histogram)
    assert (found.slug, found.message, found.path) == (slug, message, path)


@pytest.mark.parametrize(
    ("name", "options", "message", "path"),
    [
        ("normal", {"std": -1}, "expected a finite mean and std >= 0 but got mean=0.0, std=-1.0", ()),
        (
            "special",
            {"share": 0.5, "rest": {"normal": {"std": -1}}},
            "rest.normal: expected a finite mean and std >= 0 but got mean=0.0, std=-1.0",
            ("rest", "normal"),
        ),
        ("special", {"share": 0.5, "rest": {}}, "rest: expected one distribution in rest but got 0", ("rest",)),
        ("special", {"share": 2}, "expected share and rest together but got one of them", ()),
        ("normal", {"mean": 10**400}, "expected a finite number but got mean=" + "1" + "0" * 56 + "...", ("mean",)),
        (
            "constant",
            {"value": 10**400},
            "expected an integer of 64 bits, or a float, but got one of 1329 bits",
            (),
        ),
        ("constant", {"value": "1"}, 'expected a number but got value="1"', ("value",)),
    ],
)
def test_fields_that_contradict_each_other_are_refused_in_the_words_of_their_struct(name, options, message, path):
    (found,) = find_mistakes(options, DISTRIBUTIONS[name])
    assert (found.slug, found.message, found.path) == ("bad-value", message, path)


def test_all_mistakes_come_in_the_order_of_the_data():
    found = find_mistakes({"seeds": 0, "sedes": 1, "tags": ["", 3]}, SuiteFile)
    assert [mistake.path for mistake in found] == [("seeds",), ("sedes",), ("tags", 0), ("tags", 1), ()]


@by_sample
@pytest.mark.parametrize("odd", [odd for odd in ODD if not isinstance(odd, dict)], ids=str)
def test_another_value_than_a_mapping_is_refused(kind, data, odd):
    with pytest.raises(DataError, match=r"^expected a mapping but got "):
        convert_data(odd, kind)


@pytest.mark.parametrize(
    ("fact", "path", "message"),
    [
        ({"kind": "ratio_moved", "maximum_now": "x"}, ("fact", "maximum_now"), "expected a number or null but got "),
        ({"maximum_now": 1.0}, ("fact",), "expected fact.kind: but the key is not there"),
        (
            {"kind": "not_regressed", "bits": {"kind": "same_bits"}},
            ("fact", "bits", "kind"),
            "expected changed_bits but ",
        ),
        ({"kind": "rumour"}, ("fact", "kind"), "expected absent_output or nothing_compared or "),
        ("rumour", ("fact",), "expected a mapping or null but got fact=rumour"),
    ],
)
def test_the_tag_of_a_fact_names_the_struct_that_its_fields_belong_to(fact, path, message):
    (found,) = find_mistakes({"reason": "regressed", "fact": fact}, Finding)
    assert (found.path, found.message.startswith(message)) == (path, True), found.message


def test_a_right_fact_hides_no_mistake_after_it():
    fact = {"kind": "not_regressed", "bits": {"cause": "change"}}
    assert convert_data({"reason": "regressed", "fact": fact}, Finding).fact.bits.cause == "change"
    (found,) = find_mistakes({"reason": "regressed", "fact": fact, "ratio": "x"}, Finding)
    assert found.path == ("ratio",)
