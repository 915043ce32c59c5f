"""Programs as subjects: the real ones of a system, on real files."""

import json
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from precreg.errors import UserError
from precreg.storage import find_safetensors
from precreg.storage.npy import read_npy
from precreg.subject import CaseFailed, blame_failures
from precreg.subject.command.files import read_outputs, write_inputs
from precreg.subject.command.run import run_on_files
from precreg.types import Reason

COPY = ["cp", "{inputs.x}", "{outputs.y}"]
LIKE = {"y": {"like": "x"}}
DTYPES = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint64",
    "uint32",
    "uint16",
    "uint8",
    "bool",
]


def values(dtype):
    """Return numbers of a dtype, of three axes, with the ends of its range."""
    scalar = getattr(ml_dtypes, dtype, None) or np.dtype(dtype).type
    numbers = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    return (numbers % 2 if dtype == "bool" else numbers).astype(scalar)


def python(*lines):
    """Return a command of Python statements, which see the arguments after them as `a`."""
    return ["{python}", "-c", "import sys; a = sys.argv[1:]\n" + "\n".join(lines).replace("{", "{{").replace("}", "}}")]


@pytest.mark.parametrize("form", ["npy", "bin", "safetensors"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_comes_back_from_each_format_with_its_bits(call, form, dtype):
    x = values(dtype)
    outputs = run_on_files({"command": COPY, "format": form, "outputs": LIKE}, call(inputs={"x": x}))
    y = outputs.arrays["y"]
    assert (y.dtype, y.shape, y.tobytes()) == (x.dtype, x.shape, x.tobytes())
    assert outputs.duration_s > 0


@pytest.mark.parametrize("form", ["npy", "bin", "safetensors"])
@pytest.mark.parametrize("shape", [(), (0, 3), (70_000,)], ids=str)
def test_scalars_empty_and_large_arrays_travel(call, form, shape):
    x = np.random.default_rng(1).standard_normal(shape, np.float32) if shape else np.float32(3).reshape(())
    y = run_on_files({"command": COPY, "format": form, "outputs": LIKE}, call(inputs={"x": x})).arrays["y"]
    assert (y.shape, y.tobytes()) == (x.shape, x.tobytes())


def test_files_are_in_c_order_and_little_endian_for_any_layout(tmp_path):
    x = np.arange(6, dtype=">f4").reshape(2, 3).T
    files = write_inputs({"inputs": {"x": {"file": "x.bin"}}}, {"x": x}, tmp_path)
    assert files["x"].read_bytes() == np.array([0, 3, 1, 4, 2, 5], "<f4").tobytes()
    npy = write_inputs({}, {"x": x}, tmp_path)["x"]
    assert np.load(npy).flags.c_contiguous
    assert np.load(npy).tolist() == x.tolist()


def test_another_reader_takes_the_safetensors_files(tmp_path):
    """The format as its README has it: 8 bytes of length, JSON, data."""
    x = values("bfloat16")
    spec = {"format": "safetensors", "inputs": {name: {"file": "in/all.safetensors"} for name in ("x", "n")}}
    files = write_inputs(spec, {"x": x, "n": np.arange(3)}, tmp_path)
    content = files["x"].read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert header == {
        "x": {"dtype": "BF16", "shape": [2, 3, 4], "data_offsets": [0, 48]},
        "n": {"dtype": "I64", "shape": [3], "data_offsets": [48, 72]},
    }
    assert content[8 + length : 8 + length + 48] == x.tobytes()
    assert [*find_safetensors(files["n"], "all")] == ["x", "n"]


def test_a_bfloat16_npy_file_has_its_dtype_in_its_name(tmp_path):
    file = write_inputs({}, {"x": values("bfloat16")}, tmp_path)["x"]
    assert file == tmp_path / "input" / "x.bfloat16.npy"
    assert read_npy(file, file.name).tobytes() == values("bfloat16").tobytes()


def test_a_file_of_the_suites_name_may_leave_the_dtype_to_the_declaration(call):
    outputs = {"y": {"file": "result.npy", "dtype": "bfloat16"}}
    x = values("bfloat16")
    y = run_on_files({"command": ["cp", "{inputs.x}", "{outputs.y}"], "outputs": outputs}, call(inputs={"x": x}))
    assert y.arrays["y"].tobytes() == x.tobytes()
    assert y.arrays["y"].dtype == x.dtype


def test_formats_may_differ_by_the_end_of_each_file(call):
    spec = {
        "command": python("import numpy as np", "np.load('in/x.npy').astype('<f4').tofile('y.bin')"),
        "inputs": {"x": {"file": "in/x.npy"}},
        "outputs": {"y": {"file": "y.bin", "dtype": "float32", "shape": [2]}},
    }
    assert run_on_files(spec, call(inputs={"x": np.array([1.5, 2.5])})).arrays["y"].tolist() == [1.5, 2.5]


def shown(call, command, *, params=None, **options):
    """Return the arguments and variables that a program sees, and its folder."""
    lines = ("import json, os", "json.dump([a, dict(os.environ), os.getcwd()], open('seen.json', 'w'))")
    copy = "import shutil; shutil.copy('seen.json', os.environ['KEEP'])"
    kept = call().project / "seen.json"
    options = {"environment": {"KEEP": str(kept)} | options.pop("environment", {})} | options
    spec = {"command": [*python(*lines, copy), *command], "outputs": {"y": {}}, **options}
    run_on_files(spec, call(params=params, inputs={"x": np.zeros(2)}))
    return json.loads(kept.read_text())


def test_placeholders_have_the_values_of_the_call(call):
    params = {"eps": 1e-5, "third": 1 / 3, "n": 7, "on": True, "mode": "fast", "axes": [0, 1]}
    words = ["{inputs.x}", "{outputs.y}", "{suite}", "{project}", "{folder}", "{python}", "{{x}}"]
    words += [f"--p={{params.{name}}}" for name in params]
    arguments, variables, folder = shown(call, words, params=params, environment={"EPS": "{params.eps}"})
    assert arguments[:2] == [f"{folder}/input/x.npy", f"{folder}/output/y.npy"]
    assert arguments[2:7] == [str(call().directory), str(call().project), folder, sys.executable, "{x}"]
    assert arguments[7:] == ["--p=1e-05", f"--p={1 / 3!r}", "--p=7", "--p=true", "--p=fast", "--p=[0, 1]"]
    assert variables["EPS"] == "1e-05"
    assert not os.path.exists(folder)


def test_standard_input_is_empty(call):
    spec = {"command": python("raise SystemExit(len(sys.stdin.read()))"), "outputs": {"y": {}}}
    assert run_on_files(spec, call()).arrays == {}


def test_a_missing_output_is_no_array_and_no_error(call):
    """The verdict names it: missing_output."""
    assert run_on_files({"command": ["true"], "outputs": {"y": {}}}, call()).arrays == {}


def test_a_version_is_a_fact(call):
    spec = {"command": ["true"], "outputs": {"y": {}}, "version": python("print('kernel 1.2'); print('more')")}
    assert run_on_files(spec, call()).facts == {"program": "kernel 1.2"}


def failure(spec, call):
    """Return the failure that a run gives its case."""
    with pytest.raises(CaseFailed) as caught, blame_failures(Reason.SUBJECT_ERROR):
        run_on_files({"outputs": {"y": {}}, **spec}, call)
    return caught.value.failure


def test_an_exit_code_fails_with_the_end_of_both_streams(call):
    lines = "print('on output')", "print('x' * 9000, file=sys.stderr)", "raise SystemExit('no device')"
    found = failure({"command": python(*lines)}, call())
    assert found.message == "expected {python} to exit with code 0 but it exited with code 1: no device"
    assert "standard output:\non output" in found.detail
    assert "error[program-failed]" in found.detail
    assert 4000 < len(found.detail) < 5000


def test_a_signal_has_its_name(call):
    found = failure({"command": python("import os; os.kill(os.getpid(), 11)")}, call())
    assert found.message == "expected {python} to exit with code 0 but it was killed by SIGSEGV"


def test_endless_output_takes_no_memory_and_does_not_block(call):
    lines = "sys.stdout.write('y' * 30_000_000)", "sys.stderr.write('z' * 3_000_000)", "sys.exit(3)"
    assert len(failure({"command": python(*lines)}, call()).detail) < 9000


def test_a_child_that_keeps_the_streams_does_not_keep_the_case(call):
    """The program's end counts. Its child waits for a file, which comes after the outputs were read."""
    lines = (
        "import os, subprocess",
        "waits = 'import os, time\\nwhile not os.path.exists(' + repr(a[0]) + '): time.sleep(0.01)'",
        "subprocess.Popen([sys.executable, '-c', waits])",
    )
    end = call().project / "end"
    spec = {"command": [*python(*lines), str(end)], "outputs": {"y": {}}}
    assert run_on_files(spec, call()).arrays == {}
    assert not end.exists()
    end.touch()


@pytest.mark.parametrize(
    ("size", "expected"),
    [(7, "but got 7 bytes"), (9, "but got 9 bytes"), (0, "but got 0 bytes")],
)
def test_a_raw_output_has_the_declared_length(call, size, expected):
    spec = {
        "command": [*python(f"open(a[0], 'wb').write(b'x' * {size})"), "{outputs.y}"],
        "format": "bin",
        "outputs": {"y": {"dtype": "float32", "shape": [2]}},
    }
    found = failure(spec, call())
    assert found.message.startswith("expected 8 bytes in output/y.bin (output y: float32 of shape [2])")
    assert found.message.endswith(expected)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"dtype": "float32"}, "expected dtype=float32 in output/y.npy (output y) but got dtype=float64"),
        ({"shape": [3]}, "expected shape=[3] in output/y.npy (output y) but got shape=[2]"),
        ({"like": "n"}, "expected dtype=int64 in output/y.npy (output y) but got dtype=float64"),
        ({"like": "m"}, "expected the name of an input but got like=m"),
    ],
)
def test_a_described_output_agrees_with_its_declaration(call, declared, expected):
    inputs = {"x": np.zeros(2), "n": np.zeros(2, np.int64)}
    found = failure({"command": ["cp", "{inputs.x}", "{outputs.y}"], "outputs": {"y": declared}}, call(inputs=inputs))
    assert expected in found.message


