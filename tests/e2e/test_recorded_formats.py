"""Recorded files in suites, in each format: accepted, equal, worse, damaged, and selected by a change."""

import json
import shutil

import numpy as np
import pytest

from tests.e2e.command import git, precreg, repository
from tests.storage.test_msprobe_dump import dump, entry
from tests.storage.test_tensor_proto import field, proto
from tests.storage.torch_files import tensor, write_torch_file

EXACT = np.linspace(0.1, 3, 64).reshape(4, 16)
GOOD = EXACT.astype(np.float32)
BAD = (EXACT * (1 + 1e-4 * np.cos(EXACT * 1e3))).astype(np.float32)


def write_bin(path, array):
    path.write_bytes(array.tobytes())


def write_pt(path, array):
    write_torch_file(path, tensor((4, 16), (16, 1), elements=64), array.tobytes())


def write_pb(path, array):
    path.write_bytes(proto((4, 16), 1, field(9, array.tobytes())))


def write_safetensors(path, array):
    header = {"y": {"dtype": "F32", "shape": [4, 16], "data_offsets": [0, array.nbytes]}}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + array.tobytes())


def write_dump(path, array):
    name = "Module.fc.Linear.forward.0.output.0.npy"
    shutil.rmtree(path.parent, ignore_errors=True)
    dump(path.parent, {"Module.fc.Linear.forward.0": {"output": [entry(name, (4, 16))]}})
    np.save(path.parent / "dump_tensor_data" / name, array)


WRITERS = {"bin": write_bin, "pt": write_pt, "pb": write_pb, "safetensors": write_safetensors}


def project_of(folder, actual, reference, more=""):
    suite = f'suite: s\nfiles: {{actual: "{actual}", reference: "{reference}"{more}}}\ntolerance: {{rtol: 1e-3}}\n'
    unit = folder / "suites/unit"
    for name in ("out", "ref"):
        (unit / name).mkdir(parents=True)
    (unit / "s.yaml").write_text(suite)
    return unit


def accept(project):
    repository(project)
    first = precreg(project, "run")
    assert first.returncode == 2, first.stdout + first.stderr
    assert precreg(project, "baseline", "accept", "--all", "--reason", "recorded").returncode == 0
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "accepted")


def reasons(project):
    record = json.loads((project / "reports/record.json").read_text())
    return {result["id"]: result["verdict"]["reason"] for result in record["results"]}


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_planted_loss_is_found_and_an_equal_file_passes(tmp_path, suffix):
    write = WRITERS[suffix]
    more = ", dtype: float32, shape: [4, 16]" if suffix == "bin" else ""
    unit = project_of(tmp_path, f"out/*.{suffix}", f"ref/*.{suffix}", more)
    for name in ("layer2", "layer10"):
        write(unit / "out" / f"{name}.{suffix}", GOOD)
        write(unit / "ref" / f"{name}.{suffix}", GOOD)
    accept(tmp_path)
    listed = precreg(tmp_path, "list").stdout
    assert listed.index("layer2") < listed.index("layer10")
    write(unit / "out" / f"layer2.{suffix}", GOOD)
    assert (precreg(tmp_path, "run").returncode, set(reasons(tmp_path).values())) == (0, {"identical"})
    write(unit / "out" / f"layer10.{suffix}", BAD)
    done = precreg(tmp_path, "run", "--changed-since", "HEAD")
    assert (done.returncode, reasons(tmp_path)) == (1, {"unit/s/layer10": "regressed"}), done.stdout


def test_a_dump_of_msprobe_is_one_case_with_an_output_for_each_tensor(tmp_path):
    unit = project_of(tmp_path, "out/{run}/dump.json", "ref/dump.json")
    write_dump(unit / "ref/dump.json", GOOD)
    write_dump(unit / "out/a/dump.json", GOOD)
    accept(tmp_path)
    np.save(unit / "out/a/dump_tensor_data/Module.fc.Linear.forward.0.output.0.npy", BAD)
    done = precreg(tmp_path, "run", "--changed-since", "HEAD")
    assert (done.returncode, reasons(tmp_path)) == (1, {"unit/s/a": "regressed"}), done.stdout
    assert "Module.fc.Linear.forward.0.output.0: " in done.stdout


