"""The page on the Python API: its examples give what it shows, its tables are what there is."""

import doctest
import inspect
import re

import pytest
from msgspec.structs import fields

import precreg
from precreg.tolerance.pyramid import SHIPPED_STANDARD
from tests.docs.test_docs import names, page, table

PAGE = page("api.md")


def test_the_examples_give_what_the_page_shows():
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "docs/api.md", None, None)
    assert len(examples.examples) > 10
    assert doctest.DocTestRunner().run(examples).failed == 0


def test_every_argument_is_in_the_table():
    rows = {row["argument"]: row["default"] for row in table(PAGE, "argument", "default", "meaning")}
    given = inspect.signature(precreg.compare).parameters
    assert list(rows) == list(given)
    for name, parameter in given.items():
        assert (rows[name] == "required") is (parameter.default is inspect.Parameter.empty)
    assert int(rows["worst"]) == given["worst"].default
    assert rows["standard"] == SHIPPED_STANDARD


def test_every_field_of_a_comparison_is_in_the_table():
    named = [
        name
        for row in re.findall(r"^\| (`.*?) \|", PAGE.partition("## Comparison")[2], re.MULTILINE)
        for name in names(row)
    ]
    assert set(named) >= {field.name for field in fields(precreg.Comparison)} - {"output", "seed"}


def test_what_is_public_is_on_the_page():
    public = set(precreg.__all__) - {"__version__"}
    assert public == set(names(PAGE.partition("you use one of its names:")[2].partition(".")[0]))


@pytest.mark.parametrize("name", [name for name in precreg.__all__ if name != "__version__"])
def test_public_names_are_there(name):
    assert name in dir(precreg)
    assert getattr(precreg, name) is getattr(precreg, name)


def test_no_other_name_is():
    with pytest.raises(AttributeError, match="nothing"):
        precreg.nothing  # noqa: B018
