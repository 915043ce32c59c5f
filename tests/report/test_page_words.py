"""The words of the page: each language has all of them, and the page uses no others."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from precreg.measure.metrics import COUNT_DESCRIPTIONS
from precreg.report import html
from precreg.report.chinese.page_words import PHRASES_ZH
from precreg.report.page_words import CATALOGUES, HISTORY_CATALOGUES, LANGUAGES, say
from precreg.report.sections import Standing
from precreg.report.two_runs_text import PartKey
from precreg.report.workers import WorkerState
from precreg.types.verdict import Reason, Status

REPORT = Path(html.__file__).parent
SOURCES = (
    "templates/report.html.j2",
    "templates/groups.html.j2",
    "templates/findings.html.j2",
    "templates/page.js",
    "templates/table.js",
    "templates/report.js",
    "templates/two_runs.html.j2",
    "html.py",
)
HISTORY_SOURCES = ("history.html.j2", "table.js", "history.js")
HISTORY_COLUMNS = {"state", "case", "growth", "since", "course"}
HISTORY_STATES = {"failing", "regressed", "improved", "steady"}
# Headings of the table are named by their columns.
COLUMNS = {"status", "case", "loss", "reason", "metric", "current", "baseline", "time"}
# Titles of a comparison's parts are named by their keys.
TITLES = {f"part_{key}" for key in get_args(PartKey)}


def names(text):
    return sorted(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("language", sorted(set(CATALOGUES) - {"en"}))
def test_a_language_has_all_words_with_their_numbers_and_names(language):
    english = {key: names(text) for key, text in CATALOGUES["en"].items()}
    assert {key: names(text) for key, text in CATALOGUES[language].items()} == english
    english = {key: names(text) for key, text in HISTORY_CATALOGUES["en"].items()}
    assert {key: names(text) for key, text in HISTORY_CATALOGUES[language].items()} == english


def test_every_language_has_a_name():
    assert set(LANGUAGES) == set(CATALOGUES)


def test_the_page_uses_every_word_and_no_other():
    text = "".join((REPORT / name).read_text(encoding="utf-8") for name in SOURCES)
    used = set(re.findall(r'\b(?:w|say|label|placeholder|_words)\("(\w+)"', text)) - {"part_"} | COLUMNS | TITLES
    # The script and the templates add the name of a status, a reason, a standing or a worker's state.
    values = {"status_": Status, "reason_": Reason, "standing_": Standing, "worker_": get_args(WorkerState)}
    built = {f"{prefix}{value}" for prefix, kind in values.items() for value in kind}
    assert (used - set(values)) | built == set(CATALOGUES["en"])


def test_every_phrase_of_the_panel_has_chinese_with_its_names():
    script = (REPORT / "templates/case.js").read_text(encoding="utf-8")
    literals = re.findall(r'phrase\((?:[^"()]*\? )?"((?:[^"\\]|\\.)*)"', script)
    literals += re.findall(r'return (?:judged \? )?"([^"]* metrics?, which no limit judges)"', script)
    tables = re.findall(r"(?:WORST = |table\(|shortened\()(\[.*?\])", script)
    words = {json.loads(f'"{each}"') for each in literals} | {word for each in tables for word in json.loads(each)}
    assert len(words) > 70
    # The unit has its own name in every language.
    assert words - set(PHRASES_ZH) == {"ULP"}


def test_every_count_has_chinese():
    assert set(COUNT_DESCRIPTIONS.values()) - set(PHRASES_ZH) == set()


def test_a_phrase_has_the_names_of_its_english():
    assert [english for english, chinese in PHRASES_ZH.items() if names(english) != names(chinese)] == []


def test_the_page_of_a_history_uses_every_word_and_no_other():
    text = "".join((REPORT / "templates" / name).read_text(encoding="utf-8") for name in HISTORY_SOURCES)
    shown = [*re.findall(r'\b(?:w|say|label|placeholder)\("(\w+)"', text), *re.findall(r'data-say="(\w+)"', text)]
    # Columns of tables are named in lists, and some words are chosen by a condition.
    listed = {name for line in re.findall(r"columns\(\[(.*?)\]", text) for name in re.findall(r"\w+", line)}
    chosen = {name for pair in re.findall(r'\? "(\w+)" : "(\w+)"', text) for name in pair} & set(
        HISTORY_CATALOGUES["en"]
    )
    used = {*shown, *listed, *chosen, *HISTORY_COLUMNS, *HISTORY_STATES, "improved"}
    assert used == set(HISTORY_CATALOGUES["en"])


def test_numbers_are_filled_in():
    assert say("some_shown", {"number": 3, "all": "10,000"}) == "3 of 10,000 cases"
    with pytest.raises(KeyError):
        say("some_shown", {"number": 3})
