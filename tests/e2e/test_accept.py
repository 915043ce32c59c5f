"""From a proposal to a baseline, by a person and never by CI."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.baseline.plain import document_of, write_document
from tests.e2e.command import change, copy_of, git, precreg
from tests.e2e.test_road import BASELINE, KERNEL, NARROW, ROAD, WIDE

WHY = ("--reason", "the accumulator of the device is float16")


@pytest.fixture
def project(tmp_path):
    return copy_of(ROAD, tmp_path)


def cases(project):
    return json.loads((project / BASELINE).read_text())["cases"]


def test_a_new_case_is_proposed_accepted_and_then_identical(project):
    assert precreg(project, "run", "16x64").returncode == 2
    assert "float16-16x64" not in cases(project)
    done = precreg(project, "baseline", "accept", "unit/row_sum/float16-16x64", "--reason", "a longer row")
    assert done.returncode == 0, done.stderr
    entry = cases(project)["float16-16x64"]
    assert (entry["reason"], entry["author"]) == ("a longer row", "Ada <ada@example.org>")
    assert entry["commit"] == git(project, "rev-parse", "HEAD")
    assert precreg(project, "run", "16x64").returncode == 0


def test_a_loss_can_be_accepted_for_a_reason_and_then_passes(project):
    assert precreg(project, "run").returncode == 1
    assert "worse" in precreg(project, "baseline", "diff", "*8x256").stdout
    assert precreg(project, "baseline", "accept", "--all", *WHY).returncode == 0
    assert precreg(project, "run").returncode == 0


def test_accept_refuses_in_ci_and_writes_nothing(project):
    precreg(project, "run")
    before = (project / BASELINE).read_bytes()
    done = precreg(project, "baseline", "accept", "--all", *WHY, CI="true")
    assert done.returncode == 2
    assert "error[accept-in-ci]" in done.stderr
    assert (project / BASELINE).read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        (["--improved", *WHY], "no-proposal"),
        (["--all"], "missing-reason"),
        (["--all", "--reason", "  "], "missing-reason"),
        ([*WHY], "no-proposal"),
        (["unit/row_sum/float16-16x46", *WHY], "no-proposal"),
    ],
)
def test_what_accept_asks_for(project, arguments, slug):
    precreg(project, "run")
    done = precreg(project, "baseline", "accept", *arguments)
    assert done.returncode == 2
    assert f"error[{slug}]" in done.stderr
    assert "Traceback" not in done.stderr


def test_in_ci_a_case_without_a_baseline_fails(project):
    assert precreg(project, "run", "16x64", CI="true").returncode == 1
    assert precreg(project, "run", "16x64", "--ci").returncode == 1
    assert precreg(project, "run", "16x64", "--no-ci", CI="true").returncode == 2


def test_an_improvement_is_accepted_alone_with_improved(project):
    precreg(project, "run")
    precreg(project, "baseline", "accept", "--all", *WHY)
    change(project / KERNEL, NARROW, WIDE)
    change(project / KERNEL, "    return total\n\n\ndef exact", "    return total.astype(x.dtype)\n\n\ndef exact")
    assert precreg(project, "run").returncode == 0
    done = precreg(project, "baseline", "accept", "--improved", "--reason", "float32 again")
    assert "float16-8x256" in done.stdout
    assert "float32-8x256" not in done.stdout


def test_reject_drops_a_proposal_until_the_next_run(project):
    precreg(project, "run")
    assert precreg(project, "baseline", "reject", "*").returncode == 0
    assert "0 proposals" in precreg(project, "baseline", "diff").stdout
    precreg(project, "run")
    assert "2 proposals" in precreg(project, "baseline", "diff").stdout


def test_a_case_that_is_gone_leaves_an_orphan_that_prune_removes(project):
    precreg(project, "run")
    precreg(project, "baseline", "accept", "--all", *WHY)
    change(project / "suites/unit/row_sum.yaml", "shape: [[8, 256], [16, 64]]", "shape: [[8, 256]]")
    change(project / "suites/unit/row_sum.yaml", "  exclude: [{dtype: float32, shape: [16, 64]}]\n", "")
    done = precreg(project, "run")
    assert "baselines without a case: unit/row_sum/float16-16x64" in done.stdout
    assert "baselines without a case" not in precreg(project, "run", "float16").stdout, "a selection knows no orphans"
    assert "removed unit/row_sum/float16-16x64" in precreg(project, "baseline", "prune").stdout
    assert "float16-16x64" not in cases(project)


def test_a_case_that_is_gone_is_left_out_and_never_blocks_the_others(project):
    precreg(project, "run")
    change(project / "suites/unit/row_sum.yaml", "suite: row_sum", "suite: sum_of_rows")
    precreg(project, "run", "float32")
    done = precreg(project, "baseline", "accept", "unit/row_sum/float16-16x64", *WHY)
    assert done.returncode == 2
    assert "error[unknown-case]" in done.stderr
    assert "unit/row_sum/float16-16x64" in done.stderr
    done = precreg(project, "baseline", "accept", "*", *WHY)
    assert done.returncode == 0, done.stderr
    assert (
        "left out, because no suite has the case: unit/row_sum/float16-16x64, unit/row_sum/float16-8x256" in done.stdout
    )
    assert "accepted unit/sum_of_rows/float32-8x256" in done.stdout
    assert "accepted unit/row_sum" not in done.stdout
    done = precreg(project, "baseline", "prune")
    assert "dropped the proposal of unit/row_sum/float16-16x64" in done.stdout
    assert "2 proposals dropped" in done.stdout
    assert "left out" not in precreg(project, "baseline", "diff").stdout


def test_a_renamed_case_is_told_from_a_new_one_and_keeps_its_baseline(project):
    precreg(project, "run")
    precreg(project, "baseline", "accept", "--all", *WHY)
    change(project / "suites/unit/row_sum.yaml", "suite: row_sum", "suite: sum_of_rows")
    done = precreg(project, "run")
    assert done.returncode == 2
    assert f"unit/row_sum/float16-8x256 in {BASELINE} (now unit/sum_of_rows/float16-8x256)" in done.stdout
    assert "0 removed, 3 renamed" in precreg(project, "baseline", "prune").stdout
    assert precreg(project, "run").returncode == 0


def test_an_environment_of_its_own_falls_back_until_it_has_baselines_of_its_own(project):
    npu = {"PRECREG_ENVIRONMENT": "ascend-910b"}
    done = precreg(project, "run", **npu)
    assert "environment ascend-910b (then ascend, generic)" in done.stdout
    assert "baselines/generic/unit/row_sum.json" in done.stdout, "the fallback that was used is named"
    assert precreg(project, "baseline", "accept", "--all", *WHY).returncode == 0
    assert (project / "baselines/ascend-910b/unit/row_sum.json").is_file()
    assert precreg(project, "run", **npu).returncode == 0
    assert precreg(project, "run").returncode == 1, "elsewhere the generic baselines still judge"


def test_a_changed_definition_is_stale_and_changed_inputs_are_told_apart(project):
    change(project / "suites/unit/row_sum.yaml", "high: 1", "high: 2")
    assert "stale" in precreg(project, "run", "float32-8x256").stdout
    baseline = document_of(project / BASELINE)
    change(project / "suites/unit/row_sum.yaml", "high: 2", "high: 1")
    baseline["cases"]["float32-8x256"]["inputs"][0] = "0" * 32
    write_document(project / BASELINE, baseline)
    assert "inputs_changed" in precreg(project, "run", "float32-8x256").stdout


def test_two_accepts_at_once_lose_nothing(project):
    precreg(project, "run")
    with ThreadPoolExecutor(2) as both:
        names = ("unit/row_sum/float16-16x64", "unit/row_sum/float16-8x256")
        done = list(both.map(lambda name: precreg(project, "baseline", "accept", name, *WHY), names))
    assert [one.returncode for one in done] == [0, 0]
    assert {"float16-16x64", "float16-8x256", "float32-8x256"} == set(cases(project))
    assert {cases(project)[name.rpartition("/")[2]]["reason"] for name in names} == {WHY[1]}


def test_list_shows_when_by_whom_and_why(project):
    shown = precreg(project, "baseline", "list").stdout
    assert "unit/row_sum/float16-8x256 in baselines/generic/unit/row_sum.json: 2026-11-02" in shown
    assert "first version, float32 accumulator" in shown


def test_git_sees_nothing_that_a_run_writes(project):
    precreg(project, "run")
    precreg(project, "baseline", "reject", "*")
    precreg(project, "run")
    assert {path.name for path in (project / ".precreg").iterdir()} >= {"journal.jsonl", "proposals", "baselines.lock"}
    assert git(project, "status", "--porcelain") == ""


def test_a_baseline_of_fewer_seeds_judges_them_and_the_missing_ones_are_proposed(project):
    suite = project / "suites/unit/row_sum.yaml"
    change(suite, "seeds: 2\n", "")
    done = precreg(project, "run", "float32-8x256")
    assert "identical" in precreg(project, "explain", "unit/row_sum/float32-8x256").stdout or done.returncode == 0
    assert len(cases(project)["float32-8x256"]["inputs"]) == 2
    assert precreg(project, "baseline", "accept", "*float32-8x256", "--reason", "five seeds").returncode == 0
    assert len(cases(project)["float32-8x256"]["inputs"]) == 5
    # The narrow accumulator has regressed on the two seeds that the baseline of float16 has.
    done = precreg(project, "run", "float16-8x256")
    assert (done.returncode, "regressed" in done.stdout) == (1, True), done.stdout
