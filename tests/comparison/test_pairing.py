from pathlib import Path

import numpy as np
import pytest

from precreg.comparison.pairing import RawFormat, pair_arrays, read_mapping, read_side
from precreg.errors import UserError

X = np.arange(6, dtype=np.float32)


def side(path):
    return read_side(Path(path), RawFormat("float32"))


def pairs(actual, reference, mapping=None, benchmark=None):
    """Return the names on both sides of each pair."""
    renamed = read_mapping(mapping) if mapping else {}
    found = pair_arrays(side(actual), side(reference), renamed, None if benchmark is None else side(benchmark))
    shown = {pair.name: tuple(place and place.shown for place in pair[1:]) for pair in found}
    assert list(shown) == sorted(shown)
    return {name: places if benchmark else places[:2] for name, places in shown.items()}


def refusal(*arguments):
    with pytest.raises(UserError) as caught:
        pairs(*arguments)
    return caught.value


def test_names_match_whatever_the_format(write):
    for path in ("a/y.npy", "a/l/w.bin", "r/y.bin", "r/l/w.npy"):
        write(path, X)
    assert pairs("a", "r") == {"y": ("a/y.npy", "r/y.bin"), "l/w": ("a/l/w.bin", "r/l/w.npy")}


def test_what_is_on_one_side_alone_is_a_pair_without_the_other(write):
    for path in ("a/x.npy", "a/y.npy", "r/y.npy", "r/z.npy"):
        write(path, X)
    assert pairs("a", "r") == {
        "x": ("a/x.npy", None),
        "y": ("a/y.npy", "r/y.npy"),
        "z": (None, "r/z.npy"),
    }


def test_two_files_of_one_array_are_a_pair_whatever_their_names(write):
    write("out.npy", X)
    write("golden.npy", X)
    assert pairs("out.npy", "golden.npy") == {"out": ("out.npy", "golden.npy")}


def test_an_archive_of_one_array_stands_for_it(write):
    write("out.npy", X)
    write("one.npz", {"y": X})
    write("two.npz", {"y": X, "z": X})
    assert pairs("out.npy", "one.npz") == {"out": ("out.npy", "one.npz:y")}
    assert pairs("one.npz", "out.npy") == {"out": ("one.npz:y", "out.npy")}
    assert pairs("out.npy", "two.npz:z") == {"out": ("out.npy", "two.npz:z")}
    problem = refusal("out.npy", "two.npz")
    assert problem.slug == "not-comparable"
    assert "two.npz has 2 (y, z)" in problem.message


def test_a_file_against_a_folder_of_several_is_refused(write):
    write("out.npy", X)
    write("r/y.npy", X)
    write("r/z.npy", X)
    assert refusal("out.npy", "r").slug == "not-comparable"


def test_archives_match_by_the_names_of_their_arrays(write):
    write("out.npz", {"w": X, "b": X})
    write("golden.safetensors", {"w": X, "c": X})
    assert pairs("out.npz", "golden.safetensors") == {
        "b": ("out.npz:b", None),
        "c": (None, "golden.safetensors:c"),
        "w": ("out.npz:w", "golden.safetensors:w"),
    }


def test_archives_in_folders_expand(write):
    write("a/l.npz", {"w": X, "b": X})
    write("r/l.safetensors", {"w": X, "b": X})
    assert pairs("a", "r") == {
        "l:b": ("a/l.npz:b", "r/l.safetensors:b"),
        "l:w": ("a/l.npz:w", "r/l.safetensors:w"),
    }


def test_an_archive_of_one_array_in_a_folder_goes_by_its_file(write):
    write("a/y.npz", {"arr_0": X})
    write("r/y.npy", X)
    assert pairs("a", "r") == {"y": ("a/y.npz:arr_0", "r/y.npy")}


def test_but_not_where_the_other_side_has_more_of_it(write):
    write("a/y.npz", {"w": X})
    write("r/y.npz", {"w": X, "b": X})
    assert pairs("a", "r") == {"y:b": (None, "r/y.npz:b"), "y:w": ("a/y.npz:w", "r/y.npz:w")}


def test_an_array_and_an_archive_of_one_array_of_one_name_are_refused(write):
    write("a/y.npz", {"w": X})
    write("a/y.npy", X)
    write("r/y.npy", X)
    assert refusal("a", "r").slug == "not-comparable"


