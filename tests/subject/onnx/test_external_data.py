"""The files of weights that the bytes of a model name. The bytes are written here by the rules of protobuf."""

import pytest

from precreg.subject.onnx.external_data import external_files


def varint(number):
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def field(number, content):
    """Return a field of bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(location):
    entry = field(1, b"location") + field(2, location)
    # dims (packed), data_type, name, an entry without use, the location, data_location EXTERNAL.
    head = field(1, b"\x02\x03") + b"\x10\x01" + field(8, b"w")
    return head + field(13, field(1, b"offset") + field(2, b"0")) + field(13, entry) + b"\x70\x01"


def model(*graph):
    # ir_version, producer_name, graph, opset_import.
    return b"\x08\x08" + field(2, b"test") + field(7, b"".join(graph)) + field(8, b"\x10\x11")


@pytest.fixture
def write(tmp_path):
    def write(content):
        (tmp_path / "net.onnx").write_bytes(content)
        return tmp_path / "net.onnx"

    return write


def test_initializers_attributes_and_subgraphs_name_files(write, tmp_path):
    attribute = field(5, field(1, b"value") + field(5, tensor(b"constant.bin")))
    subgraph = field(5, field(1, b"body") + field(6, field(5, tensor(b"inner/body.bin"))))
    graph = [field(5, tensor(b"net.bin")), field(5, tensor(b"net.bin")), field(1, attribute), field(1, subgraph)]
    path = write(model(*graph))
    assert external_files(path) == tuple(tmp_path / name for name in ("net.bin", "constant.bin", "inner/body.bin"))


def test_long_data_is_no_obstacle(write, tmp_path):
    raw = field(5, field(9, bytes(100_000)) + b"\x10\x01")
    assert external_files(write(model(raw, field(5, tensor(b"net.bin"))))) == (tmp_path / "net.bin",)


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x3a\xff\xff\xff\xff\x0f", b"\xff" * 40, b"\x3a\x05ab"])
def test_other_bytes_name_nothing(write, content):
    assert external_files(write(content)) == ()


def test_a_missing_model_names_nothing(tmp_path):
    assert external_files(tmp_path / "net.onnx") == ()


def test_a_changed_model_is_read_again(write):
    path = write(model(field(5, tensor(b"a.bin"))))
    assert [file.name for file in external_files(path)] == ["a.bin"]
    write(model(field(5, tensor(b"other.bin"))))
    assert [file.name for file in external_files(path)] == ["other.bin"]
