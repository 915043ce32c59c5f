"""Which parts of a changed file can be undone one by one: functions, statements, operations, lines?

Parts are edits of the bad version's source. An edit replaces a span of bytes by the good version's source, so edits of
different spans can be combined.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from precreg.types import ChangeLevel, CodeChange

# Functions of other names belong together if so large a share of their nodes is the same.
_MIN_SIMILARITY = 0.6

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Block = Sequence[ast.stmt]


class SourcePart(NamedTuple):
    """One part of a change: its facts, and the edit that undoes it.

    `start` and `end` are offsets in the bytes of the bad file; -1 stands for the whole file. `text` replaces the span;
    None removes the file. `nodes` are the sources of a finer division.
    """

    change: CodeChange
    start: int = -1
    end: int = -1
    text: bytes | None = None
    nodes: tuple[_Source, ast.AST, _Source, ast.AST] | None = None


class _Source:
    """A file's bytes with its syntax tree."""

    def __init__(self, file: str, content: bytes) -> None:
        self.file, self.content = file, content
        self.tree = ast.parse(content)
        self._starts = [0]
        for line in content.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the offsets of a node; those of a function begin at its first decorator."""
        first = min((node, *getattr(node, "decorator_list", ())), key=lambda each: each.lineno)
        # A decorator's own offset is behind the @.
        column = node.col_offset  # type: ignore[attr-defined]
        end = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return self._starts[first.lineno - 1] + column, end

    def text(self, *nodes: ast.AST) -> bytes:
        """Return the source from the first node to the last one."""
        return self.content[self.span(nodes[0])[0] : self.span(nodes[-1])[1]]


def functions_changed(pairs: Mapping[str, tuple[str, bytes]], bad: Mapping[str, bytes]) -> list[SourcePart]:
    """Return the changed functions and statements of modules, as parts of the bad version's files.

    `pairs` has the good version's file name and content for each bad file that has one; `bad` has the bad contents. A
    function that moved to another file, or has another name, is compared with its former self.
    """
    good_sources = {file: source for file, content in pairs.values() if (source := _parsed(file, content))}
    moved = [(source, name, node) for source in good_sources.values() for name, node in _functions(source.tree)]
    found: list[SourcePart] = []
    for file, content in bad.items():
        source, good = _parsed(file, content), good_sources.get(pairs[file][0]) if file in pairs else None
        if source is not None:
            found += _module_parts(source, good, moved)
    return found


def _parsed(file: str, content: bytes) -> _Source | None:
    if not file.endswith(".py"):
        return None
    try:
        return _Source(file, content)
    except (SyntaxError, ValueError):
        return None


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, _Function]]:
    """Yield the functions and methods of a module by their qualified names; inner functions belong to outer ones."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Function):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _functions(node, prefix)


def _dump(node: ast.AST) -> str:
    """Return a text that is equal for equal code: without places, comments and docstrings."""
    if isinstance(node, _Function | ast.ClassDef) and ast.get_docstring(node, clean=False) is not None:
        body = node.body[1:] or [ast.Pass()]
        fields = {name: value for name, value in ast.iter_fields(node) if name != "body"}
        node = type(node)(**fields, body=body)
    return ast.dump(node)


def _module_parts(
    bad: _Source, good: _Source | None, moved: Sequence[tuple[_Source, str, _Function]]
) -> Iterator[SourcePart]:
    own = dict(_functions(good.tree)) if good is not None else {}
    present = dict(_functions(bad.tree))
    for name, node in present.items():
        former = _former(name, node, good, own, moved, present)
        if former is None:
            change = CodeChange("function", bad.file, name, node.lineno, bad=_shown(bad.text(node)))
            yield SourcePart(change, *bad.span(node), b"pass")
            continue
        if _dump(former[1]) == _dump(node):
            continue
        before = former[1]
        text = former[0].text(before)
        if before.col_offset != node.col_offset or before.name != node.name:
            text = _indented(_renamed(before, node.name), node.col_offset)
        change = CodeChange("function", bad.file, name, node.lineno)
        yield SourcePart(change, *bad.span(node), text, (bad, node, former[0], before))
    if good is not None:
        yield from _outside_functions(bad, good, "")
        yield from _removed(bad, good, own, present)


def _former(
    name: str,
    node: _Function,
    good: _Source | None,
    own: Mapping[str, _Function],
    moved: Sequence[tuple[_Source, str, _Function]],
    present: Mapping[str, _Function],
) -> tuple[_Source, _Function] | None:
    """Return the good version of a function: of its name in its file, of its name elsewhere, or the most similar."""
    if good is not None and name in own:
        return good, own[name]
    named = [(source, each) for source, other, each in moved if other == name]
    if named:
        return named[0]
    # A function that is still there under its name has its own counterpart.
    gone = [(source, each) for source, other, each in moved if other not in present]
    ranked = [(_similarity(node, each), number) for number, (_, each) in enumerate(gone)]
    best = max(ranked, default=(0.0, 0))
    return gone[best[1]] if best[0] >= _MIN_SIMILARITY else None


