"""Libraries of ELF with nothing in them but the names of other libraries."""

import struct


def library(needed, folders="", *, wide=True, order="<"):
    """Return a shared library that needs others, with their folders as its RUNPATH."""
    strings = b"\0"
    places = []
    for text in (*needed, folders):
        places.append(len(strings))
        strings += text.encode() + b"\0"
    header, program = (64, 56) if wide else (52, 32)
    at = header + 2 * program
    entries = [(1, place) for place in places[:-1]] + ([(29, places[-1])] if folders else [])
    # The names lie behind the entries; all of it is loaded at the address 0x1000.
    size = (len(entries) + 3) * (16 if wide else 8)
    entries += [(5, 0x1000 + at + size), (10, len(strings)), (0, 0)]
    dynamic = b"".join(struct.pack(f"{order}{'qQ' if wide else 'iI'}", *entry) for entry in entries)
    whole = at + size + len(strings)
    start = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    words = "QQQ" if wide else "III"
    start += struct.pack(f"{order}HHI{words}IHHHHHH", 3, 62, 1, 0, header, 0, 0, header, program, 2, 0, 0, 0)
    load = _segment(order, wide, 1, 0, 0x1000, whole)
    return start + load + _segment(order, wide, 2, at, 0x1000 + at, size) + dynamic + strings


def _segment(order, wide, kind, offset, address, size):
    if wide:
        return struct.pack(f"{order}IIQQQQQQ", kind, 4, offset, address, address, size, size, 8)
    return struct.pack(f"{order}IIIIIIII", kind, offset, address, address, size, size, 4, 4)
