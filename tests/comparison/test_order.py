"""The order of execution of pairs: from a file, a dump of msprobe, or the names; nothing in it is taken silently."""

import json

import numpy as np
import pytest

from precreg.comparison.order import MAX_ORDER_BYTES, KnownOrder, order_of_dumps, read_order, sort_by_execution
from precreg.comparison.pairing import RawFormat, StoredPair, pair_arrays, read_side
from precreg.errors import UserError
from precreg.types.comparison import ExecutionOrder, SomeNames

ONES = np.ones(4, np.float32)


def pairs(*names):
    return [StoredPair(name, None, None) for name in names]


def sorted_names(known, *names):
    ordered, order = sort_by_execution(pairs(*names), known)
    return [pair.name for pair in ordered], order


def listed(*names):
    return KnownOrder("file", ("o.txt",), names)


def test_without_a_file_names_are_in_natural_order(write):
    for name in ("layers.10", "layers.2", "layers.1"):
        for side in ("a", "r"):
            write(f"{side}/{name}.npy", ONES)
    actual, reference = (
        read_side(side, RawFormat()) for side in (write("a/x.txt", "").parent, write("r/x.txt", "").parent)
    )
    assert order_of_dumps((actual, reference)) is None
    names, order = sorted_names(None, *(pair.name for pair in pair_arrays(actual, reference, {})))
    assert names == ["layers.1", "layers.2", "layers.10"]
    assert order == ExecutionOrder("names")


def test_a_file_of_lines_gives_the_order(write):
    known = read_order(write("o.txt", "\ufeffb\r\n\n  a \nc\n"))
    assert known.source == "file"
    assert list(known.names) == ["b", "a", "c"]


def test_a_list_in_json_gives_the_order(write):
    assert list(read_order(write("o.json", json.dumps(["b", "a #1"]))).names) == ["b", "a #1"]


def test_the_json_of_msprobe_gives_the_order_without_its_tensors(write):
    entry = {"dtype": "torch.float32", "shape": [4]}
    calls = {
        "Module.b.forward.0": {"output": [{**entry, "data_name": "Module.b.forward.0.output.0.npy"}]},
        "Module.a.forward.0": {"output": [{**entry, "data_name": "Module.a.forward.0.output.0.pt"}]},
    }
    known = read_order(write("dump.json", json.dumps({"data": calls})))
    assert known.source == "msprobe"
    assert list(known.names) == ["Module.b.forward.0.output.0", "Module.a.forward.0.output.0"]


def test_names_and_pairs_that_do_not_meet_are_counted_and_named():
    names, order = sorted_names(listed("z", "b", "y", "a", "x", "w"), "a", "b", "c", "d")
    assert names == ["b", "a", "c", "d"]
    assert order.unused == SomeNames(("z", "y", "x"), 1)
    assert order.unused.count == 4
    assert order.unordered == SomeNames(("c", "d"))


@pytest.mark.parametrize(
    ("listed_name", "name"),
    [
        ("out/y.npy", "out/y"),
        ("/layer.0/Add_output_0", "layer.0/Add_output_0"),
        ("/layer.0/Add_output_0", "layer_0_Add_output_0"),
        ("conv1", "model:conv1"),
    ],
)
def test_a_name_may_be_spelled_as_files_cannot(listed_name, name):
    names, order = sorted_names(listed(listed_name, "b"), "b", name)
    assert names == [name, "b"]
    assert order.unused.count == order.unordered.count == 0


def test_a_spelling_of_two_arrays_orders_neither():
    names, order = sorted_names(listed("a/b"), "a.b", "a_b")
    assert names == ["a.b", "a_b"]
    assert order.unordered == SomeNames(("a.b", "a_b"))
    assert order.unused == SomeNames(("a/b",))
    # The whole name is no such spelling.
    assert sorted_names(listed("a_b"), "a.b", "a_b")[0] == ["a_b", "a.b"]


