"""Cells of a notebook: compiled code without a file, whose lines linecache knows."""

import linecache

import pytest

CELL = """\
import numpy as np
import precreg

with precreg.trace(watch=["y"]) as t:
    x = t.array(np.linspace(1, 2, 5, dtype=np.float32))
    y = np.exp(x) - 1
    t.output("y", y)
"""


# As ipykernel, IPython in a terminal, and Python 3.13 name a cell.
@pytest.mark.parametrize("file", ["/tmp/ipykernel_12/345.py", "<ipython-input-1-0a>", "<stdin>"])
def test_operations_of_a_cell_name_the_line_of_the_cell(file, monkeypatch):
    monkeypatch.setitem(linecache.cache, file, (len(CELL), None, CELL.splitlines(keepends=True), file))
    cell = {"__name__": "__main__"}
    exec(compile(CELL, file, "exec"), cell)
    found = cell["t"]
    assert [(each.name, each.site.file, each.site.line) for each in found.operations[-2:]] == [
        ("exp", file, 6),
        ("subtract", file, 6),
    ]
    assert found.operations[-1].site.code == "y = np.exp(x) - 1"
    assert found.trace.outputs[0].sum_of_shares == pytest.approx(1.0, abs=0.01)
    assert {value.name for value in found.trace.watched} >= {"subtract"}