def test_dtype_and_shape_of_raw_files_may_stand_in_their_names(tmp_path):
    more = ", dtype: $type, reference_dtype: float64, shape: $shape"
    unit = project_of(tmp_path, "out/{type}-{shape}.bin", "ref/{shape}.bin", more)
    write_bin(unit / "out/float32-4x16.bin", GOOD)
    write_bin(unit / "out/float16-4x16.bin", EXACT.astype(np.float16))
    write_bin(unit / "ref/4x16.bin", EXACT)
    assert precreg(tmp_path, "run", "--environment", "cpu").returncode == 2
    record = json.loads((tmp_path / "reports/record.json").read_text())
    compared = [each for result in record["results"] for each in result["outcome"]["comparisons"]]
    assert sorted((each["dtype"], tuple(each["shape"]), each["reference_dtype"]) for each in compared) == [
        ("float16", (4, 16), "float64"),
        ("float32", (4, 16), "float64"),
    ]


@pytest.mark.parametrize(("size", "says"), [(255, "has 255"), (300, "has 300")])
def test_a_raw_file_of_another_size_is_the_error_of_its_case(tmp_path, size, says):
    unit = project_of(tmp_path, "out/*.bin", "ref/*.bin", ", dtype: float32, shape: [4, 16]")
    (unit / "out/y.bin").write_bytes(bytes(size))
    write_bin(unit / "ref/y.bin", GOOD)
    done = precreg(tmp_path, "run")
    assert (done.returncode, reasons(tmp_path)) == (2, {"unit/s/y": "subject_error"})
    text = " ".join(done.stdout.split())
    assert f"expected 256 bytes (float32 of shape (4, 16)) but the file {says}" in text


def test_a_pickle_that_would_run_code_is_the_error_of_its_case(tmp_path):
    unit = project_of(tmp_path, "out/*.pt", "ref/*.pt")
    ran = tmp_path / "ran"
    write_torch_file(unit / "out/y.pt", b"cos\nsystem\n(X\x05\x00\x00\x00touchtR", b"")
    write_pt(unit / "ref/y.pt", GOOD)
    done = precreg(tmp_path, "run")
    assert (done.returncode, reasons(tmp_path)) == (2, {"unit/s/y": "subject_error"})
    assert "os.system, which may run code" in " ".join(done.stdout.split())
    assert not ran.exists()


@pytest.mark.parametrize(
    ("more", "line", "says"),
    [
        ("", 2, "expected dtype: for the raw file suites/unit/out/y.bin, such as dtype: float32"),
        (", dtype: flaot32", 2, 'did you mean "float32"?'),
        (", dtype: float32, shape: 4by16", 2, "such as [4, 64] or 4x64 but got shape=4by16"),
        (", dtype: float32, shape: [-1, 16]", 2, "such as [4, 64] or 4x64"),
        (", dtype: float32, shape: $shape", 2, "shape=$shape"),
        (", dtype: float32, byte_order: middle", 2, ""),
    ],
)
def test_mistakes_in_the_suite(tmp_path, more, line, says):
    unit = project_of(tmp_path, "out/*.bin", "ref/*.bin", more)
    write_bin(unit / "out/y.bin", GOOD)
    write_bin(unit / "ref/y.bin", GOOD)
    done = precreg(tmp_path, "list")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"suites/unit/s.yaml:{line}: error["), done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_compare_reads_the_same_formats(tmp_path):
    for name, write in WRITERS.items():
        write(tmp_path / f"y.{name}", GOOD)
    np.save(tmp_path / "y.npy", GOOD)
    for name in WRITERS:
        raw = ("--dtype", "float32") if name == "bin" else ()
        done = precreg(tmp_path, "compare", f"y.{name}", "y.npy", *raw)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "identical" in done.stdout
    write_dump(tmp_path / "a/dump.json", GOOD)
    write_dump(tmp_path / "b/dump.json", BAD)
    done = precreg(tmp_path, "compare", "a", "b")
    assert done.returncode == 1
    assert "dump:Module.fc.Linear.forward.0.output.0" in done.stdout or "a against" in done.stdout
    assert "skipped" not in done.stdout


def test_the_kind_files_and_a_file_input_take_raw_files(tmp_path):
    unit = tmp_path / "suites/unit"
    unit.mkdir(parents=True)
    (unit / "k.py").write_text("def same(x):\n    return x\n")
    (unit / "s.yaml").write_text(
        "suite: s\nsubject: k:same\ngolden: {files: y.bin, dtype: float32, shape: [4, 16]}\n"
        "inputs: {x: {shape: [4, 16], dtype: float32, file: {path: y.bin}}}\n"
    )
    write_bin(unit / "y.bin", GOOD)
    accept(tmp_path)
    assert (precreg(tmp_path, "run").returncode, reasons(tmp_path)) == (0, {"unit/s/default": "identical"})
