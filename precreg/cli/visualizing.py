"""What `precreg visualize` does once its options are understood: find one comparison, draw it, write the picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import click

from precreg.cli.options import Raw, Sides
from precreg.comparison.pairing import paired
from precreg.comparison.places import Place, RawFormat, read_side, unknown_array
from precreg.comparison.record import read
from precreg.errors import UserError
from precreg.measure.compare import compare
from precreg.measure.heatmap import heat_map
from precreg.report.charts import picture as page
from precreg.report.charts.picture import Picture
from precreg.storage.writing import replace_file, writing

_T = TypeVar("_T")


def measured(sides: Sides, raw: Raw, name: str | None) -> Picture:
    """Measure one array against another, with a heat map of its last two axes.

    Raises UserError: as reading the files does; unknown-array, not-comparable where there is not one such pair with
    elements and of one shape.
    """
    own = RawFormat(raw.dtype, raw.shape, raw.byte_order)
    other = own._replace(dtype=raw.reference_dtype or raw.dtype)
    found = paired(read_side(sides.actual, own), read_side(sides.reference, other), {})
    pair = _one({pair.name: pair for pair in found}, name, f"{sides.actual}")
    for side, path, place in (("actual", sides.actual, pair.actual), ("reference", sides.reference, pair.reference)):
        if place is None:
            raise _not_drawn(f"expected an array called {pair.name} on both sides but the {side}, {path}, has none")
    assert pair.actual is not None
    assert pair.reference is not None
    return _of_arrays(pair.name, pair.actual, pair.reference)


def _of_arrays(name: str, actual: Place, reference: Place) -> Picture:
    r = reference.load()
    a = actual.load(r.shape)
    if reference.takes_any_shape:
        r = reference.load(a.shape)
    if a.shape != r.shape or a.size == 0:
        raise _not_drawn(f"expected two arrays of one shape, with elements, but got {a.shape} and {r.shape}")
    comparison = compare(a, r, output=name, rtol=0.0, atol=0.0, worst=0)
    return Picture(name, actual.shown, reference.shown, comparison, heat_map(a, r))


def recorded(path: Path, name: str | None) -> Picture:
    """Take one pair from a record of `precreg compare --json`.

    Raises UserError: as reading it does; unknown-array; not-comparable for a pair that could not be measured.
    """
    pair = _one({pair.name: pair for pair in read(path).pairs}, name, f"{path}")
    if pair.comparison is None or not pair.comparison.counts.get("n"):
        raise _not_drawn(f"expected a pair that was measured but got {pair.name}: {pair.verdict.message}")
    return Picture(pair.name, pair.actual or "", pair.reference or "", pair.comparison)


def _one(pairs: Mapping[str, _T], name: str | None, where: str) -> _T:
    if name is not None:
        if name not in pairs:
            raise unknown_array(name, where, pairs)
        return pairs[name]
    if len(pairs) != 1:
        raise _not_drawn(f"expected --pair beside {where}, which has {len(pairs)} ({_some(pairs)})")
    return next(iter(pairs.values()))


def _some(names: Iterable[str]) -> str:
    return ", ".join(list(names)[:3]) or "none"


def _not_drawn(message: str) -> UserError:
    return UserError("not-comparable", message)


def draw(picture: Picture, output: Path) -> None:
    """Write the picture in the format that the name of its file says, and say so.

    Raises UserError: missing-extra for a PNG without matplotlib, not-writable.
    """
    content = _png(picture) if output.suffix.lower() == ".png" else page.render(picture).encode()
    with writing(str(output)):
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, content)
    click.echo(f"{output}  {picture.name}: {picture.actual} against {picture.reference}")


def _png(picture: Picture) -> bytes:
    from precreg.report.charts.png import render

    return render(picture)
