"""The Chinese pages follow the English ones: the same code, the same headings, the same tables, links to both."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CHINESE = DOCS / "zh"
# Each Chinese page with its English one.
PAGES = {path: DOCS / path.name for path in sorted(CHINESE.glob("*.md"))}
PAGES[ROOT / "README.zh-CN.md"] = ROOT / "README.md"
# The pages that a newcomer reads.
NEWCOMER = {"index", "install", "init", "red-case", "accepting", "bring-kernel", "terminal", "report", "glossary"}
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

pairs = pytest.mark.parametrize(("chinese", "english"), PAGES.items(), ids=lambda path: path.name)


def prose(path):
    return FENCE.sub("", path.read_text())


def shape(path):
    """Return the levels of the headings, and the rows and columns of the tables, in the order of the page."""
    lines = prose(path).splitlines()
    return [
        re.match("#+", line)[0] if line.startswith("#") else len(re.findall(r"(?<!\\)\|", line))
        for line in lines
        if line.startswith(("#", "|"))
    ]


def options(path):
    """Return the code in the text of a page: commands, options, keys, names of metrics."""
    return set(re.findall(r"`([^`]+)`", prose(path)))


def test_the_newcomers_pages_are_there():
    assert {path.stem for path in CHINESE.glob("*.md")} >= NEWCOMER


@pairs
def test_a_page_has_the_code_of_the_english_page(chinese, english):
    assert FENCE.findall(chinese.read_text()) == FENCE.findall(english.read_text())


@pairs
def test_a_page_has_the_headings_and_tables_of_the_english_page(chinese, english):
    columns = 1 if chinese.name == "glossary.md" else 0
    # The glossary has a column more: the English word beside the Chinese one.
    assert shape(chinese) == [each + columns if isinstance(each, int) else each for each in shape(english)]


@pairs
def test_a_page_names_every_option_of_the_english_page(chinese, english):
    assert options(english) - options(chinese) == set()


@pairs
def test_a_page_is_chinese(chinese, english):
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|[“\[][^”\]]*[”\]]", "", prose(chinese))
    assert re.findall(r"(?:\b[A-Za-z]{2,}\b ){4,}", text) == []


def test_readme_links_to_both_languages():
    assert "[中文](README.zh-CN.md)" in (ROOT / "README.md").read_text()
    assert "[English](README.md)" in (ROOT / "README.zh-CN.md").read_text()
