"""`precreg visualize`: the options, understood; visualizing.py draws, and is imported when they are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from precreg.cli.compare import lengths, sides_of
from precreg.cli.options import Raw
from precreg.errors import UserError

FORMATS = (".html", ".png")


_PATH = click.Path(path_type=Path)


def _picture(_context: click.Context, _option: click.Parameter, path: Path) -> Path:
    if path.suffix.lower() not in FORMATS:
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
@click.option("--shape", metavar="4x64", callback=lengths, help="Of raw .bin files; else that of the other side.")
@click.option("--byte-order", type=click.Choice(["little", "big"]), default="little", help="Of raw .bin files.")
def command(
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
    from precreg.cli import visualizing

    if data is None:
        sides = sides_of(list(paths), actual, reference, golden)
        picture = visualizing.measured(sides, Raw(**raw), pair)
    elif given := [*paths, *filter(None, (actual, reference, golden))]:
        raise UserError("not-comparable", f"expected arrays or --data but got {given[0]} and --data {data}")
    else:
        picture = visualizing.recorded(data, pair)
    visualizing.draw(picture, output)
