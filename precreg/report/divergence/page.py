"""How does a browser show the divergence of two trainings: the distance by step, and parameters by step?

The page is one file without script or network.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from precreg.report.charts import DistanceChart, NameMap, draw_distances, draw_name_map
from precreg.report.divergence.sentences import advise_divergence, answer_divergence, divergence_facts
from precreg.report.template import page_style, render_template
from precreg.types import DivergenceRecord

_MAP_CAPTION = "Colours on a log scale; the faintest colour is 0."
_STYLES = ("report.css", "trace.css", "divergence.css")


class _Drawing(NamedTuple):
    name: str
    svg: str
    caption: str
    class_: str


def render_divergence_html(record: DivergenceRecord) -> str:
    """Lay out a comparison of two trainings as one HTML document."""
    from markupsafe import Markup

    drawings = [each._asdict() | {"svg": Markup(each.svg)} for each in _drawings(record)]
    page: dict[str, Any] = {
        "record": record,
        "answer": answer_divergence(record),
        "advice": advise_divergence(record),
        "facts": list(divergence_facts(record)),
        "drawings": drawings,
        "style": page_style(*_STYLES),
    }
    return render_template("divergence.html.j2", page)


def _drawings(record: DivergenceRecord) -> Iterator[_Drawing]:
    chart = DistanceChart(
        record.steps,
        record.distances,
        [each.distances for each in record.twins],
        record.noise,
        None if record.parted is None else record.parted.step,
    )
    caption = "Relative distance of the weights of both runs, on a log scale. The band has the twins and their limit."
    yield _Drawing("Distance by step", draw_distances(chart), caption, "course")
    columns = [str(step) for step in record.steps]
    for unit, words in (("distances", "relative distance"), ("ulps", "distance in ULP of run A")):
        rows = [each.parameter for each in record.courses]
        values = [getattr(each, unit) for each in record.courses]
        if any(value for row in values for value in row):
            picture = draw_name_map(NameMap(rows, columns, values, f"{words}, parameters by step"))
            yield _Drawing(
                f"Parameters by step: {words}", picture, "Colours on a log scale; the faintest colour is 0.", "map"
            )
