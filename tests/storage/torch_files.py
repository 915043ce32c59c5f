"""Files of torch.save, made byte by byte: tests need no torch, and hostile files are no accident."""

import struct
import zipfile


def text(value):
    """Return the opcode that pushes a text."""
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value):
    """Return the opcode that pushes a small whole number."""
    return b"J" + struct.pack("<i", value)


def numbers(values):
    """Return the opcodes that push a tuple of whole numbers."""
    return b"(" + b"".join(map(number, values)) + b"t"


def tensor(shape, strides, offset=0, *, key="0", elements=6, storage="FloatStorage"):
    """Return the opcodes that push a tensor."""
    pid = b"(" + text("storage") + f"ctorch\n{storage}\n".encode() + text(key) + text("cpu") + number(elements) + b"tQ"
    rest = number(offset) + numbers(shape) + numbers(strides) + b"\x89" + b"ccollections\nOrderedDict\n)R"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + pid + rest + b"tR"


def write_torch_file(path, pickled, data, *, compression=zipfile.ZIP_STORED, extra=()):
    """Write a .pt file of one storage."""
    members = {"y/data.pkl": b"\x80\x02" + pickled + b".", "y/byteorder": b"little", "y/data/0": data}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (*members.items(), *extra):
            # A bare ZipInfo has a fixed date, so equal tensors give equal files.
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return path
