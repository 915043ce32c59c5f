"""`precreg visualize` as the real command: pictures whose pixels show what was measured, and its exit codes."""

import json
import re
from io import BytesIO
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from tests.e2e.command import precreg
from tests.report.test_html import Page

SIZE = (1440, 1020)


@pytest.fixture(scope="module")
def arrays():
    """Return a float16 array with a block of wrong elements and a NaN, and what it was rounded from."""
    reference = np.random.default_rng(0).standard_normal((4, 64, 128))
    actual = reference.astype(np.float16)
    actual[:, 40:60, 10:40] += np.float16(0.25)
    actual[1, 5, 100] = np.nan
    return actual, reference


@pytest.fixture
def folder(tmp_path, arrays):
    for side, array in zip(("actual", "reference"), arrays, strict=True):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "layer.npy", array)
        np.save(tmp_path / side / "loss.npy", array[0, 0, :1])
    return tmp_path


def drawn(folder, *arguments, output="picture.html", **variables):
    """Draw, and return the bytes of the picture."""
    done = precreg(folder, "visualize", *arguments, "--output", output, **variables)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.startswith(f"{output}  ")
    return (folder / output).read_bytes()


def refused(folder, *arguments):
    done = precreg(folder, "visualize", *arguments)
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr
    assert not list(folder.glob("picture.*"))
    return done.stderr


def kinds(content):
    page = Page(content.decode())
    return [attributes["class"].split()[1] for tag, attributes in page.elements if tag == "figure"]


PAIR = ("actual/layer.npy", "reference/layer.npy")


def test_a_page_has_the_four_charts_whole(folder):
    content = drawn(folder, *PAIR).decode()
    assert kinds(content.encode()) == ["histogram", "cumulative", "map", "bars"]
    drawings = re.findall(r"<svg .*?</svg>", content, re.DOTALL)
    assert len(drawings) == 4
    for drawing in drawings:
        assert len(list(ElementTree.fromstring(drawing).iter())) > 10
    opened = [tag for tag, _ in Page(content).elements if tag in ("html", "body", "main", "figure")]
    assert all(content.count(f"</{tag}>") == opened.count(tag) for tag in set(opened))
    (cross,) = re.findall(r'<path class="cross".*?<title>(.*?)</title>', content)
    assert cross.startswith("[..., 5:6, 100:102]")
    assert cross.endswith("; 1 NaN or infinity on one side")


