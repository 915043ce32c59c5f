"""docs/search.md: its example runs as printed, and its tables are those of the program."""

import re

from precreg.report.causes.search import _STRATEGIES
from precreg.types.search import SEARCH_METRICS
from tests.docs.test_docs import matches, names, page, sections, table, write_files
from tests.e2e.command import precreg, repository

PAGE = page("search.md")


def test_the_example_happens_as_the_page_tells_it(tmp_path):
    project = repository(write_files(tmp_path, PAGE))
    for command, shown in re.findall(r"^\$ precreg (.*)\n((?:(?!\$ |```).*\n)*)", PAGE, re.MULTILINE):
        done = precreg(project, *[word.strip('"') for word in command.split()])
        assert done.returncode == (1 if command.startswith("run") else 0), done.stderr
        printed = [line.strip() for line in done.stdout.splitlines()]
        for line in shown.splitlines():
            assert any(matches(line.strip(), found) for found in printed), line


def test_the_page_lists_every_strategy():
    rows = table(sections(PAGE)["Strategies"], "strategy", "candidates")
    listed = [words for name, words in _STRATEGIES.items() if name not in ("drawn", "random")]
    assert [row["strategy"] for row in rows] == listed


def test_the_page_names_every_metric():
    assert set(SEARCH_METRICS) <= set(names(sections(PAGE)["Metrics"]))
