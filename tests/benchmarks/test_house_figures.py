"""The figures of the code base, of a made-up package whose figures are known."""

import json
import subprocess
import sys
from importlib import import_module

import pytest

from tests.e2e.command import ROOT, environ

SCRIPT = ROOT / "benchmarks" / "house.py"
FILES = {
    "__init__.py": '"""A made-up package."""\n',
    "__main__.py": """\
import os
import signal
import sys

from precreg.high import judge

judge.judged()
if "--jobs" in sys.argv and sys.argv[-1] == "1":
    read, write = os.pipe()
    worker = os.fork()
    if worker == 0:
        import precreg.low.worker

        os.write(write, b"1")
        signal.pause()
    os.read(read, 1)
    os.kill(worker, signal.SIGKILL)
""",
    "loose.py": "def shared():\n    from precreg.low import a\n\n    return a\n",
    "low/__init__.py": "",
    "low/a.py": '''\
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from precreg.high.judge import Judge  # noqa: TC004

# A reason.
LIMIT = 3  # another reason


def shared(judge: Judge) -> int:
    """Return the limit."""
    return LIMIT


def twin():
    return [shared(each) for each in (1, 2)]
''',
    "low/b.py": "def twin():\n    return 1\n\n\ndef _private():\n    return 1\n",
    "low/worker.py": "",
    "high/__init__.py": "",
    "high/judge.py": '''\
import precreg.low.a
from .. import loose
from precreg.high import judge_other

try:
    import precreg.low.missing
except ImportError:
    pass


class Judge:
    """Judges."""

    def verdict(self):
        return precreg.low.a.twin()


def judged():
    return Judge().verdict(), loose.shared()
''',
    "high/judge_other.py": "def late():\n    from precreg.high import judge\n\n    return judge\n",
}
PAGE = "# Title\n\nThis is what a reader told us. What was it?\n"


