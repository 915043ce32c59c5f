"""The site: pages are short, each is in the navigation, links lead somewhere, and commands have their options."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from precreg.cli.main import COMMANDS, precreg

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
SITE = runpy.run_path(str(ROOT / ".ci" / "site.py"))
MAX_WORDS = 2500


def words(text):
    """Count the words of a page: what has a letter or a digit, so that the lines of tables do not count."""
    return sum(bool(re.search(r"[^\W_]", word)) for word in text.split())


def navigation(entries):
    """Yield the pages of a part of the navigation."""
    for entry in entries:
        for page in entry.values() if isinstance(entry, dict) else [entry]:
            yield from navigation(page) if isinstance(page, list) else [page]


CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def test_a_page_is_short():
    assert [name for name in PAGES if words((DOCS / name).read_text()) > MAX_WORDS] == []


def test_every_page_is_in_the_navigation_once():
    assert sorted(navigation(CONFIG["nav"])) == sorted([*PAGES, *SITE["OUTSIDE"].values()])


def test_the_build_refuses_links_that_lead_nowhere():
    assert CONFIG["strict"] is True
    assert set(CONFIG["validation"]["links"].values()) | set(CONFIG["validation"]["nav"].values()) == {"warn"}
    assert "mkdocs build --strict" in (ROOT / "Makefile").read_text()


def anchors(text):
    """Return the anchors of the headings of a page."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in re.findall(r"^#+ (.*)$", prose, re.M)}


@pytest.mark.parametrize(
    "file", [*(DOCS / name for name in PAGES), *(ROOT / name for name in SITE["OUTSIDE"])], ids=str
)
def test_every_link_and_anchor_of_a_page_leads_somewhere(file):
    prose = re.sub(r"^```.*?^```$", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)#?([^)\s:]*)\)", prose):
        other = file.parent / target if target else file
        assert other.exists(), f"{file.name}: {target}"
        assert not anchor or anchor in anchors(other.read_text()), f"{file.name}: {target}#{anchor}"


def test_messages_and_comments_name_pages_that_are_there():
    for file in [*(ROOT / "precreg").rglob("*.py"), *(ROOT / "suites").rglob("*.yaml")]:
        for name in re.findall(r"docs/([a-z\d_/-]+\.md)", file.read_text()):
            assert name in PAGES, f"{file}: docs/{name}"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_of_a_command_has_its_options(name):
    text = SITE["command_page"](name)
    command = precreg.get_command(click.Context(precreg), name)
    below = [command, *command.commands.values()] if isinstance(command, click.Group) else [command]
    for each in below:
        for option in each.params:
            shown = isinstance(option, click.Option) and not option.hidden
            assert not shown or all(f"{flag}" in text for flag in option.opts), option
    assert f"| [`precreg {name}`]({name}.md) | " in SITE["index_page"]()


def test_links_of_outer_pages_lead_to_the_site():
    readme = SITE["site_links"](
        "[a](docs/api.md#x) [b](CONTRIBUTING.md) [c](Makefile) [d](https://e.org/)", "README.md"
    )
    assert readme == "[a](api.md#x) [b](contributing.md) [c](source/Makefile) [d](https://e.org/)"
    assert (
        SITE["site_links"]("[a](api.md) [b](../CONTRIBUTING.md#x)", "docs/b.md") == "[a](api.md) [b](contributing.md#x)"
    )
    below = SITE["site_links"]("[a](suites.md#x) [b](../api.md) [c](../../Makefile)", "docs/errors/b.md")
    assert below == "[a](suites.md#x) [b](../api.md) [c](../source/Makefile)"


def test_a_fence_keeps_the_name_of_its_file_alone():
    assert SITE["site_fences"]("```yaml file=a/b.yaml\n```console exit=1\n") == '```yaml title="a/b.yaml"\n```console\n'
    assert SITE["site_tables"]("| `a \\| b` | c \\| d |\n`a \\| b`") == "| `a | b` | c \\| d |\n`a \\| b`"


def test_help_becomes_no_markup():
    @click.command(help="Read <b>x</b> and *y*.")
    @click.option("--z", help="A <script> of `z`.")
    def command(z):
        pass

    shown = "\n".join(SITE["_described"](command, click.Context(command, info_name="c")))
    assert "<" not in shown
    assert r"\*y\*" in shown


def test_the_site_is_built(tmp_path):
    pytest.importorskip("mkdocs_autorefs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "site" / "index.html").read_text()
    assert not re.findall(r'(?:src|href)="https?://(?!squidfunk)[^"]*"', index), "the site loads nothing from a network"
    assert "precreg.api.compare" in (tmp_path / "site" / "api-reference.html").read_text()
    assert "--shard" in (tmp_path / "site" / "cli" / "run.html").read_text()
