"""Recorded outputs lie in an object store: the same cases and verdicts as of files, and never a former outcome."""

import json
import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest

from tests.e2e.command import environ, started
from tests.extras.comparison.stores import S3, SECRET, Google, refusing_server, s3_variables, without_credentials

SUITE = """\
suite: recorded
files:
  actual: "{place}out/{{version}}/*.npy"
  golden: "{place}golden/*.npy"
"""
SINE = """\
suite: sine
subject: {python: "numpy:sin"}
reference: {files: "s3://dumps/golden/sine.npy"}
inputs: {x: {shape: [64], dtype: float32, normal: {}}}
"""


@pytest.fixture(scope="module", params=[S3, Google], ids=["s3", "gs"])
def store(request):
    store = request.param()
    yield store
    store.stop()


@pytest.fixture(scope="module")
def s3():
    store = S3()
    yield store
    store.stop()


def npy(array):
    written = BytesIO()
    np.save(written, array)
    return written.getvalue()


def contents():
    """Return files by name: a right output, a wrong one, and one that was not recorded."""
    numbers = np.random.default_rng(0).standard_normal((70, 1000), dtype=np.float32)
    return {
        "golden/a.npy": npy(numbers),
        "golden/b.npy": npy(numbers[:3]),
        "out/1/a.npy": npy(numbers * np.float32(1 + 1e-6)),
        "out/2/a.npy": npy(numbers * np.float32(1.5)),
        "out/2/b.npy": npy(numbers[:3]),
        "out/2/notes.txt": b"no array",
    }


def project(folder, **suites):
    (folder / "suites/unit").mkdir(parents=True, exist_ok=True)
    for name, text in suites.items():
        (folder / f"suites/unit/{name}.yaml").write_text(text)
    return folder


def results(folder):
    """Return the verdict, the figures and the digests of each case, and the changes that it left in its process."""
    record = json.loads((folder / "reports/record.json").read_text())
    assert SECRET not in json.dumps(record)
    cases = {case["id"]: case for case in record["results"]}
    assert not any(case["outcome"]["execution"]["left"] for case in cases.values())
    return {
        name: (case["verdict"]["reason"], case["outcome"]["comparisons"], case["outcome"]["execution"]["outputs"])
        for name, case in cases.items()
    }


def test_a_store_gives_the_cases_and_figures_of_files(store, tmp_path):
    local, remote = project(tmp_path / "local", a=SUITE.format(place="")), tmp_path / "remote"
    for name, content in contents().items():
        path = local / "suites/unit" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        store.put(f"same/{name}", content)
    project(remote, a=SUITE.format(place=f"{store.scheme}://dumps/same/"))
    assert started(local, "run", "-j", 0).returncode == 1
    done = started(remote, "run", "-j", 2, **store.variables)
    assert done.returncode == 1, done.stderr
    found = results(remote)
    assert found == results(local)
    assert {name.rpartition("/")[2]: reason for name, (reason, *_) in found.items()} == {
        "1-a": "new",
        "1-b": "missing_output",
        "2-a": "out_of_tolerance",
        "2-b": "new",
    }


def test_a_replaced_object_is_read_again(s3, tmp_path):
    folder = project(tmp_path, a=SUITE.format(place="s3://dumps/again/"))
    files = contents()
    for name in ("golden/a.npy", "out/1/a.npy"):
        s3.put(f"again/{name}", files[name])
    assert started(folder, "run", **s3.variables).returncode == 2
    assert started(folder, "baseline", "accept", "unit/*", "--reason", "first", **s3.variables).returncode == 0
    assert started(folder, "run", **s3.variables).returncode == 0
    # The same size, so that only the content shows it.
    s3.put("again/out/1/a.npy", files["out/2/a.npy"])
    done = started(folder, "run", **s3.variables)
    assert done.returncode == 1, done.stdout
    assert [reason for reason, *_ in results(folder).values()] == ["out_of_tolerance"]
    s3.put("again/golden/a.npy", files["out/2/a.npy"])
    assert started(folder, "run", **s3.variables).returncode == 2
    assert [reason for reason, *_ in results(folder).values()] == ["inputs_changed"]
    # A new object is a new case, although no file of the project changed.
    s3.put("again/out/3/a.npy", files["out/1/a.npy"])
    assert "unit/recorded/3-a" in started(folder, "list", **s3.variables).stdout


def test_a_reference_is_an_object(s3, tmp_path):
    folder = project(tmp_path, a=SINE)
    # A reference has to be there.
    assert started(folder, "run", **s3.variables).returncode == 2
    assert results(folder)["unit/sine/default"][0] == "reference_error"
    s3.put("golden/sine.npy", npy(np.zeros(64)))
    assert started(folder, "run", **s3.variables).returncode == 1
    assert results(folder)["unit/sine/default"][0] == "out_of_tolerance"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (
            "s3://no-such-bucket/",
            "error[missing-file]: s3://no-such-bucket/out/: expected a bucket of the name ",
        ),
        ("s3://dumps/nothing/", "error[no-recorded-files]: expected files but none matches actual=s3://dumps/nothing"),
    ],
)
def test_a_pattern_without_objects_names_its_line(s3, tmp_path, place, expected):
    done = started(project(tmp_path, a=SUITE.format(place=place)), "list", **s3.variables)
    assert done.returncode == 2
    assert f"suites/unit/a.yaml:3: {expected}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_refusal_and_missing_credentials_name_the_line(s3, tmp_path):
    folder = project(tmp_path, a=SUITE.format(place="s3://dumps/"))
    server = refusing_server()
    refused = started(folder, "run", **s3_variables(server.server_address[1]))
    server.shutdown()
    assert refused.returncode == 2
    assert "suites/unit/a.yaml:3: error[store-failed]: s3://dumps/out/: expected permission to read" in refused.stderr
    variables = {**s3.variables, **without_credentials()}
    del variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]
    unknown = started(folder, "run", **variables)
    assert unknown.returncode == 2
    assert "expected credentials, or a store that needs none" in unknown.stderr
    assert SECRET not in refused.stderr + unknown.stderr


def test_a_damaged_object_is_an_error_of_its_case(s3, tmp_path):
    folder = project(tmp_path, a=SUITE.format(place="s3://dumps/cut/"))
    files = contents()
    s3.put("cut/golden/a.npy", files["golden/a.npy"])
    s3.put("cut/out/1/a.npy", files["out/1/a.npy"][:-1])
    done = started(folder, "run", **s3.variables)
    assert done.returncode == 2, done.stdout
    assert [reason for reason, *_ in results(folder).values()] == ["subject_error"]
    assert "s3://dumps/cut/out/1/a.npy: " in done.stdout


def test_a_missing_package_names_the_extra(tmp_path):
    project(tmp_path, a=SUITE.format(place="s3://dumps/"))
    code = "import sys; sys.modules['s3fs'] = None; sys.argv = ['precreg', 'list']\n"
    code += "from precreg.__main__ import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environ(), capture_output=True, text=True, check=False)
    assert "suites/unit/a.yaml:3: error[missing-extra]: " in done.stderr
    assert "python -m pip install 'precreg[stores]'" in done.stderr
