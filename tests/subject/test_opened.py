"""The files that a process opens, as its audit hook notes them: in a process of its own, which ends with the hook."""

import json
import py_compile
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from precreg.subject.opened import MAX_OPENED, inside_project, touches

START = """
import json, os, sys
from pathlib import Path
import numpy as np
from precreg.subject.opened import OpenedFiles, inside_project
os.chdir({folder!r})
sys.path.insert(0, {folder!r})
opened = OpenedFiles()
"""
END = """
print(json.dumps(inside_project(opened.paths(), Path({folder!r}))))
"""


@pytest.fixture
def folder(tmp_path):
    for name, text in {"a.txt": "1", "deep/b.txt": "2", "module.py": "x = 1\n", "pack/__init__.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    np.save(tmp_path / "c.npy", np.ones(3))
    (tmp_path / "link.txt").symlink_to(tmp_path / "deep/b.txt")
    return tmp_path


def noted(folder, code):
    text = START.format(folder=str(folder)) + code + END.format(folder=str(folder))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("code", "files"),
    [
        ("open('a.txt').read()", ["a.txt"]),
        ("Path('deep', 'b.txt').read_bytes()", ["deep/b.txt"]),
        ("os.close(os.open('a.txt', os.O_RDONLY))", ["a.txt"]),
        ("open(b'a.txt').read()", ["a.txt"]),
        ("os.chdir('deep'); open('../a.txt').read()", ["a.txt"]),
        ("np.load('c.npy')", ["c.npy"]),
        ("np.memmap('c.npy', np.uint8, 'r')", ["c.npy"]),
        ("np.fromfile('c.npy', np.uint8)", ["c.npy"]),
        ("np.loadtxt('a.txt')", ["a.txt"]),
        ("import module", ["module.py"]),
        ("__import__('pa' + 'ck')", ["pack/__init__.py"]),
        ("open('link.txt').read()", ["deep/b.txt", "link.txt"]),
        ("os.listdir('deep')", ["deep/"]),
        (
            "sys.path[:2] = ['__editable__.own-1.0.finder.__path_hook__']; "
            "from importlib.metadata import entry_points; entry_points()",
            [],
        ),
        ("os.listdir()", ["./"]),
        ("[*Path('deep').glob('*.txt')]", ["deep/"]),
        ("import glob; glob.glob('deep/*')", ["deep/"]),
        ("import sqlite3; sqlite3.connect('deep/d.db')", ["deep/d.db"]),
        ("import subprocess; subprocess.run(['cat', 'a.txt'], stdout=subprocess.DEVNULL)", ["a.txt"]),
        # What is not there, too: its appearance would change the result.
        ("import contextlib\nwith contextlib.suppress(OSError): open('missing.txt')", ["missing.txt"]),
        ("import contextlib, ctypes\nwith contextlib.suppress(OSError): ctypes.CDLL('./lib.so')", ["lib.so"]),
        # Written files, installed modules, and the search for modules are none of it.
        ("open('out.txt', 'w').close()", []),
        ("import email.mime.text, yaml", []),
        ("import ctypes; ctypes.CDLL(None)", []),
    ],
)
def test_what_a_process_opens_lists_or_imports(folder, code, files):
    assert noted(folder, code) == files


def test_a_module_has_its_text_in_the_list_also_when_its_cache_is_loaded(folder):
    py_compile.compile(str(folder / "module.py"))
    assert noted(folder, "import module") == ["module.py"]


def test_the_folder_of_installed_programs_is_left_out(folder):
    code = f"os.listdir({str(Path(sys.executable).parent)!r}); os.listdir('deep')\n"
    text = START.format(folder=str(folder)) + code + "print(json.dumps(sorted(opened.paths())))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [f"{folder}/deep/"]


def test_many_files_are_their_folders():
    names = {f"/p/data/{number}.npy" for number in range(MAX_OPENED + 1)}
    assert inside_project(names | {"/p/k.py", "/elsewhere/x"}, Path("/p")) == ("./", "data/")
    assert len(inside_project({*sorted(names)[:MAX_OPENED]}, Path("/p"))) == MAX_OPENED


@pytest.mark.parametrize(
    ("opened", "changed", "found"),
    [
        (["a.py"], ["a.py", "b.py"], ("a.py",)),
        (["a/b.py"], ["a.py", "b.py"], ()),
        (["data/"], ["data/x", "data/deep/y", "database/z"], ("data/deep/y", "data/x")),
        (["./"], ["x"], ("x",)),
        ([], ["x"], ()),
        # A submodule of git has one path for all of its files.
        (["libs/sub/ref.py"], ["libs/sub"], ("libs/sub",)),
        (["libs/subway/ref.py"], ["libs/sub"], ()),
    ],
)
def test_which_changed_files_a_computation_touches(opened, changed, found):
    assert touches(opened, changed) == found
