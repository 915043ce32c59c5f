"""The table: detection by severity and false alarms, by group of operators, and alarms on null controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from detecting.labels import AVERAGES, Label
from detecting.operators import GROUPS, OPERATORS, group_of
from detecting.rules import ALONE, DEFAULT, DEFAULT_ELSEWHERE, OURS, RULES
from detecting.trials import Told

BANDS = (("<1.1", 1.1), ("1.1-1.5", 1.5), ("1.5-3", 3.0), ("3-10", 10.0), (">10", inf))
COLUMNS = ("hard", *(name for name, _ in BANDS), "all", "<1.5", "tails", "alarms", "alarms, other bits")
Labels = Mapping[str, Mapping[str, Label]]


def band_of(found: Label) -> str:
    """Name the column of a harmful change."""
    return "hard" if found.hard else next(name for name, most in BANDS if found.severity <= most)


def column(name: str, labels: Labels) -> Callable[[Told], bool]:
    """Tell which rows count in a column."""

    def counts(one: Told) -> bool:
        found = labels[one.operator][one.change]
        if name == "tails":
            return found.worse_in_tails
        if name.startswith("alarms"):
            return found.harmless and not (name != "alarms" and one.same_bits)
        if found.label != "harmful":
            return False
        band = band_of(found)
        return name == "all" or band == name or (name == "<1.5" and band in ("<1.1", "1.1-1.5"))

    return counts


def table(rows: Sequence[Told], labels: Labels) -> Iterator[list[str]]:
    """Yield the lines of a table, cell by cell: how many changes there are, and in what share of trials rules told."""
    yield ["", *COLUMNS]
    chosen = {name: [one for one in rows if column(name, labels)(one)] for name in COLUMNS}
    yield ["changes", *(str(len({(one.operator, one.change) for one in found})) for found in chosen.values())]
    for rule in rules_of(rows):
        flags = ([one.flags[rule] for one in found if rule in one.flags] for found in chosen.values())
        yield [rule, *map(share, flags)]


def rules_of(rows: Sequence[Told]) -> list[str]:
    """Return the rules that were asked, in the order of tables."""
    return [rule for rule in (*OURS, *RULES) if any(rule in one.flags for one in rows)]


def in_columns(cells: Sequence[str]) -> str:
    """Give a line of a table, as wide as the names of columns need."""
    widths = [max(len(name), 7) + 2 for name in COLUMNS]
    return f"{cells[0]:30}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells[1:], widths, strict=True))


def in_markdown(cells: Sequence[str]) -> str:
    """Give a line of a table of a page; below the names of columns stands the line that makes it one."""
    line = f"| {' | '.join(cells)} |"
    return line if cells[0] else f"{line}\n|{'---|' * len(cells)}"


def share(flags: Sequence[bool]) -> str:
    """Show a share; nothing where there is nothing to share."""
    return f"{100 * sum(flags) / len(flags):.1f} %" if flags else "-"


def tables(rows: Sequence[Told], labels: Labels, show: Callable[[Sequence[str]], str]) -> Iterator[str]:
    """Yield the lines of the tables of both halves, apart and together, and of the operators that were written last."""
    for title, found in parts(rows):
        yield f"\n{title}\n" if show is in_markdown else f"\n{title}"
        yield from map(show, table(found, labels))


def parts(rows: Sequence[Told]) -> Iterator[tuple[str, list[Told]]]:
    """Yield the title and the rows of each group of operators, and of both halves together."""
    *halves, last = GROUPS
    titles = {(group,): group for group in halves} | {tuple(halves): "both halves", (last,): last}
    for groups, title in titles.items():
        yield title, [one for one in rows if group_of(one.operator) in groups]


def null_controls(rows: Sequence[Told]) -> Iterator[str]:
    """Yield the share of alarms of each rule on null controls, in trials in which bits differ: all of them are false.

    Labels have no part in this, because these changes are as accurate as the original by construction.
    """
    drawn = [one for one in rows if one.change in OPERATORS[one.operator].null and not one.same_bits]
    changes = len({(one.operator, one.change) for one in drawn})
    yield f"\nalarms on null controls: {changes} changes with other bits, as accurate as the original by construction"
    for rule in rules_of(drawn):
        flags = [one.flags[rule] for one in drawn if rule in one.flags]
        yield f"  {rule:30}{share(flags):>8} of {len(flags)} trials"


def summary(labels: Labels) -> Iterator[str]:
    """Yield how many changes have which label, and which are not scored."""
    every = [(operator, change, found) for operator, of in labels.items() for change, found in of.items()]
    count = {name: sum(found.label == name for _, _, found in every) for name in ("harmful", "not_worse", "grey")}
    yield (
        f"{len(labels)} operators, {len(every)} changes: {count['harmful']} harmful, {count['not_worse']} not worse, "
        f"{count['grey']} grey"
    )
    yield tails_summary([found for _, _, found in every if found.label == "not_worse"])
    unexpected = [
        f"  {operator}: {change}: {found.label}, {shown(found)}"
        for operator, change, found in every
        if expected(operator, change) != found.label
    ]
    yield f"{len(unexpected)} changes are measured to be other than their authors expected, grey ones among them:"
    yield from unexpected


def tails_summary(not_worse: Sequence[Label]) -> str:
    """Return how many changes whose averages are not worse have worse maxima or biases, or unclear ones."""
    names = [found.tails.label if found.tails else "unclear" for found in not_worse if found.asks_for_tails]
    return (
        f"of {len(names)} that are not worse, with other bits: {names.count('worse')} worse in a maximum or a bias "
        f"(tails), {names.count('unclear')} unclear in these, which count as alarms"
    )


def expected(operator: str, change: str) -> str:
    """Tell what the author of a change expected."""
    return "harmful" if change in OPERATORS[operator].harmful else "not_worse"


def shown(found: Label) -> str:
    """Show ratios and their bounds."""
    if found.hard:
        return "hard effect"
    ratios = (found.ratios[name] for name in AVERAGES)
    shortened = ("abs", "rms", "log2")
    every = [*zip(shortened, ratios, strict=True)]
    if found.tails:
        every.append((f"{found.tails.label.replace('_', ' ')} in {found.tails.figure}", found.tails.growth))
    return ", ".join(f"{name} {one.value:.4g} ({one.lower:.4g} to {one.upper:.4g})" for name, one in every)


def mistakes(rows: Sequence[Told], labels: Labels) -> Iterator[str]:
    """Yield what precreg missed and where it was wrong to tell, by change, with what is true of it.

    Reports of worse maxima and biases are true, and stand apart.
    """
    kinds = (
        ("missed", "all", False),
        ("worse maxima and biases found", "tails", True),
        ("false alarms", "alarms", True),
    )
    for rule in (ALONE, DEFAULT, DEFAULT_ELSEWHERE):
        if rule not in rules_of(rows):
            continue
        for title, name, flag in kinds:
            yield f"\n{title} by {rule}"
            asked = [one for one in rows if rule in one.flags and column(name, labels)(one)]
            yield from listed(rule, flag, asked, labels)


def listed(rule: str, flag: bool, rows: Sequence[Told], labels: Labels) -> Iterator[str]:
    """Yield the changes that a rule reported, or did not, in how many trials, and its evidence in the first one."""
    found: dict[tuple[str, str], list[Told]] = {}
    for one in rows:
        found.setdefault((one.operator, one.change), []).append(one)
    for (operator, change), trials in found.items():
        some = [one for one in trials if one.flags[rule] is flag]
        if some:
            true = shown(labels[operator][change])
            yield f"  {len(some)} of {len(trials)}  {operator}: {change} ({group_of(operator)}); {true}"
            yield f"        {some[0].evidence[rule]}"