@pytest.mark.parametrize(
    ("file", "content", "says", "line"),
    [
        ("o.txt", "a\nb\na\n", "each name once but got 'a' again", 3),
        ("o.txt", b"a\n\xff\xfe\n", "UTF-8", 2),
        ("o.txt", "\n\n", "names in the order of execution but there is none", None),
        ("o.json", '["a", "a"]', "each name once", None),
        ("o.json", '["a", 3]', "'3' at [1]", None),
        ("o.json", '"a"', "a list of names in JSON", None),
        ("o.json", "[" * 100_000, "a list of names in JSON", None),
        ("o.json", "{", "a list of names in JSON", None),
    ],
)
def test_a_file_that_is_no_list_of_different_names_is_refused(write, file, content, says, line):
    with pytest.raises(UserError) as caught:
        read_order(write(file, content))
    assert (caught.value.slug, caught.value.line) == ("bad-order", line)
    assert says in caught.value.message


def test_a_json_of_another_kind_is_refused_as_a_dump_is(write):
    with pytest.raises(UserError) as caught:
        read_order(write("o.json", '{"names": []}'))
    assert caught.value.slug == "bad-tensor-file"


def test_a_large_file_is_refused(write):
    file = write("o.txt", "a")
    with file.open("r+b") as stream:
        stream.truncate(MAX_ORDER_BYTES + 1)
    with pytest.raises(UserError) as caught:
        read_order(file)
    assert caught.value.slug == "bad-order"


def test_a_folder_and_a_missing_file_are_refused(write):
    folder = write("o/x.txt", "").parent
    with pytest.raises(UserError) as caught:
        read_order(folder)
    assert caught.value.slug == "bad-order"
    with pytest.raises(UserError) as caught:
        read_order(folder / "none.txt")
    assert caught.value.slug == "missing-file"


def dump(write, folder, *calls):
    """Write a dump of msprobe with one output a call, in this order."""
    data = {}
    for call in calls:
        write(f"{folder}/dump_tensor_data/{call}.npy", ONES)
        data[call] = {"output": [{"dtype": "torch.float32", "shape": [4], "data_name": f"{call}.npy"}]}
    return write(f"{folder}/dump.json", json.dumps({"data": data})).parent


def test_a_dump_that_is_compared_gives_its_order(write):
    sides = [read_side(dump(write, side, "b.1", "a.10", "a.2"), RawFormat()) for side in ("x", "r")]
    known = order_of_dumps(sides)
    names, order = sorted_names(known, *(pair.name for pair in pair_arrays(*sides, {})))
    assert names == ["dump:b.1", "dump:a.10", "dump:a.2"]
    assert order.source == "msprobe"
    assert [file.rpartition("/")[2] for file in order.files] == ["dump.json", "dump.json"]


def test_what_one_dump_lacks_stays_at_its_place(write):
    """A missing output must be the first failing one where it is missing, and not at the end."""
    actual = read_side(dump(write, "x", "c", "d", "new"), RawFormat())
    reference = read_side(dump(write, "r", "first", "c", "gone", "also", "d"), RawFormat())
    names, order = sorted_names(
        order_of_dumps((actual, reference)), *(pair.name for pair in pair_arrays(actual, reference, {}))
    )
    assert [name.removeprefix("dump:") for name in names] == ["first", "c", "gone", "also", "d", "new"]
    assert order.unordered.count == order.unused.count == 0


def test_an_archive_that_only_has_the_name_of_a_dump_gives_no_order(write):
    sides = [read_side(write(f"{side}/dump.npz", {"b": ONES, "a": ONES}).parent, RawFormat()) for side in ("x", "r")]
    assert order_of_dumps(sides) is None


def test_steps_come_one_after_the_other(write):
    for step in ("step10", "step2"):
        dump(write, f"x/{step}", "b", "a")
    side = read_side(write("x/readme.txt", "").parent, RawFormat())
    assert list(order_of_dumps((side,)).names) == ["step2/dump:b", "step2/dump:a", "step10/dump:b", "step10/dump:a"]
