"""Errors say what to write: every hint is specific, every example loads, and synonyms of the field are suggested."""

import ast
import pickle
from pathlib import Path

import pytest
import yaml

from precreg.arithmetic.formats import DTYPE_NAMES
from precreg.cli.main import COMMANDS
from precreg.errors import (
    ADVICE,
    EXAMPLES,
    HINTS,
    UserError,
    choices,
    example_hint,
    key_hint,
    name_hint,
    nearest,
    nearest_name,
    page_of_error,
)
from precreg.measure import METRICS
from precreg.suite.files import CaseEntry, FilesEntry, StochasticEntry, SuiteFile, TableEntry, TolerancesFile
from precreg.suite.inputs.spec import DISTRIBUTIONS

ROOT = Path(__file__).parents[1]
SOURCES = [path for path in (ROOT / "precreg").rglob("*.py") if path.name != "errors.py"]
# A hint of these slugs depends on the value alone, so each error brings its own.
OWN_HINTS = ("bad-value", "missing-key", "unknown-key")


def raised(path):
    """Yield the calls that make an error of one of OWN_HINTS, as (name of what is called, call)."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            slugs = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if any(slug in OWN_HINTS for slug in slugs) and name in ("UserError", "DataError", "error", "_mistake"):
                yield name, node


def has_hint(name, call):
    """Return whether an error has a hint of its own, or names a key of YAML, whose example is the hint."""
    if any(each.arg == "hint" for each in call.keywords) or (name == "_mistake" and len(call.args) > 3):
        return True
    keys = [each.value for each in call.args[2:] if isinstance(each, ast.Constant)]
    # A path in a variable, or a key of the caller's: tests/suite checks the hints of these by their values.
    named_later = any(isinstance(each, ast.Starred | ast.Name) for each in call.args[2:])
    return name == "error" and (named_later or bool(example_hint([key for key in keys if isinstance(key, str)])))


# Mistakes in JSON that precreg wrote itself: the error around them says what to do with the file.
OF_STORED_FILES = (
    *("baseline/suite_file.py", "baseline/proposal.py", "baseline/proposal_file.py"),
    *("storage/conversion.py", "storage/packed.py"),
)


def test_every_mistake_in_a_value_says_what_to_write():
    for path in SOURCES:
        if not path.as_posix().endswith(OF_STORED_FILES):
            bare = [call.lineno for name, call in raised(path) if not has_hint(name, call)]
            assert not bare, f"{path}: lines {bare} raise an error without a hint"


def test_the_search_for_errors_without_a_hint_finds_one(tmp_path):
    module = tmp_path / "m.py"
    module.write_text('raise UserError("bad-value", "expected 1 but got 2")\n')
    [(name, call)] = raised(module)
    assert not has_hint(name, call)


def test_no_hint_is_generic():
    for slug, hint in ADVICE.items():
        if slug != "bad-value":  # it is the hint of kinds that other packages bring
            assert "of the kind that is expected" not in hint, slug
            assert "that precreg knows" not in hint, slug
            assert len(hint.split()) >= 4, slug
        assert len(hint) <= 110, slug


def test_every_example_is_yaml_of_one_key():
    for key, example in EXAMPLES.items():
        data = yaml.safe_load(example)
        assert isinstance(data, dict), key
        assert len(data) == 1, key
        assert None not in data.values(), key


def test_every_key_of_a_suite_has_an_example():
    for kind in (SuiteFile, CaseEntry, FilesEntry, StochasticEntry, TableEntry, TolerancesFile):
        assert set(kind.__struct_fields__) - {"dtypes"} <= set(EXAMPLES), kind


def test_a_hint_names_the_innermost_key_with_an_example():
    assert example_hint(("seeds",)) == "write it like this: seeds: 3"
    assert example_hint(("cases", 0, "timeout")) == "write it like this: timeout: 60"
    assert example_hint(("inputs", "seeds", "shape")).startswith("write it like this: inputs: ")
    assert example_hint(("nobody",)) == ""


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("fp16", DTYPE_NAMES, "float16"),
        ("half", DTYPE_NAMES, "float16"),
        ("torch.half", DTYPE_NAMES, "float16"),
        ("np.float32", DTYPE_NAMES, "float32"),
        ("FP32", DTYPE_NAMES, "float32"),
        ("double", DTYPE_NAMES, "float64"),
        ("bf16", DTYPE_NAMES, "bfloat16"),
        ("float8_e4m3_fn", DTYPE_NAMES, "float8_e4m3fn"),
        ("gaussian", DISTRIBUTIONS, "normal"),
        ("randn", DISTRIBUTIONS, "normal"),
        ("rand", DISTRIBUTIONS, "uniform"),
        ("rel_tol", ("rtol", "atol", *METRICS), "rtol"),
        ("absolute-tolerance", ("rtol", "atol", *METRICS), "atol"),
        ("ulps", ("rtol", "atol", *METRICS), "max_ulp"),
        ("shap", ("shape", "dtype"), "shape"),
        ("rnu", COMMANDS, "run"),
        ("test", COMMANDS, "run"),
        ("--modle", ("--model", "--metric"), "--model"),
        ("fp16", ("one", "two"), None),
        ("", DTYPE_NAMES, None),
    ],
)
def test_the_name_that_was_meant_is_suggested(name, known, meant):
    assert nearest_name(name, known) == meant
    assert nearest(name, known) == (f'; did you mean "{meant}"?' if meant else "")
    assert name_hint(name, known, "dtype: ") == (f"write dtype: {meant}" if meant else "")


def test_a_suggestion_is_a_known_name_in_its_own_case():
    assert nearest_name("layernorm", ["LayerNorm"]) == "LayerNorm"


def test_an_unknown_key_is_replaced_or_removed():
    assert key_hint("sedes", ("seeds", "suite")) == "write seeds: in place of sedes:"
    assert key_hint("q", ("low", "high")).startswith("remove q:, or write one of low, high")
    assert "write one of" not in key_hint("q", map(str, range(15)))


def test_few_choices_are_listed_and_many_are_not():
    assert choices(["a", "b"]) == " (a, b)"
    assert choices([]) == choices(map(str, range(15))) == ""


def test_an_error_keeps_its_hint_and_its_page_when_a_worker_sends_it():
    error = UserError("bad-value", "expected 1 but got 2", file="s.yaml", line=3, hint="write 1")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(error) == (
        "s.yaml:3: error[bad-value]: expected 1 but got 2\n"
        "  what to do: write 1\n"
        "  see: docs/errors/suites.md#bad-value"
    )


def test_every_slug_is_on_one_page():
    assert sum(map(len, HINTS.values())) == len(ADVICE)
    for slug in ADVICE:
        page, _, anchor = page_of_error(slug).partition("#")
        assert f"\n## {anchor}\n" in (ROOT / page).read_text()