def _similarity(one: ast.AST, other: ast.AST) -> float:
    own, others = ([type(node).__name__ for node in ast.walk(each)] for each in (one, other))
    return SequenceMatcher(None, own, others, autojunk=False).ratio()


def _renamed(node: _Function, name: str) -> ast.AST:
    fields = {**dict(ast.iter_fields(node)), "name": name}
    return ast.copy_location(type(node)(**fields), node)


def _indented(node: ast.AST, column: int) -> bytes:
    lines = ast.unparse(node)
    return textwrap.indent(lines, " " * column).lstrip().encode()


def _removed(
    bad: _Source, good: _Source, own: Mapping[str, _Function], present: Mapping[str, _Function]
) -> Iterator[SourcePart]:
    """Yield the functions of the module that the bad version lacks, for its end."""
    similar = {id(each) for name, each in own.items() if name in present}
    for name, node in own.items():
        if id(node) not in similar and "." not in name and node.col_offset == 0:
            text = b"\n\n" + good.text(node) + b"\n"
            change = CodeChange("function", bad.file, name, 0, good=_shown(good.text(node)))
            yield SourcePart(change, len(bad.content), len(bad.content), text)


def _outside_functions(bad: _Source, good: _Source, function: str) -> Iterator[SourcePart]:
    """Yield the changed statements of a module and of its classes that are no functions."""
    yield from _block_parts(bad, _plain(bad.tree.body), good, _plain(good.tree.body), function)
    classes = {node.name: node for node in good.tree.body if isinstance(node, ast.ClassDef)}
    for node in bad.tree.body:
        if isinstance(node, ast.ClassDef) and node.name in classes:
            former = classes[node.name]
            yield from _block_parts(bad, _plain(node.body), good, _plain(former.body), node.name)


def _plain(body: _Block) -> list[ast.stmt]:
    return [node for node in body if not isinstance(node, _Function | ast.ClassDef) and not _is_text(node)]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def statements_of(part: SourcePart) -> list[SourcePart]:
    """Return the changed statements and default values of a changed function."""
    if part.nodes is None or part.change.level != "function":
        return []
    bad, node, good, before = part.nodes
    assert isinstance(node, _Function)
    assert isinstance(before, _Function)
    name = part.change.function
    bodies = [[each for each in function.body if not _is_text(each)] for function in (node, before)]
    found = [*_block_parts(bad, bodies[0], good, bodies[1], name)]
    pairs = _differences(node.args, before.args)
    return found + [_expression_part(bad, one, good, other, name, "statement") for one, other in pairs or ()]


def _block_parts(bad: _Source, now: _Block, good: _Source, before: _Block, name: str) -> Iterator[SourcePart]:
    """Yield the parts that turn a block of statements into the good one: replaced, added and missing statements."""
    matcher = SequenceMatcher(None, [_dump(node) for node in before], [_dump(node) for node in now], autojunk=False)
    for kind, start, end, own_start, own_end in matcher.get_opcodes():
        old, new = before[start:end], now[own_start:own_end]
        if kind == "replace" and len(old) == len(new):
            for one, other in zip(new, old, strict=True):
                yield from _statement_parts(bad, one, good, other, name)
        elif kind == "insert":
            change = CodeChange("statement", bad.file, name, new[0].lineno, bad=_shown(bad.text(*new)))
            yield SourcePart(change, *_span(bad, new), b"pass")
        elif kind == "delete":
            yield _missing(bad, now, own_start, good, old, name)
        elif kind == "replace":
            change = CodeChange(
                *("statement", bad.file, name, new[0].lineno), _shown(bad.text(*new)), _shown(good.text(*old))
            )
            yield SourcePart(change, *_span(bad, new), _block_text(good, old, new[0].col_offset))


def _span(source: _Source, nodes: _Block) -> tuple[int, int]:
    return source.span(nodes[0])[0], source.span(nodes[-1])[1]


def _missing(bad: _Source, now: _Block, place: int, good: _Source, old: _Block, name: str) -> SourcePart:
    """Return the part that adds statements which the bad version lacks: before the next one, or at the end."""
    shown = _shown(good.text(*old))
    if not now:
        change = CodeChange("statement", bad.file, name, 0, good=shown)
        return SourcePart(change, len(bad.content), len(bad.content), b"\n" + _block_text(good, old, 0) + b"\n")
    node = now[min(place, len(now) - 1)]
    column, (start, end) = node.col_offset, bad.span(node)
    text, line_end = _block_text(good, old, column), b"\n" + b" " * column
    change = CodeChange("statement", bad.file, name, node.lineno, good=shown)
    if place < len(now):
        return SourcePart(change, start, start, text + line_end)
    return SourcePart(change, end, end, line_end + text)


def _block_text(source: _Source, nodes: _Block, column: int) -> bytes:
    """Return the source of statements for a block at a column."""
    if nodes[0].col_offset == column:
        return source.text(*nodes)
    return b"\n".join(
        _indented(node, column) if number == 0 else b" " * column + _indented(node, column)
        for number, node in enumerate(nodes)
    )