@pytest.mark.parametrize(
    "line",
    [
        "os.symlink(a[1], a[0])",
        "os.mkfifo(a[0])",
        "os.mkdir(a[0])",
        "os.rmdir('output'); os.symlink(os.path.dirname(a[1]), 'output')",
        "os.symlink('nowhere', a[0])",
    ],
)
def test_links_and_special_files_are_refused(call, line):
    secret = call().project / "y.npy"
    np.save(secret, np.zeros(2))
    found = failure({"command": [*python("import os", line), "{outputs.y}", str(secret)]}, call())
    assert "output y to be a regular file, and no link" in found.message


def test_a_damaged_array_file_is_an_error(call):
    found = failure({"command": [*python("open(a[0], 'wb').write(b'no array')"), "{outputs.y}"]}, call())
    assert "expected a .npy file, version 1 or 2" in found.message


def test_a_sparse_file_of_any_length_takes_no_memory(call):
    spec = {
        "command": [*python("open(a[0], 'wb').truncate(1 << 42)"), "{outputs.y}"],
        "outputs": {"y": {"dtype": "uint8", "shape": [2], "format": "bin"}},
    }
    assert f"but got {1 << 42} bytes" in failure(spec, call()).message


def test_a_wrong_declaration_reserves_no_memory(tmp_path):
    (tmp_path / "y.bin").write_bytes(b"abc")
    spec = {"outputs": {"y": {"dtype": "uint8", "shape": [1 << 50], "file": "y.bin"}}}
    with pytest.raises(UserError, match=f"expected {1 << 50} bytes .* but got 3 bytes"):
        read_outputs(spec, {}, tmp_path)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"command": ["pyton3-no-such"]}, "expected a program on PATH but got command=pyton3-no-such"),
        ({"command": ["./kernl"]}, 'suites/unit/kernl is not there; did you mean "kernel"?'),
        ({"command": ["./kernel"]}, "suites/unit/kernel is not executable: chmod +x suites/unit/kernel"),
        ({"command": ["../../../kernel"]}, "expected a path inside the project but got"),
        (
            {"command": ["true", "{inputs.xx}"]},
            'expected one of inputs.x but got {inputs.xx}; did you mean "inputs.x"?',
        ),
        ({"command": ["true", "{params.eps}"]}, "expected no {params.NAME} in a suite without params but got {params."),
        (
            {"command": ["true"], "inputs": {"y": {"format": "bin"}}},
            "expected an input of the suite but got y in inputs",
        ),
        ({"command": ["true"], "inputs": {"x": {"file": "z.bin"}, "z": {"file": "z.bin"}}}, "expected a file for each"),
        ({"command": ["true"], "folder": "{suite}/data"}, "expected a folder to work in but {suite}/data is not there"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_a_mistake_is_one_sentence(call, write, spec, expected):
    write("suites/unit/kernel", "not a program")
    found = failure(spec, call(inputs={"x": np.zeros(2), "z": np.zeros(2)} if "z" in str(spec) else {"x": np.zeros(2)}))
    assert expected in found.message


def test_a_text_file_is_no_program(call, write):
    write("suites/unit/kernel", "not a program")
    (call().directory / "kernel").chmod(0o755)
    assert "to start" in failure({"command": ["./kernel"]}, call()).message


def test_a_name_of_an_input_cannot_leave_the_folder(call):
    found = failure({"command": ["true"]}, call(inputs={"../../x": np.zeros(2)}))
    assert "expected file: in inputs for an input whose name is no file name but got '../../x'" in found.message


def test_complex_numbers_have_no_safetensors_file(call):
    found = failure({"command": ["true"], "format": "safetensors"}, call(inputs={"x": np.zeros(2, np.complex64)}))
    assert "expected a name and dtype that .safetensors has but got x of dtype=complex64" in found.message


def test_nothing_is_left_of_a_call(call, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    run_on_files({"command": python("open('more', 'w')"), "outputs": {"y": {}}}, call())
    failure({"command": ["false"]}, call())
    assert [*(tmp_path / "scratch").iterdir()] == []


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(3)"])
def test_the_files_of_a_call_can_be_kept(call, tmp_path, monkeypatch, ending):
    monkeypatch.setenv("PRECREG_KEEP_FILES", str(tmp_path / "kept"))
    spec = {"command": [*python("open(a[0], 'w').write('result')", ending), "{outputs.y}"], "outputs": {"y": {}}}
    with pytest.raises(UserError):
        run_on_files(spec, call(inputs={"x": np.zeros(2)}))
    (kept,) = (tmp_path / "kept").iterdir()
    assert (kept / "output/y.npy").read_text() == "result"
    assert np.load(kept / "input/x.npy").tolist() == [0, 0]


def test_an_interrupted_program_ends(tmp_path):
    """An interrupt while the program runs: it is gone, and so is its folder."""
    code = """\
import os, signal, sys, threading
from pathlib import Path
from precreg.subject import Call
from precreg.subject.command.run import run_on_files
started, project = Path(sys.argv[1]), Path(sys.argv[2])
os.mkfifo(started)
def interrupt():
    print(started.read_text(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
program = "import os, sys, time\\nopen(sys.argv[1], 'w').write(str(os.getpid()))\\nwhile True: time.sleep(1)"
spec = {"command": ["{python}", "-c", program, str(started)], "outputs": {"y": {}}}
try:
    run_on_files(spec, Call({}, {}, project, project))
except KeyboardInterrupt:
    print("interrupted")
"""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-c", code, str(tmp_path / "started"), str(tmp_path)]
    variables = {**os.environ, "TMPDIR": str(scratch)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=variables)
    pid, last = done.stdout.split()
    assert last == "interrupted"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    assert [*scratch.iterdir()] == []


def test_an_unknown_param_names_the_nearest(call):
    found = failure({"command": ["true", "{params.epz}"]}, call(params={"eps": 1e-5, "n": None}))
    assert found.message == 'expected one of params.eps but got {params.epz}; did you mean "params.eps"?'
    found = failure({"command": ["true", "{params.n}"]}, call(params={"eps": 1e-5, "n": None}))
    assert found.message == "expected a value to pass to the program but got n: null in params"
