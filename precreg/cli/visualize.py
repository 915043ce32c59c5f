"""Which comparison does `precreg visualize` draw, and into which file?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from precreg.cli.compare import parse_shape, parse_sides
from precreg.cli.options import RawOptions
from precreg.errors import UserError

if TYPE_CHECKING:
    from precreg.cli.options import CompareSides
    from precreg.comparison import ArrayPlace
    from precreg.report.charts import Picture

_T = TypeVar("_T")

PICTURE_SUFFIXES = (".html", ".png")

_PATH = click.Path(path_type=Path)


# A callback of the option: a wrong suffix stops the command before the arrays are read.
def _check_suffix(_context: click.Context, _option: click.Parameter, path: Path) -> Path:
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise UserError(
            "bad-value",
            f"expected NAME.html or NAME.png but got output={path}",
            hint="write the name of a page or of a picture: --output error.html",
        )
    return path


@click.command("visualize")
@click.argument("paths", nargs=-1, type=_PATH, metavar="[ACTUAL] [REFERENCE]")
@click.option("--output", "-o", required=True, type=_PATH, callback=_check_suffix, help="NAME.html or NAME.png.")
@click.option("--actual", type=_PATH, metavar="PATH", help="ACTUAL, by its name.")
@click.option("--reference", type=_PATH, metavar="PATH", help="REFERENCE, by its name.")
@click.option("--golden", type=_PATH, metavar="PATH", help="REFERENCE, by msprof's name for it.")
@click.option("--data", type=_PATH, metavar="RECORD", help="In place of arrays: a record of precreg compare --json.")
@click.option("--pair", metavar="NAME", help="The array to draw, if there are several.")
@click.option("--dtype", metavar="NAME", help="Of raw .bin files.")
@click.option("--reference-dtype", metavar="NAME", help="Of raw .bin files of the reference, if it differs.")
@click.option("--shape", metavar="4x64", callback=parse_shape, help="Of raw .bin files; by default the other side's.")
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
    """Draw the errors of one array: histogram, cumulative curve, heat map, largest and mean error.

    A record has no arrays, so its heat map is one strip for each axis. PNG needs matplotlib: pip install
    'precreg[plots]'. Nothing is judged: the exit code is 0 if the picture was written.
    """
    if data is None:
        sides = parse_sides(list(paths), actual, reference, golden)
        picture = measure_picture(sides, RawOptions(**raw), pair)
    # Two sources could disagree, and the picture would show one of them without a word.
    elif given := [*paths, *filter(None, (actual, reference, golden))]:
        raise UserError("not-comparable", f"expected arrays or --data but got {given[0]} and --data {data}")
    else:
        picture = read_picture(data, pair)
    write_picture(picture, output)


def measure_picture(sides: CompareSides, raw: RawOptions, name: str | None) -> Picture:
    """Compare one array with another, with a heat map of its last two axes.

    Raises UserError: errors of reading the files; unknown-array; not-comparable unless exactly one pair has elements
    and one shape.
    """
    from precreg.comparison import RawFormat, pair_arrays, read_side

    own = RawFormat(raw.dtype, raw.shape, raw.byte_order)
    other = own._replace(dtype=raw.reference_dtype or raw.dtype)
    found = pair_arrays(read_side(sides.actual, own), read_side(sides.reference, other), {})
    pair = _choose({pair.name: pair for pair in found}, name, f"{sides.actual}")
    for side, path, place in (("actual", sides.actual, pair.actual), ("reference", sides.reference, pair.reference)):
        if place is None:
            raise _mistake(f"expected an array called {pair.name} on both sides but the {side}, {path}, has none")
    assert pair.actual is not None
    assert pair.reference is not None
    return _picture_of_arrays(pair.name, pair.actual, pair.reference)


def _picture_of_arrays(name: str, actual: ArrayPlace, reference: ArrayPlace) -> Picture:
    from precreg.measure import compare_arrays, heat_map
    from precreg.report.charts import Picture

    # Raw files have no shape of their own: each side takes the other's.
    r = reference.load()
    a = actual.load(r.shape)
    if reference.takes_any_shape:
        r = reference.load(a.shape)
    if a.shape != r.shape or a.size == 0:
        raise _mistake(f"expected two arrays of one shape, with elements, but got {a.shape} and {r.shape}")
    # The picture shows errors and not matches, so it needs neither tolerances nor positions.
    comparison = compare_arrays(a, r, output=name, rtol=0.0, atol=0.0, worst=0)
    return Picture(name, actual.shown, reference.shown, comparison, heat_map(a, r))


def read_picture(path: Path, name: str | None) -> Picture:
    """Take one pair from a record of `precreg compare --json`.

    Raises UserError: errors of reading the record; unknown-array; not-comparable for a pair that was not measured.
    """
    from precreg.comparison import read_comparison_record
    from precreg.report.charts import Picture

    pair = _choose({pair.name: pair for pair in read_comparison_record(path).pairs}, name, f"{path}")
    # A pair without elements has no distribution to draw.
    if pair.comparison is None or not pair.comparison.counts.get("n"):
        raise _mistake(f"expected a pair that was measured but got {pair.name}: {pair.verdict.message}")
    return Picture(pair.name, pair.actual or "", pair.reference or "", pair.comparison)


def _choose(pairs: Mapping[str, _T], name: str | None, where: str) -> _T:
    """Return the named pair, or the only one. Raises UserError: unknown-array, not-comparable."""
    from precreg.comparison import unknown_array

    if name is not None:
        if name not in pairs:
            raise unknown_array(name, where, pairs)
        return pairs[name]
    # No default among several: the first by name is seldom the interesting one.
    if len(pairs) != 1:
        some = ", ".join(list(pairs)[:3]) or "none"
        raise _mistake(f"expected --pair beside {where}, which has {len(pairs)} ({some})")
    return next(iter(pairs.values()))


def _mistake(message: str) -> UserError:
    return UserError("not-comparable", message)


def write_picture(picture: Picture, output: Path) -> None:
    """Write the picture in the format of its file's name, and print the name.

    Raises UserError: missing-extra for a PNG without matplotlib, not-writable.
    """
    from precreg.report.charts import render_picture_html, render_picture_png
    from precreg.storage import replace_file, report_write_errors

    content = render_picture_png(picture) if output.suffix.lower() == ".png" else render_picture_html(picture).encode()
    # In one step: a kill leaves the old picture or the new one.
    with report_write_errors(str(output)):
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, content)
    click.echo(f"{output}  {picture.name}: {picture.actual} against {picture.reference}")
