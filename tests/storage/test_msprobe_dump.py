"""Dumps of msprobe: the JSON names the tensors, in the order of execution, and leads nowhere else."""

import json

import numpy as np
import pytest

from precreg.errors import UserError
from precreg.storage.msprobe_dump import find_msprobe_dump
from tests.storage.torch_files import tensor, write_torch_file

DATA = np.arange(6, dtype=np.float32).reshape(2, 3)


def entry(name, shape=(2, 3), **others):
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(shape), "data_name": name, **others}


def dump(folder, calls, files=()):
    tensors = folder / "dump_tensor_data"
    tensors.mkdir(parents=True)
    for name in files:
        if name.endswith(".npy"):
            np.save(tensors / name, DATA)
        else:
            write_torch_file(tensors / name, tensor((2, 3), (3, 1)), DATA.tobytes())
    (folder / "dump.json").write_text(json.dumps({"task": "tensor", "level": "L0", "data": calls}))
    return folder / "dump.json"


NAMES = ("Module.conv10.Conv2d.forward.0.output.0.npy", "Module.conv2.Conv2d.forward.0.input.0.pt")
CALLS = {
    "Module.conv10.Conv2d.forward.0": {"input_args": [{"type": "int", "value": 3}], "output": [entry(NAMES[0])]},
    "Module.conv2.Conv2d.forward.0": {"input_args": [entry(NAMES[1])], "input_kwargs": {}, "output": [None]},
}


def test_names_come_in_the_order_of_execution(tmp_path):
    found = find_msprobe_dump(dump(tmp_path, CALLS, NAMES), "dump.json")
    assert [*found] == [name.rpartition(".")[0] for name in NAMES]
    for each in found.values():
        np.testing.assert_array_equal(each.load(), DATA)


@pytest.mark.parametrize(
    ("calls", "slug", "says"),
    [
        ({"c": {"output": [entry("../../../etc/passwd.npy")]}}, "bad-tensor-file", "a .npy or .pt file"),
        ({"c": {"output": [entry("..\\\\x.npy")]}}, "bad-tensor-file", "a .npy or .pt file"),
        ({"c": {"output": [entry("x.json")]}}, "bad-tensor-file", "a .npy or .pt file"),
        ({"c": {"output": [entry("gone.npy")]}}, "missing-file", "none"),
        ({"c": {"output": [entry(NAMES[0], (3, 3))]}}, "bad-tensor-file", "shape [3, 3]"),
        (
            {"c": {"output": [{**entry(""), "data_name": None, "Max": 1.0}]}},
            "bad-tensor-file",
            "statistics of 1 tensors",
        ),
        ({}, "bad-tensor-file", "no tensor"),
    ],
)
def test_what_is_refused(tmp_path, calls, slug, says):
    with pytest.raises(UserError) as caught:
        find_msprobe_dump(dump(tmp_path, calls, NAMES[:1]), "dump.json")
    assert (caught.value.slug, says in caught.value.message) == (slug, True), caught.value.message


@pytest.mark.parametrize("content", ["", "[]", '{"data": []}', "[" * 100_000])
def test_other_json_is_refused(tmp_path, content):
    path = tmp_path / "dump.json"
    path.write_text(content)
    with pytest.raises(UserError, match="the JSON of msprobe"):
        find_msprobe_dump(path, "dump.json")