@pytest.fixture
def house(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("house")


@pytest.fixture
def checkout(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "precreg" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "precreg" / "core").mkdir()
    (tmp_path / "precreg" / "core" / "a.hpp").write_text("")
    (tmp_path / "README.md").write_text(PAGE)
    return tmp_path


def test_modules_and_folders_are_counted(house, checkout):
    sizes = house.sizes(checkout, house.modules(checkout))
    lines = sorted(len(text.splitlines()) for text in FILES.values())
    assert sizes == {
        "modules": 10,
        "lines": sum(lines),
        "lines of a module, median": (lines[4] + lines[5]) / 2,
        "lines of a module, maximum": 19,
        "loose modules": 3,
        "rooms (top-level folders)": 3,
        "packages": 3,
    }


def test_arrows_count_imports_in_functions_and_for_types(house, checkout):
    assert house.arrows(house.modules(checkout)) == {
        "arrows between rooms": 2,  # high -> low, and low -> high for types
        "arrows between rooms and loose modules": 6,  # and __main__ -> high, low; high -> loose -> low
        "modules in the largest import circle": 2,  # judge and judge_other; low.a imports judge for types alone
    }


def test_names_are_counted_by_package_and_by_module(house, checkout):
    assert house.names(house.modules(checkout)) == {
        "public names in several packages": 1,  # shared
        "public names in several modules": 2,  # shared and twin
        "public names in several modules, %": 40,  # of shared, twin, Judge, judged and late
    }


def test_functions_and_their_documentation_are_measured(house, checkout):
    figures = house.functions(house.modules(checkout))
    assert list(figures.values()) == [2, 4, 4, pytest.approx(100 * 2 / 8)]


def test_comments_for_tools_do_not_count(house, checkout):
    total = sum(len(text.splitlines()) for text in FILES.values())
    assert house.comments(house.modules(checkout)) == {"# comments per 100 lines": pytest.approx(200 / total)}


def test_patterns_are_counted_by_words_of_prose(house, checkout):
    figures = house.words(checkout)
    total = figures["precreg and main pages: words"]
    assert total > 10
    label = "precreg and main pages: {}, per 1,000 words"
    for pattern in ("what is/was/a/the/it ...", "told, tell", "begins with What/Whether/..."):
        assert figures[label.format(pattern)] == pytest.approx(1000 / total)
    assert figures["docs: words"] == 0


def test_code_is_no_prose(house, tmp_path):
    file = tmp_path / "a.py"
    file.write_text('"""Docs."""\nwhat = is_it\nx = "a message"  \n# a comment\ny = 1\n')
    assert house.prose(file) == ['"""Docs."""', 'x = "a message"  ', "# a comment"]


def test_a_run_shows_modules_and_functions(house, checkout):
    figures = import_module("house_run").run_figures(
        checkout, "a/case", ["precreg.gone:judged", "precreg.high.judge:judged"]
    )
    assert figures == {
        "modules imported, --jobs 0": 8,  # precreg, __main__, high, judge, judge_other, low, low.a, loose
        "modules imported, --jobs 1, main process": 8,
        "modules imported, --jobs 1, worker": 8,  # worker; but __main__ has another name in the fork
        "compiled modules imported": 0,
        "functions entered, --jobs 0": 5,  # judged, verdict, twin, shared of two modules
        "modules entered, --jobs 0": 3,
        "modules entered by judging, identical bits": 3,
        "functions entered, other bits": None,
        "modules entered, other bits": None,
        "modules entered by judging, other bits": None,
    }


def test_a_judge_that_no_run_enters_is_a_dash(house, checkout):
    columns = [("a", house.figures(checkout, "a/case", ["precreg.gone:judged"], static=False))]
    line = next(line for line in house.table(columns).splitlines() if "by judging, identical" in line)
    assert line.split()[-1] == "-"


def test_a_run_that_fails_is_an_error_with_its_output(house, checkout):
    (checkout / "precreg" / "__main__.py").write_text("print('no such case')\nraise SystemExit(2)\n")
    with pytest.raises(RuntimeError, match=r"exited with 2:\nno such case"):
        import_module("house_run").run_figures(checkout, "a/case", [])


@pytest.mark.parametrize("reason", ["identical", "within_tolerance"])
def test_an_edited_run_must_have_other_bits(house, checkout, reason):
    parts = import_module("house_run")
    edited = checkout / parts.EDIT[0]
    edited.parent.mkdir(parents=True)
    edited.write_text(parts.EDIT[1])
    record = json.dumps({"results": [{"verdict": {"reason": reason}}]})
    with (checkout / "precreg" / "__main__.py").open("a") as file:
        file.write(f"os.mkdir('reports')\nopen('reports/record.json', 'w').write({record!r})\n")
    judges = ["precreg.high.judge:judged"]
    if reason == "identical":
        with pytest.raises(RuntimeError, match="expected other bits"):
            parts.run_figures(checkout, parts.CASE, judges)
    else:
        assert parts.run_figures(checkout, parts.CASE, judges)["functions entered, other bits"] == 5
    assert edited.read_text() == parts.EDIT[1]


def test_two_checkouts_are_two_columns(house, checkout):
    command = [sys.executable, SCRIPT, "--static", "--beside", checkout]
    run = {"env": environ(), "capture_output": True, "text": True, "check": True}
    shown = subprocess.run([*command, "--checkout", ROOT, "--json"], **run).stdout
    ours, theirs = json.loads(shown)
    assert list(ours["figures"]) == list(theirs["figures"])
    assert theirs["figures"]["modules"] == 10
    # The figures of a whole house take seconds, so its table is made of those above.
    table = house.table([(column["commit"], column["figures"]) for column in (ours, theirs)]).splitlines()
    assert all(len(line) == len(table[0]) for line in table)
    assert next(line for line in table if line.startswith("loose modules")).split()[-1] == "3"
    same = house.table([(theirs["commit"], theirs["figures"])] * 2)
    assert subprocess.run([*command, "--checkout", checkout], **run).stdout == f"{same}\n"
