"""The picture as a PNG, for whatever can be measured; tests/e2e looks at the pixels of one that the command drew."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from precreg.measure.comparison import compare_arrays
from precreg.measure.heatmap import heat_map
from precreg.report.charts import png
from precreg.report.charts.figures import Picture, render_picture_html

PAIRS = {
    "scalar": (np.float32(1.5), np.float64(1.25)),
    "equal": (np.arange(5, dtype=np.float32), np.arange(5.0)),
    "nan": (np.full((3, 4), np.nan), np.zeros((3, 4))),
    "overflow": (np.array([[1e308, -1e308]]), np.array([[-1e308, 1e308]])),
    "largest": (np.array([[1.7e308, 1.0]]), np.array([[0.0, 1.0]])),
    "subnormal": (np.array([[5e-324, 0.0]]), np.array([[0.0, 0.0]])),
    "integers": (np.arange(6, dtype=np.int64), np.arange(6) ** 2),
    "bool": (np.array([True, False]), np.array([True, True])),
    "complex": (np.array([1 + 1j, 2.0]), np.array([1 + 1.5j, 2.0])),
    "five axes": (np.ones((2, 3, 2, 3, 2), np.float16), np.full((2, 3, 2, 3, 2), 1.1)),
}


def picture(name, actual, reference, mapped=True):
    comparison = compare_arrays(actual, reference, rtol=1e-3, atol=1e-5)
    return Picture(name, "a.npy", "r.npy", comparison, heat_map(actual, reference) if mapped else None)


def image(drawn):
    return np.asarray(Image.open(BytesIO(png.render_picture_png(drawn))).convert("RGB"))


@pytest.mark.parametrize("kind", PAIRS)
def test_whatever_can_be_measured_can_be_drawn_with_and_without_its_arrays(kind):
    for mapped in (True, False):
        drawn = picture(kind, *PAIRS[kind], mapped)
        pixels = image(drawn)
        assert pixels.shape == (1020, 1440, 3)
        assert len(np.unique(pixels.astype(np.uint32) @ [1, 256, 65536])) > 50
        assert "<figure" in render_picture_html(drawn)


@pytest.mark.parametrize("name", ["$\\frac{1}{", "\u5c42", "a\x1bb\nc", "x" * 500, "\ud800"])
def test_a_name_is_drawn_as_it_is_and_never_read_as_mathematics(name):
    assert image(picture(name, *PAIRS["equal"])).shape == (1020, 1440, 3)


def test_zeros_stand_apart_from_the_smallest_errors():
    actual, reference = np.zeros(1000), np.zeros(1000)
    actual[:10] = 1e-3
    green = (image(picture("x", actual, reference)).astype(int) @ [-1, 2, -1] > 60)[:500, :720]
    columns = green.any(axis=0).nonzero()[0]
    assert 10 < len(columns) < 60, "one bar at the left"
    assert columns.max() < 200
