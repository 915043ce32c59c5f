"""Hooks of MkDocs: pages that the program writes, files outside docs/, and the fences of tested examples.

mkdocs.yml names this file. `make docs` builds the site.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
# Pages of the site that lie outside docs/: a clone shows them at its top.
_PROJECTS = ("numerical_library", "torch_model", "onnx_model", "c_kernel")
OUTSIDE = {
    "README.md": "tutorial.md",
    "README.zh-CN.md": "zh/tutorial.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples/index.md",
    **{f"examples/{name}/README.md": f"examples/{name}.md" for name in _PROJECTS},
}
_LINK = re.compile(r"\]\(([^)#\s:]+)((?:#[^)]*)?)\)")
_FENCE = re.compile(r"^(```\w+) (.+)$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Put a page of each command into the navigation, below the entry `Commands`."""
    for section in config.nav:
        for pages in section.values():
            for page in pages:
                if isinstance(page, dict) and "Commands" in page:
                    page["Commands"] = ["cli/index.md", *(f"cli/{name}.md" for name in _commands())]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of commands, the pages outside docs/, and each other file that a page links to."""
    from mkdocs.structure.files import File

    texts = {f"cli/{name}.md": command_page(name) for name in _commands()} | {"cli/index.md": index_page()}
    texts |= {name: (ROOT / source).read_text() for source, name in OUTSIDE.items()}
    for name, text in texts.items():
        files.append(File.generated(config, name, content=text))
    linked = {path for source in _sources() for path in _linked_files(source)}
    for path in sorted(linked):
        files.append(File.generated(config, f"source/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page whose links and fences fit the site."""
    name = page.file.src_uri
    # A page of a command shows no file; its links are those of the site.
    source = {page: source for source, page in OUTSIDE.items()}.get(name, f"docs/{name}")
    return site_tables(site_fences(markdown if name.startswith("cli/") else site_links(markdown, source)))


def on_page_context(context: Any, page: Any, config: Any, **_: Any) -> Any:
    """Lead the switch of languages to the same page in the other language, and name the language of a page."""
    name = page.file.src_uri.removeprefix("zh/")
    chinese = (ROOT / "docs" / "zh" / name).exists() or (name in OUTSIDE.values() and f"zh/{name}" in OUTSIDE.values())
    links = {"en": page_address(name), "zh": page_address(f"zh/{name}" if chinese else "zh/index.md")}
    for each in config.extra["alternate"]:
        each["link"] = links[each["lang"]]
    # A page of the theme has the language of the theme; search and screen readers read this attribute.
    config.theme["language"] = "zh" if page.file.src_uri.startswith("zh/") else "en"
    return context


def page_address(name: str) -> str:
    """Return the address of a page from the top of the site."""
    return f"{name.removesuffix('.md')}.html"


def site_links(markdown: str, source: str) -> str:
    """Lead links to the pages of the site.

    Args:
        markdown: the text of a page.
        source: the file that the page shows, from the top of the repository.
    """
    here = posixpath.dirname(_place(source))

    def lead(found: re.Match[str]) -> str:
        place = _place(_linked(source, found[1]))
        return f"]({posixpath.relpath(place, here or '.')}{found[2]})"

    return _LINK.sub(lead, markdown)


def _place(path: str) -> str:
    """Return the place in the site of a file of the repository."""
    return OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}")


def _linked(source: str, target: str) -> str:
    """Return the file that a link of a page names, from the top of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def site_fences(markdown: str) -> str:
    """Make `file=PATH` of a fence the title of its block, and drop words that only tests read.

    Without that, Python-Markdown takes the fence for a paragraph.
    """

    def fence(found: re.Match[str]) -> str:
        file = re.search(r"file=(\S+)", found[2])
        return f'{found[1]} title="{file[1]}"' if file else found[1]

    return _FENCE.sub(fence, markdown)


def site_tables(markdown: str) -> str:
    """Return pipes in code of tables without the backslash, which GitLab needs and Python-Markdown would show."""

    def row(found: re.Match[str]) -> str:
        return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), found[0])

    return re.sub(r"^\|.*$", row, markdown, flags=re.MULTILINE)


def command_page(name: str) -> str:
    """Return the Markdown page of a command and its subcommands, from click's own help."""
    command = _commands()[name]
    context = click.Context(command, info_name=f"precreg {name}")
    parts = [f"# precreg {name}", *_described(command, context)]
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            inner = click.Context(below, info_name=each, parent=context)
            parts += [f"## precreg {name} {each}", *_described(below, inner)]
    return "\n\n".join(parts) + "\n"


def index_page() -> str:
    """Return the page that lists all commands."""
    from precreg.cli.main import COMMANDS

    rows = [f"| [`precreg {name}`]({name}.md) | {_cell(entry.help)} |" for name, entry in COMMANDS.items()]
    return "\n".join(
        [
            "# Commands\n",
            "The program writes these pages from its own help. `precreg COMMAND --help` prints the same text.\n",
            "Exit codes: 0 if nothing is worse, 1 if a loss is proven, 2 if a case could not be judged.\n",
            "| command | purpose |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def _commands() -> dict[str, click.Command]:
    names = import_module("precreg.cli.main").COMMANDS
    group = import_module("precreg.cli.main").precreg
    return {name: group.get_command(click.Context(group), name) for name in names}


def _described(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the usage, the help and the options of one command."""
    yield f"```text\n{context.get_usage().removeprefix('Usage: ')}\n```"
    for part in re.split(r"\n\s*\n", (command.help or "").strip()):
        # click keeps the lines of a paragraph that begins with this character.
        yield f"```text\n{part.lstrip(chr(8)).strip(chr(10))}\n```" if part.startswith("\b") else _prose(part)
    records = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    # An argument without help is in the usage already.
    rows = [f"| `{_cell(option, escape=False)}` | {_cell(text)} |" for option, text in records if text]
    yield "\n".join(["| option | meaning |", "|---|---|", *rows])


def _prose(text: str) -> str:
    return re.sub(r"([*_`\[\]])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


def _cell(text: str, *, escape: bool = True) -> str:
    return (_prose(text) if escape else " ".join(text.split())).replace("|", "\\|")


def _sources() -> list[Path]:
    return [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in OUTSIDE)]


def _linked_files(source: Path) -> Iterator[str]:
    """Yield each file of the repository that a page links to and that is no page of the site."""
    for target, _ in _LINK.findall(source.read_text()):
        path = _linked(source.relative_to(ROOT).as_posix(), target)
        if path not in OUTSIDE and not path.startswith("docs/") and (ROOT / path).is_file():
            yield path
