"""`precreg compare`: its options, understood; what they ask for is done in comparing.py, imported when it is sure."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Literal

import click

from precreg.cli.options import Outputs, Raw, Sides
from precreg.errors import UserError

_PATH = click.Path(path_type=Path)


def lengths(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Return the lengths of `4x64` or `4,64`. Raises UserError (bad-value)."""
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}([,x][0-9]{1,18}){0,31}", text):
        raise UserError("bad-value", f"expected lengths such as 4x64 or 4,64 but got shape={text}")
    return tuple(map(int, re.split("[,x]", text)))


def _bounds(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    return dict(map(_bound, texts))


def _bound(text: str) -> tuple[str, float]:
    metric, _, limit = text.partition("=")
    try:
        return metric.strip(), float(limit)
    except ValueError:
        raise UserError("bad-value", f"expected METRIC=LIMIT, such as max_ulp=4, but got bound={text}") from None


@click.command("compare")
@click.argument("paths", nargs=-1, type=_PATH, metavar="[ACTUAL] [REFERENCE]")
@click.option("--actual", type=_PATH, metavar="PATH", help="ACTUAL, by its name.")
@click.option("--reference", type=_PATH, metavar="PATH", help="REFERENCE, by its name: computed in higher precision.")
@click.option("--golden", type=_PATH, metavar="PATH", help="In place of REFERENCE: must have the actual's dtype, too.")
@click.option("--benchmark", type=_PATH, metavar="PATH", help="Another implementation's output, measured beside.")
@click.option("--rtol", type=float, help="Every element: |a-r| <= atol + rtol*|r|.")
@click.option("--atol", type=float, help="Every element: |a-r| <= atol + rtol*|r|.")
@click.option("--standard", metavar="NAME", help="A named standard (docs/standards.md) in place of the defaults.")
@click.option("--bound", "bounds", multiple=True, metavar="METRIC=LIMIT", callback=_bounds, help="One metric's limit.")
@click.option(
    "--analyzer", "analyzers", multiple=True, metavar="NAME", help="An installed analyzer that measures, too."
)
@click.option("--dtype", metavar="NAME", help="Of raw .bin files.")
@click.option("--reference-dtype", metavar="NAME", help="Of raw .bin files of the reference, where it differs.")
@click.option("--shape", metavar="4x64", callback=lengths, help="Of raw .bin files; else that of the other side.")
@click.option("--byte-order", type=click.Choice(["little", "big"]), default="little", help="Of raw .bin files.")
@click.option("--mapping", type=_PATH, metavar="FILE", help="YAML: the name of an actual array to its reference's.")
@click.option("--select", multiple=True, metavar="PATTERN", help="Only arrays so named: a part, or wildcards * ? [].")
@click.option("--worst", type=click.IntRange(0, 100_000), default=100, help="Positions to keep of each pair.")
@click.option("--json", type=_PATH, metavar="FILE", help="Write the record; - writes it to stdout.")
@click.option("--report", type=_PATH, metavar="FILE", help="Write a page of HTML.")
@click.option("--jobs", "-j", type=click.IntRange(0), help="Processes for many pairs; 0 stays in this one.")
@click.pass_obj
def command(
    project: Path | None,
    /,
    paths: tuple[Path, ...],
    actual: Path | None,
    reference: Path | None,
    golden: Path | None,
    json: Path | None,
    report: Path | None,
    dtype: str | None,
    reference_dtype: str | None,
    shape: tuple[int, ...] | None,
    byte_order: Literal["little", "big"],
    **others: Any,
) -> None:
    """Hold stored arrays against references: files, archives of arrays, or folders, matched by name.

    Formats: .npy, .npz, .safetensors, and raw .bin with --dtype and --shape. Tolerances are the shipped defaults, and
    those of a project's suites/tolerances.yaml where `precreg --project FOLDER compare` names one.


    Exit codes: 1 a pair fails; 2 a pair could not be judged, or nothing was compared; 0 otherwise.
    """
    sides = sides_of(list(paths), actual, reference, golden)
    raw = Raw(dtype, reference_dtype, shape, byte_order)
    from precreg.cli.comparing import compare_and_report

    sys.exit(compare_and_report(project, sides, raw, Outputs(json, report), **others))


def sides_of(paths: list[Path], actual: Path | None, reference: Path | None, golden: Path | None) -> Sides:
    """Take ACTUAL and REFERENCE from the options, and what they leave from the arguments in order.

    Raises UserError (not-comparable) unless each is there once.
    """
    if reference is not None and golden is not None:
        raise UserError("not-comparable", "expected --reference or --golden but got both")
    other = reference if golden is None else golden
    given = {"ACTUAL": actual, "REFERENCE": other}
    for name in given:
        if given[name] is None and paths:
            given[name] = paths.pop(0)
    if paths:
        raise UserError("not-comparable", f"expected one ACTUAL and one REFERENCE but got {paths[0]} besides")
    if given["ACTUAL"] is None or given["REFERENCE"] is None:
        missing = next(name for name, path in given.items() if path is None)
        raise UserError("not-comparable", f"expected an ACTUAL and a REFERENCE but got no {missing}")
    return Sides(given["ACTUAL"], given["REFERENCE"], golden is not None)
