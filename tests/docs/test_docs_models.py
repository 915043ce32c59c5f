"""docs/models.md: its suites exist, and its figures are those of the accepted baselines."""

import json
import re

import pytest

from precreg.suite.load import load_suites
from tests.e2e.command import ROOT

PAGE = (ROOT / "docs" / "models.md").read_text()
FIGURES = re.findall(r"^\| `(model/\w+)` \| `(\w+)` \| (\w+) \| (\S+) \| (\S+) \| (\d+) of (\d+) \|$", PAGE, re.M)
FLIPS = {"words": "top1_words", "logits": "top1"}


def accepted(suite, case):
    """Return the outputs of a case as its baseline has them."""
    stored = json.loads((ROOT / "baselines" / "generic" / f"{suite}.json").read_text())
    return stored["cases"][case]["outputs"]


def mean(outputs, output, metric):
    values = outputs[output]["metrics"][metric]
    return sum(values) / len(values)


def test_every_suite_of_the_page_is_shipped_and_every_suite_of_torch_is_on_it():
    shipped = {suite.id for suite in load_suites(ROOT) if "torch" in suite.file.tags}
    assert shipped == set(re.findall(r"^\| `(model/\w+)` \| [^`]", PAGE, re.M))


@pytest.mark.parametrize("row", FIGURES, ids=lambda row: "-".join(row[:3]))
def test_figures_are_those_of_the_baselines(row):
    suite, output, precision, error, divergence, flips, places = row
    outputs = accepted(suite, precision)
    assert f"{mean(outputs, output, 'mean_abs_error'):.2g}" == error
    assert f"{mean(outputs, output, 'classes.kl_divergence'):.2g}" == divergence
    share = mean(outputs, FLIPS[output], "match_ratio")
    assert round((1 - share) * int(places)) == int(flips)


def test_the_table_has_every_precision():
    assert len(FIGURES) == 12


def test_the_scores_of_the_detector_are_those_of_the_baselines():
    for words, case in (("bfloat16 it is", "bfloat16"), ("int8", "int8")):
        first, second = re.search(rf"{words} ([\d.]+) and ([\d.]+)", PAGE).groups()
        errors = accepted("model/fcos", case)["mean_average_precision"]["metrics"]["mean_abs_error"]
        assert [f"{1 - error:.3f}" for error in errors] == [first.rstrip("."), second.rstrip(".")]
