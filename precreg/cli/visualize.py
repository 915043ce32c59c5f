"""`precreg visualize`: the options, understood; visualizing.py draws, and is imported when they are right.

What `precreg visualize` does once its options are understood: find one comparison, draw it, write the picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from precreg.cli.compare import parse_shape, parse_sides
from precreg.cli.options import RawOptions
from precreg.errors import UserError
from precreg.report.charts import render_picture_html

if TYPE_CHECKING:
    from precreg.cli.options import CompareSides
    from precreg.comparison import ArrayPlace
    from precreg.report.charts import Picture


PICTURE_SUFFIXES = (".html", ".png")


_PATH = click.Path(path_type=Path)


def _picture(_context: click.Context, _option: click.Parameter, path: Path) -> Path:
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise UserError("bad-value", f"expected NAME.html or NAME.png but got output={path}")
    return path


@click.command("visualize")
@click.argument("paths", nargs=-1, type=_PATH, metavar="[ACTUAL] [REFERENCE]")
@click.option("--output", "-o", required=True, type=_PATH, callback=_picture, help="NAME.html or NAME.png.")
@click.option("--actual", type=_PATH, metavar="PATH", help="ACTUAL, by its name.")
@click.option("--reference", type=_PATH, metavar="PATH", help="REFERENCE, by its name.")
@click.option("--golden", type=_PATH, metavar="PATH", help="REFERENCE, by the name that msprof gives it.")
@click.option("--data", type=_PATH, metavar="RECORD", help="In place of arrays: what precreg compare --json wrote.")
@click.option("--pair", metavar="NAME", help="Which array, where there are several.")
@click.option("--dtype", metavar="NAME", help="Of raw .bin files.")
@click.option("--reference-dtype", metavar="NAME", help="Of raw .bin files of the reference, where it differs.")
@click.option("--shape", metavar="4x64", callback=parse_shape, help="Of raw .bin files; else that of the other side.")
@click.option("--byte-order", type=click.Choice(["little", "big"]), default="little", help="Of raw .bin files.")
def visualize_command(
    paths: tuple[Path, ...],
    output: Path,
    actual: Path | None,
    reference: Path | None,
    golden: Path | None,
    data: Path | None,
    pair: str | None,
    **raw: Any,
) -> None:
    """Draw where and how far one array is from another: histogram, cumulative curve, heat map, largest and mean error.

    From a record there are no arrays to look at, so the heat map is one strip for each axis. PNG needs matplotlib:
    pip install 'precreg[plots]'. Nothing is judged: the exit code is 0 when the picture is drawn.
    """
    if data is None:
        sides = parse_sides(list(paths), actual, reference, golden)
        picture = measure_picture(sides, RawOptions(**raw), pair)
    elif given := [*paths, *filter(None, (actual, reference, golden))]:
        raise UserError("not-comparable", f"expected arrays or --data but got {given[0]} and --data {data}")
    else:
        picture = read_picture(data, pair)
    write_picture(picture, output)


_T = TypeVar("_T")


def measure_picture(sides: CompareSides, raw: RawOptions, name: str | None) -> Picture:
    """Measure one array against another, with a heat map of its last two axes.

    Raises UserError: as reading the files does; unknown-array, not-comparable where there is not one such pair with
    elements and of one shape.
    """
    from precreg.comparison import RawFormat, pair_arrays, read_side

    own = RawFormat(raw.dtype, raw.shape, raw.byte_order)
    other = own._replace(dtype=raw.reference_dtype or raw.dtype)
    found = pair_arrays(read_side(sides.actual, own), read_side(sides.reference, other), {})
    pair = _one({pair.name: pair for pair in found}, name, f"{sides.actual}")
    for side, path, place in (("actual", sides.actual, pair.actual), ("reference", sides.reference, pair.reference)):
        if place is None:
            raise _not_drawn(f"expected an array called {pair.name} on both sides but the {side}, {path}, has none")
    assert pair.actual is not None
    assert pair.reference is not None
    return _of_arrays(pair.name, pair.actual, pair.reference)


def _of_arrays(name: str, actual: ArrayPlace, reference: ArrayPlace) -> Picture:
    from precreg.measure import compare_arrays, heat_map
    from precreg.report.charts import Picture

    r = reference.load()
    a = actual.load(r.shape)
    if reference.takes_any_shape:
        r = reference.load(a.shape)
    if a.shape != r.shape or a.size == 0:
        raise _not_drawn(f"expected two arrays of one shape, with elements, but got {a.shape} and {r.shape}")
    comparison = compare_arrays(a, r, output=name, rtol=0.0, atol=0.0, worst=0)
    return Picture(name, actual.shown, reference.shown, comparison, heat_map(a, r))


def read_picture(path: Path, name: str | None) -> Picture:
    """Take one pair from a record of `precreg compare --json`.

    Raises UserError: as reading it does; unknown-array; not-comparable for a pair that could not be measured.
    """
    from precreg.comparison import read_comparison_record
    from precreg.report.charts import Picture

    pair = _one({pair.name: pair for pair in read_comparison_record(path).pairs}, name, f"{path}")
    if pair.comparison is None or not pair.comparison.counts.get("n"):
        raise _not_drawn(f"expected a pair that was measured but got {pair.name}: {pair.verdict.message}")
    return Picture(pair.name, pair.actual or "", pair.reference or "", pair.comparison)


def _one(pairs: Mapping[str, _T], name: str | None, where: str) -> _T:
    from precreg.comparison import unknown_array

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


def write_picture(picture: Picture, output: Path) -> None:
    """Write the picture in the format that the name of its file says, and say so.

    Raises UserError: missing-extra for a PNG without matplotlib, not-writable.
    """
    from precreg.storage import replace_file, report_write_errors

    content = _png(picture) if output.suffix.lower() == ".png" else render_picture_html(picture).encode()
    with report_write_errors(str(output)):
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, content)
    click.echo(f"{output}  {picture.name}: {picture.actual} against {picture.reference}")


def _png(picture: Picture) -> bytes:
    from precreg.report.charts import render_picture_png

    return render_picture_png(picture)
