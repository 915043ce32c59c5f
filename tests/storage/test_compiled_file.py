"""Which libraries a compiled file names, in both byte orders and word sizes, and in damaged files."""

import random
from pathlib import Path

import numpy._core._multiarray_umath as compiled
import pytest

from precreg.storage.compiled_file import LinkedLibraries, libraries_linked
from tests.vcs.dependency.elf import library


@pytest.fixture
def read(tmp_path):
    """Return a function that writes bytes into a new file and reads its libraries."""
    numbers = iter(range(10**6))

    def read(content):
        path = tmp_path / f"lib{next(numbers)}.so"
        path.write_bytes(content)
        return libraries_linked(path)

    return read


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
def test_names_and_folders_of_a_library(read, tmp_path, wide, order):
    content = library(["liba.so", "libb.so.1"], "$ORIGIN/deps:${ORIGIN}:/opt/lib", wide=wide, order=order)
    folders = (f"{tmp_path}/deps", str(tmp_path), "/opt/lib")
    assert read(content) == LinkedLibraries(("liba.so", "libb.so.1"), folders)
    assert read(library([], wide=wide, order=order)) == LinkedLibraries()


def test_a_real_library_has_those_that_the_linker_wrote():
    path = Path(compiled.__file__)
    assert bool(libraries_linked(path).names) is path.read_bytes().startswith(b"\x7fELF")
    assert libraries_linked(path.with_name("none.so")) == LinkedLibraries()


def test_damaged_files_have_no_libraries_and_no_traceback(read):
    whole = library(["liba.so"], "$ORIGIN")
    drawn = random.Random(7)
    assert read(b"") == read(b"text") == read(whole[:20]) == LinkedLibraries()
    for _ in range(500):
        content = bytearray(whole[: drawn.randrange(16, len(whole) + 1)])
        for _ in range(drawn.randrange(1, 8)):
            content[drawn.randrange(len(content))] = drawn.randrange(256)
        found = read(bytes(content))
        assert isinstance(found, LinkedLibraries)
