"""How are changes of many baselines printed? `precreg baseline diff`, `list` and `accept` share the bounds."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from precreg.cli.console import show_lines, terminal_width

if TYPE_CHECKING:
    from precreg.baseline import AcceptedEntries, BaselineChange, BaselineKey, ProposalChange
    from precreg.types import BaselineEntry, Case

# Proposals or accepted cases that are printed one by one; a screen has some 50 lines, and each may take several.
MAX_SINGLE_CASES = 20
# Baselines that are listed one by one, a line each.
MAX_LISTED = 50
# All changes of the last acceptance, where the terminal shows the largest alone. git ignores the folder.
ACCEPTED_FILE = ".precreg/accepted.md"


def print_changes_since(
    project: Path, revision: str, patterns: Sequence[str], *, markdown: bool, verbose: bool
) -> None:
    """Print the changes of the matching baselines since a revision. Raises UserError as `changes_since`."""
    from precreg.baseline import changes_since
    from precreg.report import count_changes, render_changes_markdown, render_changes_terminal

    commit, changes = changes_since(project, revision, patterns)
    command = " ".join(["precreg baseline diff", *map(quote, patterns), "--against", quote(revision), "--verbose"])
    if markdown:
        text = render_changes_markdown(changes, since=commit, everything=verbose, command=command)
        click.echo(text, nl=False)
        return
    table = render_changes_terminal(changes, everything=verbose, width=terminal_width(sys.stdout))
    show_lines(table if changes else ["no figure changed"])
    left_out = "" if verbose or len(changes) <= MAX_SINGLE_CASES else f" ({command} shows all)"
    show_lines([f"{count_changes(changes)} since {commit[:8]}{left_out}"])


def print_proposals_markdown(changes: Sequence[ProposalChange], patterns: Sequence[str], *, verbose: bool) -> None:
    """Print the changes that accepting proposals would make as Markdown."""
    from precreg.baseline import changes_of_proposals
    from precreg.report import render_changes_markdown

    command = " ".join(["precreg baseline diff", *map(quote, patterns), "--verbose"])
    found = changes_of_proposals(changes)
    click.echo(render_changes_markdown(found, everything=verbose, command=command), nl=False)


def describe_many_proposals(changes: Sequence[ProposalChange], width: int | None) -> Iterator[str]:
    """Yield totals by suite and the largest changes of many proposals, and the way to see each."""
    from precreg.baseline import change_of_acceptance, sort_changes
    from precreg.report import count_changes, render_changes_terminal

    outdated = elsewhere = 0
    found = []
    # Once, because each change is read from its proposal anew.
    for change in changes:
        found.append(change_of_acceptance(change))
        outdated += change.outdated
        elsewhere += change.environment_change is not None
    found = sort_changes(found)
    yield from render_changes_terminal(found, width=width)
    yield count_changes(found)
    if outdated:
        yield f"{outdated} are outdated: their code or definition changed since the run"
    if elsewhere:
        yield f"{elsewhere} ran in an environment that differs from the one of their baselines"
    yield "one by one: precreg baseline diff --verbose, or name a suite: precreg baseline diff " + quote(
        f"{changes[0].place.suite}/*"
    )


def print_accepted(project: Path, accepted: AcceptedEntries, changes: Sequence[BaselineChange]) -> None:
    """Print accepted entries one by one; many of them as counts, with the largest changes, and all in a file."""
    from precreg.baseline import sort_changes, write_file
    from precreg.report import count_cases, count_changes, render_changes_markdown, render_changes_terminal

    if len(accepted) <= MAX_SINGLE_CASES:
        for place, entry in accepted.items():
            notes = filter(None, ("known bad" if entry.known is not None else "", entry.confirmation))
            click.echo(f"accepted {place}" + (f" ({'; '.join(noted)})" if (noted := [*notes]) else ""))
        return
    found = sort_changes(changes)
    show_lines(render_changes_terminal(found, width=terminal_width(sys.stdout)))
    for note, number in Counter(filter(None, accepted.confirmed.values())).items():
        click.echo(f"{count_cases(number)}: {note}")
    write_file(project, ACCEPTED_FILE, render_changes_markdown(found, everything=True))
    files = {place.file for place in accepted}
    click.echo(f"accepted {count_changes(found)}, in {_count_files(files)}")
    click.echo(f"all of them: {ACCEPTED_FILE}; for the merge request: precreg baseline diff --markdown --against auto")


def warn_of_powerless(cases: Mapping[str, Case], found: Sequence[str], accepted: int) -> None:
    """Print the accepted cases whose baselines see no loss of an output by a statistic."""
    from precreg.report import describe_powerless

    of_tables = {id: None for id in found if id in cases and cases[id].subject.kind == "table"}
    for ids, figures_alone in (([*of_tables], True), ([id for id in found if id not in of_tables], False)):
        if ids:
            click.echo(describe_powerless(ids, accepted, figures_alone=figures_alone), err=True)


def note_power(
    cases: Mapping[str, Case], chain: tuple[str, ...], powerless: dict[str, bool], id: str, entry: BaselineEntry
) -> None:
    """Note whether an entry that is stored sees no loss by a statistic: later, it would be unpacked once more."""
    powerless[id] = _is_powerless(cases.get(id), entry, chain)


def _is_powerless(case: Case | None, entry: BaselineEntry, chain: tuple[str, ...]) -> bool:
    """Return whether the baseline of a case sees no loss of an output by a statistic; `chain` is of this machine."""
    from precreg.cli.report import entry_power
    from precreg.verdict import case_alpha, has_few_samples

    # No suite lists a test-defined case, so its tolerance is unknown here.
    if case is None:
        return any(has_few_samples(entry, output) for output in entry.outputs)
    # A declared failure is judged by no baseline.
    if case.expect_failure is not None or entry.definition != case.baseline_definition:
        return False
    # The level moves figures, and does not decide whether there is one.
    return entry_power(case, entry, chain, case_alpha(1), same_environment=True).worst is None


def describe_listed(entries: Mapping[BaselineKey, BaselineEntry], lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of baselines, or a line for each file if there are too many, and the total."""
    if len(lines) <= MAX_LISTED:
        yield from lines
        return
    by_file: dict[str, list[BaselineEntry]] = {}
    for place, entry in entries.items():
        by_file.setdefault(place.file, []).append(entry)
    for file, of_file in by_file.items():
        yield f"{file}: {len(of_file)}, {_dates(of_file)}{_known_bad(of_file)}"
    every = [*entries.values()]
    yield f"{len(every)} baselines in {_count_files(by_file)}, {_dates(every)}{_known_bad(every)}"
    yield "one by one: precreg baseline list --all, or name a suite: precreg baseline list " + quote(
        f"{next(iter(entries)).suite}/*"
    )


def _count_files(files: Collection[str]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files)} files"


def _dates(entries: Sequence[BaselineEntry]) -> str:
    dates = sorted({entry.date for entry in entries})
    return f"accepted {dates[0]}" if len(dates) == 1 else f"accepted {dates[0]} to {dates[-1]}"


def _known_bad(entries: Iterable[BaselineEntry]) -> str:
    number = sum(entry.known is not None for entry in entries)
    return f", {number} known bad" if number else ""