def test_a_png_shows_what_was_measured(folder):
    content = drawn(folder, *PAIR, output="picture.png")
    picture = Image.open(BytesIO(content)).convert("RGB")
    assert picture.size == SIZE
    pixels = np.asarray(picture).astype(int)
    red = (pixels[..., 0] - pixels[..., 1:].max(axis=-1)) > 60
    blue = (pixels[..., 2] - pixels[..., 0]) > 40
    middle = SIZE[1] // 2, SIZE[0] // 2
    panels = {
        "histogram": red[: middle[0], : middle[1]],
        "curve": red[: middle[0], middle[1] :],
        "map": red[middle[0] :, : middle[1]],
        "absolute": red[middle[0] :, middle[1] :],
        "relative": blue[middle[0] :, middle[1] :],
    }
    share = {name: panel.mean() for name, panel in panels.items()}
    assert all(share[name] > 0.02 for name in ("histogram", "map", "absolute", "relative")), share
    assert share["curve"] > 0.001, share
    down, across = panels["map"][:, : middle[1] * 2 // 3].nonzero()
    height, width = panels["map"].shape
    assert down.mean() > 0.6 * height, "rows 40 to 59 of 64 stand below the middle"
    assert across.mean() < 0.4 * width, "columns 10 to 39 of 128 stand on the left"


@pytest.mark.parametrize("output", ["picture.png", "picture.html"])
def test_the_same_arrays_give_the_same_bytes(folder, output):
    first = drawn(folder, *PAIR, output=output)
    (folder / "matplotlibrc").write_text("figure.facecolor: black\nfont.size: 30\nlines.linewidth: 9\n")
    assert drawn(folder, *PAIR, output=output) == first


def test_the_ways_to_name_the_sides_draw_the_same(folder):
    first = drawn(folder, *PAIR)
    assert drawn(folder, "--actual", PAIR[0], "--golden", PAIR[1]) == first
    assert drawn(folder, "--reference", PAIR[1], PAIR[0]) == first
    of_folders = drawn(folder, "actual", "reference", "--pair", "layer")
    assert kinds(of_folders) == kinds(first)


def test_every_format_of_arrays_is_drawn(folder, arrays):
    actual, reference = arrays
    np.savez(folder / "a.npz", layer=actual, other=actual)
    save_file({"layer": actual}, folder / "a.safetensors")
    actual.tofile(folder / "a.bin")
    reference.tofile(folder / "r.bin")
    expected = kinds(drawn(folder, *PAIR))
    assert kinds(drawn(folder, "a.npz:layer", PAIR[1])) == expected
    assert kinds(drawn(folder, "a.safetensors", PAIR[1])) == expected
    assert kinds(drawn(folder, "a.bin", PAIR[1], "--dtype", "float16")) == expected
    raw = ("--dtype", "float16", "--reference-dtype", "float64", "--shape", "4x64x128")
    assert kinds(drawn(folder, "a.bin", "r.bin", *raw)) == expected


def test_a_record_is_drawn_without_its_arrays(folder):
    compared = precreg(folder, "compare", "actual", "reference", "--json", "record.json")
    assert compared.returncode == 1
    for side in ("actual", "reference"):
        (folder / side / "layer.npy").unlink()
    assert kinds(drawn(folder, "--data", "record.json", "--pair", "layer", output="p.html")) == [
        "histogram",
        "cumulative",
        "strips",
        "bars",
    ]
    picture = Image.open(BytesIO(drawn(folder, "--data", "record.json", "--pair", "layer", output="p.png")))
    assert picture.size == SIZE
    assert "expected --pair beside record.json, which has 2 (layer, loss)" in refused(
        folder, "--data", "record.json", "--output", "picture.png"
    )
    assert 'did you mean "layer"?' in refused(
        folder, "--data", "record.json", "--pair", "layr", "--output", "picture.png"
    )


def test_a_pair_of_a_record_that_was_not_measured_says_why(folder):
    (folder / "actual" / "layer.npy").unlink()
    precreg(folder, "compare", "actual", "reference", "--json", "record.json")
    told = refused(folder, "--data", "record.json", "--pair", "layer", "--output", "picture.html")
    assert "expected a pair that was measured but got layer: " in told


def test_a_name_is_neither_markup_nor_mathematics(tmp_path):
    name = "<script>$\\frac{1}{ {{ 7 * 7 }}"
    np.savez(tmp_path / "a.npz", **{name: np.arange(3.0)})
    page = Page(drawn(tmp_path, "a.npz", "a.npz").decode())
    assert "script" not in [tag for tag, _ in page.elements]
    assert name in page.text
    assert drawn(tmp_path, "a.npz", "a.npz", output="p.png")


@pytest.mark.parametrize(
    ("arguments", "slug", "words"),
    [
        ([*PAIR, "--output", "picture.pdf"], "bad-value", "expected NAME.html or NAME.png but got output=picture.pdf"),
        ([PAIR[0], "nowhere.npy", "--output", "picture.png"], "missing-file", "nowhere.npy"),
        ([PAIR[0], "--output", "picture.png"], "not-comparable", "got no REFERENCE"),
        (["actual", "reference", "--output", "picture.png"], "not-comparable", "which has 2 (layer, loss)"),
        (["actual", "reference", "--pair", "losss", "--output", "picture.png"], "unknown-array", '"loss"'),
        (["actual/loss.npy", PAIR[1], "--output", "picture.png"], "not-comparable", "(1,) and (4, 64, 128)"),
        ([*PAIR, "--output", "matplotlib/actual/layer.npy/picture.png"], "not-writable", "picture.png"),
        ([*PAIR, "--data", "x.json", "--output", "picture.png"], "not-comparable", "--data x.json"),
        (["--data", "x.json", "--output", "picture.png"], "missing-file", "x.json"),
    ],
)
def test_a_mistake_is_told_in_one_line(folder, arguments, slug, words):
    (folder / "matplotlib").mkdir()
    (folder / "matplotlib" / "actual").write_text("in the way")
    told = refused(folder, *arguments)
    assert f"error[{slug}]" in told
    assert words in told


def test_without_output_click_says_so(folder):
    assert "Missing option '--output'" in refused(folder, *PAIR)


def test_a_missing_side_of_a_folder_is_named(folder):
    (folder / "actual" / "layer.npy").unlink()
    told = refused(folder, "actual", "reference", "--pair", "layer", "--output", "picture.html")
    assert "expected an array called layer on both sides but the actual, actual, has none" in told


def test_without_matplotlib_a_page_is_drawn_and_a_png_is_refused(folder):
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "matplotlib.py").write_text("raise ImportError('hidden')\n")
    assert drawn(folder, *PAIR, PYTHONPATH=str(hidden))
    done = precreg(folder, "visualize", *PAIR, "--output", "p.png", PYTHONPATH=str(hidden))
    assert done.returncode == 2
    assert "error[missing-extra]" in done.stderr
    assert "pip install 'precreg[plots]'" in done.stderr


def test_the_report_of_a_comparison_is_this_page_for_each_pair(folder):
    done = precreg(folder, "compare", "actual", "reference", "--report", "report.html", "--json", "record.json")
    assert done.returncode == 1
    page = Page((folder / "report.html").read_text())
    record = json.loads((folder / "record.json").read_text())
    assert [row[1] for row in page.data("data")["rows"]] == ["layer", "loss"]
    assert {pair["name"] for pair in record["pairs"]} == {"layer", "loss"}
    figures = [attributes["class"] for tag, attributes in page.elements if tag == "figure"]
    assert figures.count("picture histogram") == 2