def test_an_archive_that_cannot_be_read_stands_for_all_that_it_may_have_held(write):
    write("a/y.npz", b"broken")
    write("a/alone.npz", b"broken")
    write("r/y.npz", {"w": X, "b": X})
    assert pairs("a", "r") == {
        "alone": ("a/alone.npz", None),
        "y:b": ("a/y.npz", "r/y.npz:b"),
        "y:w": ("a/y.npz", "r/y.npz:w"),
    }


def test_archives_that_cannot_be_read_on_both_sides(write):
    write("a/y.npz", b"broken")
    write("r/y.npz", b"broken")
    assert pairs("a", "r") == {"y": ("a/y.npz", "r/y.npz")}


def test_a_mapping_names_what_is_called_otherwise(write):
    for path in ("a/x.npy", "a/y.npy", "r/x.npy", "r/golden_y.npy"):
        write(path, X)
    mapping = write("map.yaml", "y: golden_y\n")
    assert pairs("a", "r", mapping) == {"x": ("a/x.npy", "r/x.npy"), "y": ("a/y.npy", "r/golden_y.npy")}


def test_a_mapping_may_name_files(write):
    write("a/l/y.npy", X)
    write("r/golden.y.npy", X)
    mapping = write("map.yaml", "l/y.npy: golden.y.npy\n")
    assert pairs("a", "r", mapping) == {"l/y": ("a/l/y.npy", "r/golden.y.npy")}


def test_one_reference_may_serve_two(write):
    for path in ("a/x.npy", "a/y.npy", "r/z.npy"):
        write(path, X)
    mapping = write("map.yaml", "x: z\ny: z\n")
    assert pairs("a", "r", mapping) == {"x": ("a/x.npy", "r/z.npy"), "y": ("a/y.npy", "r/z.npy")}


def test_what_the_mapping_leaves_without_a_partner_is_missing_or_extra(write):
    for path in ("a/x.npy", "r/x.npy", "r/y.npy"):
        write(path, X)
    mapping = write("map.yaml", "x: y\ngone: x\n")
    assert pairs("a", "r", mapping) == {"gone": (None, "r/x.npy"), "x": ("a/x.npy", "r/y.npy")}


def test_a_reference_that_is_not_there_is_named_with_its_line(write):
    write("a/x.npy", X)
    write("r/golden.npy", X)
    problem = refusal("a", "r", write("map.yaml", "# names\nx: goldne\n"))
    assert (problem.slug, Path(problem.file).name, problem.line) == ("unknown-array", "map.yaml", 2)
    assert 'did you mean "golden"?' in problem.message


@pytest.mark.parametrize("text", ["- x\n", "x: 3\n", "x: [y]\n", "x:\n", "3\n", ""])
def test_a_mapping_maps_text_to_text(write, text):
    write("a/x.npy", X)
    write("r/x.npy", X)
    problem = refusal("a", "r", write("map.yaml", text))
    assert problem.slug == "bad-value"
    assert problem.line == 1


def test_a_mapping_with_a_key_twice_is_refused(write):
    write("a/x.npy", X)
    assert refusal("a", "a", write("map.yaml", "x: x\nx: y\n")).slug == "duplicate-key"


def test_a_mapping_beside_single_arrays_is_refused(write):
    path = write("x.npy", X)
    assert refusal(path, path, write("map.yaml", "x: x\n")).slug == "not-comparable"


def test_a_benchmark_is_found_by_either_name(write):
    for path in ("a/x.npy", "a/y.npy", "r/x.npy", "r/z.npy", "b/x.npy", "b/z.npy"):
        write(path, X)
    mapping = write("map.yaml", "y: z\n")
    assert pairs("a", "r", mapping, "b") == {
        "x": ("a/x.npy", "r/x.npy", "b/x.npy"),
        "y": ("a/y.npy", "r/z.npy", "b/z.npy"),
    }


def test_a_benchmark_of_a_single_pair(write):
    for path in ("x.npy", "r.npy", "b.npy"):
        write(path, X)
    assert pairs("x.npy", "r.npy", None, "b.npy") == {"x": ("x.npy", "r.npy", "b.npy")}
