"""The independent scripts: each system prints its table, and none of them leans on what it is to check."""

import ast
import subprocess
import sys

import pytest

from tests.e2e.command import PATIENCE_S, ROOT, environ

FOLDER = ROOT / "benchmarks" / "published"
SYSTEMS = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
PLAIN = {"numpy", "ml_dtypes", "mpmath", "published", *sys.stdlib_module_names}
# No suite comes from these: they compare publications with precreg's own formats, as docs/systems-formats.md says.
OWN_FORMATS = {"block_formats", "clipping", "fp8", "hifloat8", "loss_scale", "split_products"}


def run(*systems):
    command = [sys.executable, ROOT / "benchmarks" / "published_figures.py", *systems]
    return subprocess.run(command, env=environ(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_system_prints_a_table():
    done = run("casts", "newton_sqrt")
    assert done.returncode == 0, done.stderr
    tables = dict(table.split(":", 1) for table in done.stdout.strip().split("\n\n"))
    assert list(tables) == ["casts", "newton_sqrt"]
    for table in tables.values():
        about, head, *figures = table.splitlines()
        assert about.endswith(".")
        assert head.split() == ["figure", "published", "measured", "reproduces"]
        assert figures


def test_what_was_published_is_said_to_reproduce_or_not():
    count, correlation, *_, rule = run("layer_norm").stdout.splitlines()[3:]
    assert [line.split()[-1] for line in (count, correlation, rule)] == ["yes", "yes", "NO"]


def test_a_conversion_is_off_by_half_a_last_place_whatever_was_drawn():
    lines = run("device_errors").stdout.splitlines()
    measured = {line.split(",")[0].split()[-1]: float(line.split()[-1]) for line in lines if "conversion to" in line}
    assert measured == {"float16": pytest.approx(2**-11, rel=0.01), "bfloat16": pytest.approx(2**-8, rel=0.01)}


def test_an_unknown_system_is_told_with_those_that_there_are():
    done = run("layernorm")
    assert done.returncode == 2
    assert done.stderr == f"no system layernorm; there are {', '.join(SYSTEMS)}\n"


@pytest.mark.parametrize("system", sorted({*SYSTEMS} - OWN_FORMATS))
def test_is_independent_of_what_it_checks(system):
    tree = ast.parse((FOLDER / f"{system}.py").read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= PLAIN