def _statement_parts(bad: _Source, node: ast.stmt, good: _Source, before: ast.stmt, name: str) -> Iterator[SourcePart]:
    """Yield one part for a replaced statement, or the parts within a compound statement with the same head."""
    if type(node) is type(before) and isinstance(getattr(node, "body", None), list) and _head(node) == _head(before):
        for block in ("body", "orelse", "finalbody"):
            now, then = getattr(node, block, []), getattr(before, block, [])
            if bool(now) != bool(then):
                break
            yield from _block_parts(bad, now, good, then, name)
        else:
            return
    change = CodeChange(*("statement", bad.file, name, node.lineno), _shown(bad.text(node)), _shown(good.text(before)))
    text = _block_text(good, [before], node.col_offset)
    yield SourcePart(change, *bad.span(node), text, (bad, node, good, before))


def _head(node: ast.stmt) -> str:
    """Return the dump of a compound statement without its blocks; handlers of exceptions count as the head."""
    blocks = ("body", "orelse", "finalbody")
    return repr([(name, _dump_of(value)) for name, value in ast.iter_fields(node) if name not in blocks])


def _dump_of(value: object) -> str:
    if isinstance(value, list):
        return repr([_dump_of(each) for each in value])
    return ast.dump(value) if isinstance(value, ast.AST) else repr(value)


def operations_of(part: SourcePart) -> list[SourcePart]:
    """Return the changed expressions of a changed statement, the smallest that line up."""
    if part.nodes is None or part.change.level != "statement":
        return []
    bad, node, good, before = part.nodes
    pairs = _differences(node, before) or []
    if any(one is node for one, _ in pairs):
        return []
    return [_expression_part(bad, one, good, other, part.change.function, "operation") for one, other in pairs]


def _expression_part(
    bad: _Source, node: ast.AST, good: _Source, before: ast.AST, name: str, level: ChangeLevel
) -> SourcePart:
    now, then = bad.text(node), good.text(before)
    change = CodeChange(level, bad.file, name, node.lineno, _shown(now), _shown(then))  # type: ignore[attr-defined]
    # Parentheses keep the order of operations around it.
    return SourcePart(change, *bad.span(node), b"(" + then + b")")


def _differences(node: ast.AST, before: ast.AST) -> list[tuple[ast.AST, ast.AST]] | None:
    """Return the smallest pairs of expressions that differ; None if the nodes differ in another way."""
    found: list[tuple[ast.AST, ast.AST]] = []
    for (_, now), (_, then) in zip(ast.iter_fields(node), ast.iter_fields(before), strict=False):
        pairs = _differences_of_values(now, then)
        if pairs is None:
            return None
        found += pairs
    return found


def _differences_of_values(now: object, then: object) -> list[tuple[ast.AST, ast.AST]] | None:
    if isinstance(now, list) and isinstance(then, list):
        pairs = [_differences_of_values(*each) for each in zip(now, then, strict=False)]
        if len(now) != len(then) or any(each is None for each in pairs):
            return None
        return [pair for each in pairs for pair in each or ()]
    if not isinstance(now, ast.AST) or not isinstance(then, ast.AST):
        return [] if now == then and type(now) is type(then) else None
    if ast.dump(now) == ast.dump(then):
        return []
    inner = _differences(now, then) if _lines_up(now, then) else None
    if inner is not None:
        return inner
    return [(now, then)] if _stands_alone(now) and _stands_alone(then) else None


def _lines_up(now: ast.AST, then: ast.AST) -> bool:
    """Return whether the parts of two nodes correspond: calls do if they call the same function."""
    if type(now) is not type(then) or isinstance(now, ast.JoinedStr):
        return False
    return not (isinstance(now, ast.Call) and isinstance(then, ast.Call)) or ast.dump(now.func) == ast.dump(then.func)


def _stands_alone(node: ast.AST) -> bool:
    """Return whether an expression may be put into parentheses: no target, slice or starred argument."""
    if not isinstance(node, ast.expr) or isinstance(node, ast.Slice | ast.Starred | ast.FormattedValue):
        return False
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def lines_changed(file: str, good: bytes, bad: bytes) -> list[SourcePart]:
    """Return the changed groups of lines of a file that is not Python."""
    old, new = good.splitlines(keepends=True), bad.splitlines(keepends=True)
    starts = [0]
    for line in new:
        starts.append(starts[-1] + len(line))
    found = []
    for kind, start, end, own_start, own_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            before, now = b"".join(old[start:end]), b"".join(new[own_start:own_end])
            change = CodeChange("lines", file, "", own_start + 1, _shown(now), _shown(before))
            found.append(SourcePart(change, starts[own_start], starts[own_end], before))
    return found


def edited(content: bytes, parts: Sequence[SourcePart]) -> bytes:
    """Return a file's bytes with parts undone. Raises ValueError for parts that overlap."""
    # From the end, so that offsets stay right.
    ends = len(content) + 1
    for part in sorted(parts, key=lambda each: (each.start, each.end), reverse=True):
        if part.end > ends:
            raise ValueError(f"{part.change} overlaps another part")
        content = content[: part.start] + (part.text or b"") + content[part.end :]
        ends = part.start
    return content


def _shown(source: bytes) -> str:
    return textwrap.dedent(source.decode(errors="replace")).strip("\n")
