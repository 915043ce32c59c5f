"""Which parts of a changed file can be undone one by one: functions, statements, operations, lines?

Parts are edits of the bad version's source. An edit replaces a span of bytes by the good version's source, so edits of
different spans can be combined.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from difflib import SequenceMatcher
from typing import NamedTuple

from precreg.types import ChangeLevel, CodeChange

# Functions of other names belong together if so large a share of their nodes is the same.
_MIN_SIMILARITY = 0.6

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Block = Sequence[ast.stmt]
# A function with its file and its qualified name.
_Named = tuple["_Source", str, _Function]


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
        """Return the offsets of a node; a function begins at its first decorator."""
        first = min((node, *getattr(node, "decorator_list", ())), key=lambda each: each.lineno)
        # A decorator's own offset is behind the @.
        column = node.col_offset  # type: ignore[attr-defined]
        end = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return self._starts[first.lineno - 1] + column, end

    def text(self, *nodes: ast.AST) -> bytes:
        """Return the source from the first node to the last one."""
        return self.content[self.span(nodes[0])[0] : self.span(nodes[-1])[1]]


def functions_changed(
    pairs: Mapping[str, str], good: Mapping[str, bytes], bad: Mapping[str, bytes], wanted: Collection[str]
) -> list[SourcePart]:
    """Return the changed functions and statements of modules, as parts of the bad version's files.

    `good` and `bad` have the contents of all changed files, and `pairs` the good name of a bad file. Only the `wanted`
    bad files are divided. A function that moved to another file, or has another name, is compared with its former self.
    """
    sources = [
        {file: found for file, content in side.items() if (found := _parsed(file, content))} for side in (good, bad)
    ]
    before, after = sources
    formers = {file: _Formers(source, before.get(pairs.get(file, "")), before, after) for file, source in after.items()}
    renamed = {old: new for each in formers.values() for old, new in each.renamed().items()}
    return [part for file, each in formers.items() if file in wanted for part in each.parts(renamed)]


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


class _Formers:
    """The functions of a bad file, each with its good version if it has one.

    That is the function of its name in its file, the one of its name in another file, or the most similar one that is
    gone.
    """

    def __init__(
        self, bad: _Source, good: _Source | None, before: Mapping[str, _Source], after: Mapping[str, _Source]
    ) -> None:
        self._bad, self._good = bad, good
        self._own = dict(_functions(good.tree)) if good is not None else {}
        self._present = dict(_functions(bad.tree))
        moved = [(source, name, node) for source in before.values() for name, node in _functions(source.tree)]
        # A function that is still there under its name is the good version of that one.
        everywhere = {name for source in after.values() for name, _ in _functions(source.tree)}
        gone = [each for each in moved if each[1] not in everywhere]
        self._found = {name: self._former(name, node, moved, gone) for name, node in self._present.items()}

    def _former(self, name: str, node: _Function, moved: Sequence[_Named], gone: Sequence[_Named]) -> _Named | None:
        if self._good is not None and name in self._own:
            return self._good, name, self._own[name]
        for each in moved:
            if each[1] == name:
                return each
        ranked = [(_similarity(node, each), number) for number, (_, _, each) in enumerate(gone)]
        best = max(ranked, default=(0.0, 0))
        return gone[best[1]] if best[0] >= _MIN_SIMILARITY else None

    def renamed(self) -> dict[str, str]:
        """Return the new names of functions and methods by their old ones."""
        found = ((former[1], name) for name, former in self._found.items() if former is not None)
        return {old.rpartition(".")[2]: new.rpartition(".")[2] for old, new in found if old != new}

    def parts(self, renamed: Mapping[str, str]) -> Iterator[SourcePart]:
        """Yield the parts of the file; former functions call other functions by their new names."""
        for name, node in self._present.items():
            former = self._found[name]
            if former is None:
                change = CodeChange("function", self._bad.file, name, node.lineno, bad=_shown(self._bad.text(node)))
                yield SourcePart(change, *self._bad.span(node), b"pass")
            elif _dump(former[2]) != _dump(node):
                source, before = _with_names_of(node, former[0], former[2], renamed)
                if _dump(before) != _dump(node):
                    change = CodeChange("function", self._bad.file, name, node.lineno)
                    text = _block_text(source, [before], node.col_offset)
                    yield SourcePart(change, *self._bad.span(node), text, (self._bad, node, source, before))
        if self._good is not None:
            yield from _outside_functions(self._bad, self._good, "")
            yield from self._removed()

    def _removed(self) -> Iterator[SourcePart]:
        """Yield the functions of the good file that the bad one lacks, for its end."""
        assert self._good is not None
        used = {id(former[2]) for former in self._found.values() if former is not None}
        for name, node in self._own.items():
            if id(node) not in used and node.col_offset == 0:
                source, place = self._good.text(node), len(self._bad.content)
                change = CodeChange("function", self._bad.file, name, 0, good=_shown(source))
                yield SourcePart(change, place, place, b"\n\n" + source + b"\n")


def _similarity(one: ast.AST, other: ast.AST) -> float:
    own, others = ([type(node).__name__ for node in ast.walk(each)] for each in (one, other))
    return SequenceMatcher(None, own, others, autojunk=False).ratio()


def _with_names_of(
    node: _Function, source: _Source, before: _Function, renamed: Mapping[str, str]
) -> tuple[_Source, _Function]:
    """Return a former function with the present names: its own, its variables' and its functions'."""
    own, former = _variables(node), _variables(before)
    names: dict[str, str] = {}
    # Names of both in the same order: a change of statements leaves no such order.
    if len(own) == len(former) and not {*own} & ({*former} - _fixed(own, former)):
        names = {old: new for old, new in zip(former, own, strict=True) if old != new}
    copy = _Renamer({**{old: new for old, new in renamed.items() if old not in former}, **names}, renamed)
    changed = copy.visit(deepcopy(before))
    changed.name = node.name
    if ast.dump(changed) == ast.dump(before):
        return source, before
    written = _Source(source.file, ast.unparse(changed).encode())
    function = written.tree.body[0]
    assert isinstance(function, _Function)
    return written, function


def _fixed(own: Sequence[str], former: Sequence[str]) -> set[str]:
    return {one for one, other in zip(own, former, strict=True) if one == other}


def _variables(function: _Function) -> list[str]:
    """Return the names of arguments and variables in the order in which the function binds them."""
    arguments = [each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)]
    bound = [each for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    bound.sort(key=lambda each: (each.lineno, each.col_offset))
    return list(dict.fromkeys([*arguments, *(each.id for each in bound)]))


class _Renamer(ast.NodeTransformer):
    """Renames variables and functions, and methods by names of their own."""

    def __init__(self, names: Mapping[str, str], methods: Mapping[str, str]) -> None:
        self._names, self._methods = names, methods

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self._names.get(node.arg, node.arg)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self._methods.get(node.attr, node.attr)
        return self.generic_visit(node)


def _indented(node: ast.AST, column: int) -> bytes:
    return textwrap.indent(ast.unparse(node), " " * column).lstrip().encode()


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
