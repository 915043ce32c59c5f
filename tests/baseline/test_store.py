from __future__ import annotations

import json
import subprocess
import sys

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from precreg.baseline.store import BaselineKey, Baselines, delete_file, read_all_entries, store_entries, write_file
from precreg.baseline.suite_file import baseline_file, baseline_header, decode_entry
from precreg.baseline.text import render_baseline
from precreg.errors import UserError
from precreg.storage import DataError
from precreg.types.record import AxisSums, KeptSums, KnownBad
from tests.baseline.samples import ROAD, entry

CHAIN = ("cpu-x86_64", "cpu", "generic")


def test_the_first_environment_that_has_the_case_gives_the_baseline(tmp_path):
    store_entries(
        tmp_path,
        {BaselineKey("generic", "unit/a/x"): entry(error=1.0), BaselineKey("generic", "unit/a/y"): entry(error=2.0)},
    )
    store_entries(tmp_path, {BaselineKey("cpu", "unit/a/x"): entry(error=3.0)})
    baselines = Baselines(tmp_path)
    x, y = baselines.lookup("unit/a/x", CHAIN), baselines.lookup("unit/a/y", CHAIN)
    assert (x.entry, x.environment, x.file) == (entry(error=3.0), "cpu", "baselines/cpu/unit/a.json")
    assert (y.entry, y.environment, y.file) == (entry(error=2.0), "generic", "baselines/generic/unit/a.json")
    assert baselines.lookup("unit/a/z", CHAIN) is None
    assert baselines.lookup("unit/b/x", CHAIN) is None
    assert baselines.lookup("unit/a/x", ()) is None


def test_a_run_sees_one_state_of_a_file_whatever_is_accepted_meanwhile(tmp_path):
    place = BaselineKey("generic", "unit/a/x")
    store_entries(tmp_path, {place: entry(error=1.0)})
    baselines = Baselines(tmp_path)
    before = baselines.lookup("unit/a/x", CHAIN)
    store_entries(tmp_path, {place: entry(error=2.0)})
    assert baselines.lookup("unit/a/x", CHAIN) == before
    assert Baselines(tmp_path).lookup("unit/a/x", CHAIN).entry == entry(error=2.0)


def test_a_name_with_slashes_belongs_to_the_case(tmp_path):
    store_entries(tmp_path, {BaselineKey("generic", "unit/a/x/y"): entry()})
    assert Baselines(tmp_path).lookup("unit/a/x/y", CHAIN).file == "baselines/generic/unit/a.json"


def test_orphans_are_entries_of_the_chain_that_no_case_looks_up(tmp_path):
    places = [BaselineKey("generic", "unit/a/x"), BaselineKey("generic", "model/b/y"), BaselineKey("cpu", "unit/a/x")]
    store_entries(tmp_path, dict.fromkeys([*places, BaselineKey("ascend", "unit/c/z")], entry()))
    (orphan,) = Baselines(tmp_path).orphans({"unit/a/x"}, CHAIN)
    assert str(orphan) == "model/b/y in baselines/generic/model/b.json"
    assert Baselines(tmp_path).orphans({"unit/a/x", "model/b/y"}, CHAIN) == {}


def test_entries_are_everything_accepted_and_nothing_else(tmp_path):
    places = [
        BaselineKey("ascend", "unit/c/z"),
        BaselineKey("generic", "model/b/y"),
        BaselineKey("generic", "unit/a/x"),
    ]
    store_entries(tmp_path, dict.fromkeys(reversed(places), entry()))
    (tmp_path / "baselines/allow.yaml").write_text("")
    (tmp_path / "baselines/generic/unit/.a.json.tmp").write_text("half")
    (tmp_path / "baselines/generic/unit/.hidden.json").write_text("half")
    assert list(read_all_entries(tmp_path)) == places
    assert read_all_entries(tmp_path / "nowhere") == {}


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "baselines/generic/unit/a.json").mkdir(parents=True)
    with pytest.raises(UserError, match=r"^baselines/generic/unit/a.json: error\[unreadable-baseline\]"):
        Baselines(tmp_path).lookup("unit/a/x", CHAIN)
    with pytest.raises(UserError, match=r"^baselines/generic/unit/a.json: error\[unreadable-baseline\]"):
        Baselines(tmp_path).number(CHAIN)


def test_a_link_to_nothing_has_no_entries(tmp_path):
    store_entries(tmp_path, {BaselineKey("generic", "unit/b/y"): entry()})
    (tmp_path / "baselines/generic/unit/a.json").symlink_to("gone.json")
    assert Baselines(tmp_path).number(CHAIN) == len(read_all_entries(tmp_path)) == 1


