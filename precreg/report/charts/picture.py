"""What `precreg visualize` draws: one comparison, named, with a heat map where the arrays were at hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from precreg.report.charts.figures import figures
from precreg.report.report_describe import plain
from precreg.types.numbers import figure
from precreg.types.types import Comparison

if TYPE_CHECKING:
    from precreg.measure.heatmap import HeatMap


TEMPLATES = Path(__file__).parent.parent / "templates"

STYLES = ("report.css", "comparison.css")


_SAID = ("max_abs_error", "mean_abs_error", "rms_error", "max_rel_error", "mean_rel_error", "max_ulp", "equal_share")


class Picture(NamedTuple):
    """One comparison to draw. `actual` and `reference` are the sides as the user named them."""

    name: str
    actual: str
    reference: str
    comparison: Comparison
    heat_map: HeatMap | None = None


def render(picture: Picture) -> str:
    """Lay out the charts as one HTML document, without script and without network."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    page = environment.get_template("picture.html.j2").render(
        picture=picture,
        about=about(picture.comparison),
        figures=figures(picture.comparison, picture.heat_map),
        said=said(picture.comparison),
        style=Markup(style()),
    )
    return plain(page)


def style() -> str:
    """Return the style of every page with charts of a comparison."""
    return "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in STYLES)


def said(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the figures that stand above the charts, with their values."""
    counts = comparison.counts
    wrong = counts.get("nan_mismatched", 0) + counts.get("inf_mismatched", 0)
    known = [(name, figure(comparison.metrics[name])) for name in _SAID if name in comparison.metrics]
    return [("elements", f"{counts.get('n', 0):,}"), ("non-finite on one side", f"{wrong:,}"), *known]


def about(comparison: Comparison) -> str:
    """Name the dtypes and shapes of both sides."""
    if comparison.shape == comparison.reference_shape:
        return f"{comparison.dtype} against {comparison.reference_dtype}, shape {shape(comparison.shape)}"
    reference = f"{comparison.reference_dtype} of shape {shape(comparison.reference_shape)}"
    return f"{comparison.dtype} of shape {shape(comparison.shape)} against {reference}"


def shape(lengths: tuple[int, ...]) -> str:
    """Write a shape as 8×128×768; that of a single number as a word."""
    return "×".join(map(str, lengths)) or "scalar"
