"""The page on devices: its project runs, and its tables are what there is."""

import json

import numpy as np
import pytest

from precreg.arithmetic.block_operand import BLOCK_OPERANDS
from precreg.arithmetic.devices.device import FUNCTION_METHODS, SECTIONS, Elementwise, device_named, device_names
from precreg.arithmetic.formats import format_named
from precreg.arithmetic.sums import matmul
from precreg.arithmetic.unit import Order, Split, Unit, split_products
from tests.docs.test_docs import names, page, table, write_files
from tests.e2e.command import precreg, repository

PAGE, OPERANDS = page("devices.md"), page("operand-formats.md")


@pytest.fixture
def project(tmp_path):
    return write_files(tmp_path, PAGE)


def results(project, *arguments):
    """Run cases; return the exit code, and the reason and outputs' errors of each by its id."""
    done = precreg(project, "run", "--jobs", "0", *arguments)
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr
    record = json.loads((project / "reports" / "record.json").read_text())
    return done.returncode, {result["id"]: result for result in record["results"]}


def test_the_project_of_the_page_runs_on_every_device(project):
    repository(project)
    results(project)
    assert precreg(project, "baseline", "accept", "--all", "--reason", "first version").returncode == 0
    code, found = results(project)
    assert code == 0
    assert {result["verdict"]["reason"] for result in found.values()} == {"identical"}
    assert {result["parameters"]["device"] for result in found.values()} == {*device_names(None), "npu"}
    errors = {
        result["parameters"]["device"]: result["outcome"]["comparisons"][0]["metrics"]["mean_rel_error"]
        for id, result in found.items()
        if id.startswith("unit/row_norm/")
    }
    assert errors["cpu"] < 2**-24 < errors["mlu370"] < errors["npu"] < 2**-12


def test_every_place_of_a_hop_is_an_output(project):
    _, found = results(project, "--suite", "hops")
    (result,) = found.values()
    host, buffer = (each for each in result["outcome"]["comparisons"] if each["seed"] == 0)
    assert (host["output"], host["metrics"]["max_abs_error"]) == ("host", 0)
    assert 2**-14 < buffer["metrics"]["max_rel_error"] < 2**-12


def test_a_place_that_is_not_what_is_declared_fails_by_its_name(project):
    path = project / "suites" / "unit" / "hops.py"
    path.write_text(path.read_text().replace('"buffer": x}', '"buffer": x * 1.001}'))
    code, found = results(project, "--suite", "hops")
    (result,) = found.values()
    assert code == 1
    assert {finding["output"] for finding in result["verdict"]["findings"]} == {"buffer"}


def test_the_shipped_devices():
    rows = table(PAGE, "device", "what it is")
    assert {row["device"]: row["what it is"] for row in rows} == {
        name: device_named(name).about for name in device_names(None)
    }


def test_the_keys_of_a_table():
    assert [row["key"] for row in table(PAGE, "key", "meaning")] == list(SECTIONS)


def test_the_keys_of_entries():
    elementwise, unit = (
        {row["key"]: row["default"] for row in table(part, "key", "default", "meaning")}
        for part in PAGE.split("An entry of `matmul` or")
    )
    assert set(elementwise) == set(Elementwise.__struct_fields__)
    assert set(unit) == {*Unit.__struct_fields__} - {"blocks", "column_blocks"}, "input names blocks"
    assert elementwise["rounding"] == unit["rounding"] == unit["conversion"] == "nearest_even"
    assert set(names(PAGE.partition("the order of the additions:")[2].partition("|")[0])) == set(Order)


def test_the_keys_of_a_split():
    split = table(OPERANDS, "key", "default", "meaning")
    assert {row["key"] for row in split} == {"parts", "products", "first", "run"}


def test_the_formats_of_devices():
    rows = table(OPERANDS, "device", "formats")
    units = {name: [*device_named(name).operands] for name in device_names(None)}
    assert {row["device"]: names(f"`{row['formats']}`") for row in rows} == {
        name: formats for name, formats in units.items() if formats
    }


def test_the_formats_of_blocks():
    rows = table(OPERANDS, "format of blocks", "element", "block", "scale of a block")
    assert {row["format of blocks"]: int(row["block"]) for row in rows} == {
        name: operand.length for name, operand in BLOCK_OPERANDS.items()
    }


def test_the_errors_of_parts():
    """The table beside what the units compute, to two digits."""
    generator, single = np.random.default_rng(0), format_named("fp32")
    a, b = (generator.standard_normal(shape).astype(np.float32) for shape in ((64, 1000), (1000, 64)))
    exact = a.astype(np.float64) @ b.astype(np.float64)

    def error(name, parts, count, *, first):
        split = Split(parts, split_products(parts, count, smallest_first=first == "smallest first"))
        product = matmul(a, b, Unit(format_named(name), single, single, split=split))
        return f"{np.sqrt(np.mean((product - exact) ** 2)):.1e}".replace("e-0", "e-")

    orders = ("smallest first", "largest first")
    for row in table(OPERANDS, "operand", "products", *orders):
        name, parts = {"bfloat16x2": ("bf16", 2), "bfloat16x3": ("bf16", 3)}.get(row["operand"], ("tf32", 2))
        for first in orders:
            assert row[first] == error(name, parts, int(row["products"]), first=first)


def test_the_methods_of_functions():
    rows = table(PAGE, "function", "methods")
    assert {row["function"]: names(row["methods"]) or [row["methods"]] for row in rows} == {
        name: list(methods) for name, methods in FUNCTION_METHODS.items()
    }
