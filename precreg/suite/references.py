"""`$name` in inputs and params: a parameter of the matrix, or a key of params."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from precreg.errors import nearest
from precreg.storage.yaml_source import KeyPath, Source


def names_in(value: Any, path: KeyPath = ()) -> Iterator[tuple[str, KeyPath]]:
    """Yield every name after a $ inside a value, and where it stands."""
    if isinstance(value, str) and value.startswith("$"):
        yield value[1:], path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from names_in(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from names_in(item, (*path, index))


def substitute(value: Any, known: dict[str, Any]) -> Any:
    """Return the value with every `$name` replaced; a name that is not known stays."""
    if isinstance(value, str):
        return known.get(value[1:], value) if value.startswith("$") else value
    if isinstance(value, dict):
        return {key: substitute(item, known) for key, item in value.items()}
    return [substitute(item, known) for item in value] if isinstance(value, list) else value


def require_known(source: Source, value: Any, known: Collection[str], *path: str | int) -> None:
    """Raise UserError (unknown-reference) where the value at a path names something that is not known."""
    for name, place in names_in(value, path):
        if name not in known:
            message = f"expected a matrix parameter or a key of params but got {place[-1]}=${name}"
            raise source.error("unknown-reference", message + nearest(name, known), *place)


def flattened(source: Source, params: dict[str, Any], parameters: Collection[str]) -> dict[str, Any]:
    """Return params in which no value names another key of params; a matrix parameter goes before a key of its name.

    Raises UserError (cyclic-reference).
    """
    graph = {
        key: {name for name, _ in names_in(value) if name in params and name not in parameters}
        for key, value in params.items()
    }
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = list(reversed(error.args[1]))
        message = f"expected params without a circle but got {' -> '.join(f'{key}' for key in circle)}"
        raise source.error("cyclic-reference", message, "params", circle[0]) from None
    flat: dict[str, Any] = {}
    for key in order:
        flat[key] = substitute(params[key], {name: flat[name] for name in graph[key]})
    return {key: flat[key] for key in params}
