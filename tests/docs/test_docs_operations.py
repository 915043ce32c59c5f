"""docs/operations.md: its examples give what it shows, its tables are held against units, orders and draws."""

import doctest
import inspect
import re

import msgspec
import numpy as np
import pytest

from precreg.arithmetic import operations
from precreg.arithmetic import sums as accumulate
from precreg.arithmetic.exact import exact_random_bits
from precreg.arithmetic.formats import FORMATS, Rounding
from precreg.arithmetic.unit import Order, Unit
from tests.docs.test_docs import page, sections, table

PAGE = page("operations.md")
PARTS = sections(PAGE)
HALF = FORMATS["float16"]


def test_the_examples_give_what_the_page_shows():
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "docs/operations.md", None, None)
    assert len(examples.examples) > 20
    assert doctest.DocTestRunner().run(examples).failed == 0


@pytest.mark.parametrize(
    ("heading", "module"), [("Elementwise", operations), ("Units", accumulate)], ids=["elementwise", "sums"]
)
def test_every_function_is_in_its_table(heading, module):
    told = [row["function"].strip("`") for row in table(PARTS[heading], "function", "computes")]
    for call in told:
        name, _, given = call.rstrip(")").partition("(")
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        known = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        defaults = [f"={p.default}" if p.default not in (p.empty, Rounding.NEAREST_EVEN) else "" for p in known]
        assert given == ", ".join(p.name + default for p, default in zip(known, defaults, strict=True))
    own = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    public = {name for name in own if inspect.isfunction(getattr(module, name)) and not name.startswith("_")}
    internal = {"carrier_dtype", "compute_numpy", "matmul_numpy", "operand_slice"}
    internal |= {"tiles", "total_numpy", "widen_operand"}
    assert {call.partition("(")[0] for call in told} == public - internal


def test_every_field_of_a_unit_is_in_the_table_with_its_default():
    rows = table(PARTS["Units"], "field", "default", "meaning")
    assert [row["field"].strip("`") for row in rows] == [field.name for field in msgspec.structs.fields(Unit)]
    for row, field in zip(rows, msgspec.structs.fields(Unit), strict=True):
        default = "required" if field.required else str(field.default or 0 if field.name == "seed" else field.default)
        assert row["default"].strip("`") == default.lower()


def test_the_orders_give_the_figures_of_the_table():
    rows = table(PARTS["Orders"], "order", "terms are added", "8192 ones in float16, width 64")
    assert [row["order"].strip("`") for row in rows] == list(Order)
    for row in rows:
        unit = Unit(HALF, HALF, HALF, order=Order(row["order"].strip("`")), width=64)
        assert accumulate.total(np.ones(8192), unit) == float(row["8192 ones in float16, width 64"])


def test_the_indices_of_draws_are_those_of_the_table():
    """Element 1 of 2, with 3 terms: one rounding is watched at a time, half way between two numbers of float16."""
    rows = table(PARTS["Random bits"], "rounded value", "seed", "index")
    assert [row["index"] for row in rows[1:4]] == ["i * K + k", "i * K + K + j", "i * K + k"]
    assert [row["seed"] for row in rows[1:]] == ["seed", "seed", "`seed` + 1", "`seed` + 2, + 3", "`seed` + 4"]
    halves, ones, seed = np.array([[0, 0, 0], [0, 1024.5, 0]]), np.ones((2, 3)), 77

    def up(stream, index):
        return float(exact_random_bits(seed + stream, index) < 2**23)

    def drawn(**fields):
        wide = dict.fromkeys(("input", "accumulator", "output"), FORMATS["float64"])
        return Unit(
            **wide | {"rounding": Rounding.STOCHASTIC, "conversion": Rounding.STOCHASTIC, "seed": seed} | fields
        )

    assert accumulate.total(halves, drawn(accumulator=HALF))[1] == 1024 + up(0, 3 + 1)
    in_runs = drawn(accumulator=HALF, order=Order.BLOCKS, width=2)
    assert accumulate.total(np.array([[0, 0, 0], [1025.0, 0, 2048.0]]), in_runs)[1] == 3072 + 2 * up(0, 3 + 3 + 1)
    assert accumulate.dot(halves, ones, drawn(product=HALF))[1] == 1024 + up(1, 3 + 1)
    assert accumulate.dot(halves, ones, drawn(input=HALF))[1] == 1024 + up(2, 3 + 1)
    assert accumulate.dot(ones, halves, drawn(input=HALF))[1] == 1024 + up(3, 3 + 1)
    assert accumulate.total(halves, drawn(output=HALF))[1] == 1024 + up(4, 1)
    for start in (0, 40):
        added = operations.add(halves, 0.0, HALF, Rounding.STOCHASTIC, seed=seed, start=start)
        assert added[1, 1] == 1024 + up(0, start + 4)
