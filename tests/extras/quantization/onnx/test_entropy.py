"""The entropy method beside the calibrator of ONNX Runtime, with the figures that docs/quantization.md shows."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization.calibrate import HistogramCollector

import precreg
from tests.docs.test_docs import table

PAGE = (Path(__file__).parents[4] / "docs" / "quantization.md").read_text()
ROWS = table(PAGE, "8,192 values", "max", "precreg", "ONNX Runtime, 2,048 bins")


def drawn(name):
    rng = np.random.default_rng(0)
    values = {
        "normal": rng.normal(size=8192),
        "Student's t, 3 df": np.random.default_rng(1).standard_t(3, 8192),
        "uniform": rng.uniform(-1, 1, 8192),
    }
    return values[name].astype(np.float32)


def of_onnx_runtime(values, bins):
    collector = HistogramCollector("entropy", True, bins, 128, 99.9, "same")
    # It prints counts of bins.
    with contextlib.redirect_stdout(io.StringIO()):
        collector.collect({"x": [values]})
        low, high = collector.compute_collection_result()["x"][:2]
    return max(abs(float(low)), abs(float(high)))


def sqnr(values, threshold):
    """Return the SQNR of int8 codes with a threshold, by numpy alone."""
    wide, scale = values.astype(np.float64), threshold / 127
    changed = np.clip(np.rint(wide / scale), -128, 127) * scale
    return 10 * np.log10(np.square(wide).sum() / np.square(wide - changed).sum())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["8,192 values"])
def test_the_page_has_the_thresholds_and_sqnr_of_all_three(row):
    values = drawn(row["8,192 values"])
    found = {each.method: each.threshold for each in precreg.quantize_array(values, "int8").calibrations}
    computed = {
        "max": found["max"],
        "precreg": found["entropy"],
        "ONNX Runtime, 2,048 bins": of_onnx_runtime(values, 2048),
    }
    for column, threshold in computed.items():
        shown = [float(each) for each in re.findall(r"[\d.]+", row[column])]
        assert [threshold, sqnr(values, threshold)] == pytest.approx(shown, rel=0.01)


@pytest.mark.parametrize("name", [row["8,192 values"] for row in ROWS])
def test_the_default_of_onnx_runtime_is_the_largest_magnitude(name):
    values = drawn(name)
    assert of_onnx_runtime(values, 128) == pytest.approx(float(np.abs(values).max()))
