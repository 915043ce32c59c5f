"""`precreg compare` of dumps layer by layer: the order of execution, the first failing layer, and two builds."""

import json

import numpy as np
import pytest

from tests.e2e.command import precreg

LAYERS = 20
FIRST_BAD = 13


def write_builds(folder):
    """Write dumps of a reference, an old build, and a new one that is worse from layer 13 on."""
    random = np.random.default_rng(5)
    for layer in range(LAYERS):
        reference = random.standard_normal((16, 64))
        noise = random.standard_normal((16, 64))
        for side, error in (("new", 1e-6 * (30 if layer >= FIRST_BAD else 1)), ("old", 1e-6)):
            save(folder / side / f"layers.{layer}.npy", (reference * (1 + error * noise)).astype(np.float32))
        save(folder / "reference" / f"layers.{layer}.npy", reference)


def save(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)


@pytest.fixture
def builds(tmp_path):
    write_builds(tmp_path)
    return tmp_path


def compared(folder, *arguments):
    done = precreg(folder, "compare", "new", "reference", *arguments, "--json", "record.json")
    assert "Traceback" not in done.stderr
    return done, json.loads((folder / "record.json").read_text())


def test_the_first_failing_layer_is_named_in_natural_order(builds):
    done, record = compared(builds, "--rtol", "5e-5")
    assert done.returncode == 1
    assert f"first failing: layers.{FIRST_BAD} (14 of 20 in order): out_of_tolerance, match_ratio" in done.stdout
    assert [pair["name"] for pair in record["pairs"]] == [f"layers.{layer}" for layer in range(LAYERS)]
    assert record["order"]["source"] == "names"


def test_where_nothing_fails_the_rise_of_the_error_is_named(builds):
    done, _ = compared(builds, "--rtol", "1e-2")
    assert done.returncode == 0
    assert f"error grows from: layers.{FIRST_BAD} on: mean |a-r| / mean |r| is " in done.stdout
    assert "first failing" not in done.stdout


def test_a_file_gives_another_order(builds):
    order = ["layers.19", *(f"layers.{layer}" for layer in range(18)), "layers.99"]
    (builds / "order.txt").write_text("\n".join(order))
    done, record = compared(builds, "--rtol", "5e-5", "--order", "order.txt")
    assert "first failing: layers.19 (1 of 20 in order)" in done.stdout
    assert (
        "order     the order of order.txt; 1 array is not in it and comes last, by name (layers.18); "
        "1 name of it matches no array (layers.99)"
    ) in done.stdout
    assert [pair["name"] for pair in record["pairs"]] == [*order[:-1], "layers.18"]


def test_the_order_is_the_same_with_many_processes(builds):
    (builds / "order.txt").write_text("\n".join(f"layers.{layer}" for layer in reversed(range(LAYERS))))
    for layer in range(60):
        for side in ("new", "reference"):
            save(builds / side / f"heads.{layer}.npy", np.ones(8, np.float32))
    _, record = compared(builds, "--order", "order.txt", "--jobs", "2")
    names = [pair["name"] for pair in record["pairs"]]
    assert names == [f"layers.{layer}" for layer in reversed(range(LAYERS))] + [f"heads.{n}" for n in range(60)]


def test_names_that_lead_out_of_the_folder_open_nothing(builds):
    (builds / "secret.npy").write_bytes(b"not an array")
    (builds / "order.json").write_text(json.dumps(["../secret", "/etc/passwd", "layers.1", "\x1b[31mred"]))
    done, record = compared(builds, "--rtol", "1e-2", "--order", "order.json")
    assert done.returncode == 0
    assert record["order"]["unused"] == {"names": ["../secret", "/etc/passwd", "\x1b[31mred"], "others": 0}
    assert "\x1b" not in done.stdout
    assert record["pairs"][0]["name"] == "layers.1"


def test_a_name_twice_is_refused_with_its_line(builds):
    (builds / "order.txt").write_text("layers.1\nlayers.2\nlayers.1\n")
    done = precreg(builds, "compare", "new", "reference", "--order", "order.txt")
    assert done.returncode == 2
    assert "order.txt:3: error[bad-order]: expected each name once but got 'layers.1' again" in done.stderr


def test_fifty_errors_are_one_group_before_sixty_failures(tmp_path):
    wrong, good = np.full((4, 64), 1.5, np.float32), np.ones((4, 64))
    for layer in range(110):
        save(tmp_path / "reference" / f"layers.{layer}.npy", good)
        save(tmp_path / "new" / f"layers.{layer}.npy", wrong)
    for layer in range(60, 110):
        (tmp_path / "new" / f"layers.{layer}.npy").write_bytes(b"\x93NUMPY cut")
    done, _ = compared(tmp_path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    groups = [line.split()[:2] for line in lines if line.startswith(("50 ", "60 ")) and "layers" in line]
    assert groups == [["50", "subject_error"], ["60", "out_of_tolerance"]]
    assert "layers.60, layers.61, layers.62 and 47 more" in done.stdout
    # The list below has the failures alone.
    assert not any(line.startswith("ERROR") for line in lines)


def test_pairs_that_regressed_between_two_builds_are_named(builds):
    for layer in (0, 15):
        (builds / "old" / f"layers.{layer}.npy").unlink()
    done, record = compared(builds, "--benchmark", "old", "--rtol", "1e-2", "--report", "page.html")
    assert done.returncode == 0, done.stdout
    regressed = [pair["name"] for pair in record["pairs"] if pair["regressed"]]
    assert regressed == [f"layers.{layer}" for layer in range(FIRST_BAD, LAYERS) if layer != 15]
    named = (
        "6 of 18 pairs regressed against the benchmark, the first in order is layers.13; with --regression they fail"
    )
    page = (builds / "page.html").read_text()
    for text in (named, "not compared with the benchmark: 2 without a benchmark"):
        assert text in done.stdout
        assert text in page
    assert "warning   old has no array for layers.0, layers.15" in done.stdout


def test_with_regression_the_same_pairs_fail_by_the_same_rule(builds):
    _, free = compared(builds, "--benchmark", "old", "--rtol", "1e-2")
    done, judged = compared(builds, "--benchmark", "old", "--rtol", "1e-2", "--regression")
    assert done.returncode == 1
    assert f"first failing: layers.{FIRST_BAD} (14 of 20 in order): regressed" in done.stdout
    losses = {pair["name"]: pair["regressed"] for pair in free["pairs"]}
    assert losses == {pair["name"]: pair["regressed"] for pair in judged["pairs"]}
    failing = {pair["name"] for pair in judged["pairs"] if pair["verdict"]["reason"] == "regressed"}
    assert failing == {name for name, findings in losses.items() if findings}


def test_the_page_says_the_same_as_the_terminal(builds):
    done, _ = compared(builds, "--rtol", "5e-5", "--report", "page.html")
    page = (builds / "page.html").read_text()
    first = next(line for line in done.stdout.splitlines() if line.startswith("first failing: "))
    assert "<strong>first failing</strong>: " + first.removeprefix("first failing: ").replace(">", "&gt;") in page
    assert page.count('class="layer-fails"') == LAYERS - FIRST_BAD
    assert '<polyline class="layer-allowed"' in page