@pytest.mark.parametrize(
    "damage", [{"axis": 1}, {"joined": 17}, {"joined": 0}, {"ulps": [KeptSums(1.0, "AA\n")] * 2}], ids=str
)
def test_groups_that_an_output_cannot_have_are_refused(damage):
    sums = [KeptSums(1.0, "//ABgAwA")] * 2
    good = AxisSums(0, 1, sums, sums, sums, sums, sums)
    plain = to_builtins(replace(entry(), groups={"out": [good]}))
    assert decode_entry(plain).groups["out"] == [good]
    with pytest.raises(DataError):
        decode_entry(plain | {"groups": {"out": to_builtins([replace(good, **damage)])}})
    with pytest.raises(DataError):
        decode_entry(plain | {"groups": {"other": to_builtins([good])}})


def test_a_reach_below_0_is_refused():
    plain = to_builtins(entry())
    assert decode_entry(plain | {"reach": {"out": {"rms_error": 0.0}}}).reach["out"]["rms_error"] == 0
    with pytest.raises(DataError):
        decode_entry(plain | {"reach": {"out": {"rms_error": -1e4}}})


@pytest.mark.parametrize("environment", ["..", "../elsewhere", "", ".hidden", "a/b", "a\\b", "/etc", "a\0"])
def test_no_environment_leads_out_of_the_project(environment):
    with pytest.raises(UserError, match="outside-project"):
        baseline_file(environment, "unit/a")


@pytest.mark.parametrize("link", ["baselines", "baselines/generic", "baselines/generic/unit/a.json"])
def test_a_link_out_of_the_project_is_neither_read_nor_written(tmp_path, link):
    project, elsewhere, place = tmp_path / "project", tmp_path / "elsewhere", BaselineKey("generic", "unit/a/x")
    store_entries(elsewhere, {place: entry()})
    before = (elsewhere / place.file).read_bytes()
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(elsewhere / link)
    with pytest.raises(UserError, match="outside-project"):
        Baselines(project).lookup(place.id, CHAIN)
    with pytest.raises(UserError, match="outside-project"):
        Baselines(project).number(CHAIN)
    with pytest.raises(UserError, match="outside-project"):
        write_file(project, place.file, "mine")
    with pytest.raises(UserError, match="outside-project"):
        delete_file(project, place.file)
    assert (elsewhere / place.file).read_bytes() == before


def test_a_link_within_the_project_is_followed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "baselines").symlink_to("data")
    store_entries(tmp_path, {BaselineKey("generic", "unit/a/x"): entry()})
    assert Baselines(tmp_path).lookup("unit/a/x", CHAIN).entry == entry()


def test_looking_up_needs_no_numpy():
    code = f"""
import sys
from pathlib import Path
from precreg.baseline.review import diff_proposals
from precreg.baseline.store import Baselines
assert Baselines(Path({str(ROAD)!r})).lookup("unit/row_sum/float16-8x256", ("cpu", "generic")) is not None
diff_proposals(Path({str(ROAD)!r}))
sys.exit("numpy" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


STATE = KnownBad("bug 4711", {"out": {"match_ratio": [0.5, None]}}, {"out": [3, 0]}, {})


def test_a_known_bad_state_is_stored_with_its_reason_and_without_empty_parts():
    text = render_baseline(baseline_header("generic", "unit/a"), {"x": replace(entry(), known=STATE)})
    stored = json.loads(text)["cases"]["x"]["known"]
    assert stored == {"reason": "bug 4711", "bounds": {"out": {"match_ratio": [0.5, None]}}, "nans": {"out": [3, 0]}}
    assert decode_entry(json.loads(text)["cases"]["x"]).known == STATE
    assert '"known"' not in render_baseline(baseline_header("generic", "unit/a"), {"x": entry()})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bounds": {"out": {"match_ratio": [0.5]}}}, "known.bounds.out.match_ratio"),
        ({"nans": {"out": [1, 2, 3]}}, "known.out"),
        ({"infinities": {"out": [-1, 0]}}, "infinities"),
        ({"excuse": True}, "excuse"),
    ],
)
def test_a_known_bad_state_that_does_not_fit_its_entry_is_refused(change, says):
    stored = json.loads(json.dumps(to_builtins(replace(entry(), known=STATE))))
    with pytest.raises(DataError) as caught:
        decode_entry(stored | {"known": to_builtins(STATE) | change})
    assert says in str(caught.value)
