"""Objects of S3 and Google Cloud Storage are compared as files are, and their mistakes have a message each."""

import json
import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.e2e.command import started
from tests.extras.comparison.stores import (
    S3,
    SECRET,
    CutConnections,
    Google,
    put_folder,
    refusing_server,
    s3_variables,
    server_without_listing,
    without_credentials,
)

LARGE = (1500, 3000)  # 18 MB of float32: more than is held in memory


@pytest.fixture(scope="module")
def s3():
    store = S3()
    yield store
    store.stop()


@pytest.fixture(scope="module")
def google():
    store = Google()
    yield store
    store.stop()


@pytest.fixture
def store(request):
    return request.getfixturevalue(request.param)


both = pytest.mark.parametrize("store", ["s3", "google"], indirect=True)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two folders with arrays of every kind of place: small, large, of other layouts, in archives and raw."""
    root = tmp_path_factory.mktemp("folders")
    random = np.random.default_rng(0)
    large = random.standard_normal(LARGE, dtype=np.float32)
    small = random.standard_normal((8, 16), dtype=np.float32)
    for side, factor in (("device", np.float32(1 + 1e-6)), ("exact", np.float32(1))):
        folder = root / side
        (folder / "layers").mkdir(parents=True)
        np.save(folder / "layers/0[a].npy", small * factor)
        np.save(folder / "large.npy", large * factor)
        np.save(folder / "columns.npy", np.asfortranarray(large * factor))
        np.save(folder / "swapped.npy", (large * factor).astype(">f4"))
        np.savez(folder / "two.npz", small=small * factor, large=large * factor)
        np.savez_compressed(folder / "packed.npz", small * factor)
        # The data of an array of bytes before it begin at an odd place.
        save_file({"a": np.zeros(1, np.uint8), "b": large * factor}, folder / "model.safetensors")
        (small * factor).tofile(folder / "raw.bin")
        (folder / "notes.txt").write_text("no array\n")
        (folder / ".hidden.npy").write_bytes(b"nothing")
    wrong = large.copy()
    wrong[7, 5:9] *= np.float32(1.5)
    np.save(root / "device/wrong.npy", wrong)
    np.save(root / "exact/wrong.npy", large)
    return root


def npy(array):
    written = BytesIO()
    np.save(written, array)
    return written.getvalue()


def compare(folder, *words, store=None, **variables):
    return started(folder, "compare", *words, **(store.variables if store else {}), **variables)


def pairs_of(record, **replaced):
    text = record.read_text()
    for local, url in replaced.items():
        text = text.replace(url, local)
    assert SECRET not in text
    assert "AKIA" not in text
    return json.loads(text)["pairs"]


@both
@pytest.mark.parametrize("jobs", [0, 2])
def test_a_store_gives_the_record_of_the_same_files(store, folders, tmp_path, jobs):
    for side in ("device", "exact"):
        put_folder(store, folders / side, f"same/{side}")
    options = ("--dtype", "float32", "--json")
    local = compare(folders, "device", "exact", *options, tmp_path / "local.json", "-j", 0)
    urls = {side: f"{store.scheme}://dumps/same/{side}" for side in ("device", "exact")}
    remote = compare(folders, *urls.values(), *options, tmp_path / "remote.json", "-j", jobs, store=store)
    assert (local.returncode, remote.returncode) == (1, 1), remote.stderr
    found = pairs_of(tmp_path / "remote.json", **urls)
    assert found == pairs_of(tmp_path / "local.json")
    assert [pair["name"] for pair in found if pair["verdict"]["status"] == "failed"] == ["wrong"]
    assert len(found) == 11
    assert f"{urls['device']}/notes.txt" in remote.stdout
    assert SECRET not in remote.stdout + remote.stderr


@both
def test_a_local_folder_is_compared_with_a_store(store, folders, tmp_path):
    put_folder(store, folders / "exact", "mixed/exact")
    options = ("--dtype", "float32", "--select", "large", "--select", "layers/*", "--json")
    url = f"{store.scheme}://dumps/mixed/exact"
    assert compare(folders, "device", "exact", *options, tmp_path / "local.json").returncode == 0
    mixed = compare(folders, "device", f"{url}/", *options, tmp_path / "mixed.json", store=store)
    assert mixed.returncode == 0, mixed.stderr
    assert pairs_of(tmp_path / "mixed.json", exact=url) == pairs_of(tmp_path / "local.json")


@both
def test_single_objects_and_arrays_of_archives(store, folders):
    put_folder(store, folders / "exact", "one")
    url = f"{store.scheme}://dumps/one"
    for words in (
        (f"{url}/large.npy", f"{url}/two.npz:large"),
        (f"{url}/layers/0[a].npy", folders / "exact/two.npz:small"),
        (f"{url}/two.npz", folders / "exact/two.npz"),
        (f"{url}/raw.bin", f"{url}/two.npz:small", "--dtype", "float32"),
    ):
        done = compare(folders, *words, store=store)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "identical" in done.stdout or "all" in done.stdout
    named = compare(folders, f"{url}/two.npz:larg", f"{url}/large.npy", store=store)
    assert 'did you mean "large"?' in named.stderr


def test_many_small_objects_are_shared_by_processes(s3, tmp_path):
    random = np.random.default_rng(1)
    for layer in range(70):
        content = npy(random.standard_normal((4, 4)))
        s3.put(f"many/a/layers.{layer}.npy", content)
        s3.put(f"many/b/layers.{layer}.npy", content)
    done = compare(tmp_path, "s3://dumps/many/a", "s3://dumps/many/b", "-j", 2, store=s3)
    assert done.returncode == 0, done.stderr
    assert "all 70 pairs" in done.stdout


def test_objects_that_stand_for_folders_and_hidden_ones_are_no_arrays(s3, tmp_path):
    for side in "ab":
        s3.put(f"marked/{side}/", b"")
        s3.put(f"marked/{side}/deep/", b"")
        s3.put(f"marked/{side}/deep/x.npy", npy(np.ones(3)))
        s3.put(f"marked/{side}/.cache/y.npy", b"")
        s3.put(f"marked/{side}beyond/z.npy", b"")
    done = compare(tmp_path, "s3://dumps/marked/a", "s3://dumps/marked/b", "--json", "r.json", store=s3)
    assert done.returncode == 0, done.stderr
    assert [pair["name"] for pair in pairs_of(tmp_path / "r.json")] == ["deep/x"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "its header cannot be read"),
        (npy(np.ones(100))[:-8], "800 bytes of data (float64 of shape (100,)) but the file has 792"),
        (npy(np.array([{}], object)), "dtype=object"),
    ],
    ids=["empty", "truncated", "pickle"],
)
def test_a_damaged_object_is_a_verdict(s3, tmp_path, content, expected):
    s3.put("damaged/a/x.npy", content)
    s3.put("damaged/b/x.npy", npy(np.ones(100)))
    done = compare(tmp_path, "s3://dumps/damaged/a", "s3://dumps/damaged/b", "--json", "r.json", store=s3)
    assert done.returncode == 2
    (pair,) = pairs_of(tmp_path / "r.json")
    assert pair["verdict"]["reason"] == "subject_error"
    assert "s3://dumps/damaged/a/x.npy: expected" in pair["verdict"]["message"]
    assert expected in pair["verdict"]["message"]


def test_a_header_of_terabytes_is_refused_before_a_byte_of_data_is_read(s3, tmp_path):
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    s3.put("huge/x.npy", header.getvalue() + bytes(1 << 20))
    s3.put("huge/y.npy", npy(np.ones(3)))
    done = compare(tmp_path, "s3://dumps/huge/x.npy", "s3://dumps/huge/y.npy", store=s3)
    assert done.returncode == 2
    assert f"expected {8 << 40} bytes of data" in done.stderr


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://dumps/none", "error[missing-file]: expected an object or a prefix with objects but the store has none"),
        ("s3://dumps/non/", "error[missing-file]: expected an object or a prefix with objects but the store has none"),
        ("s3://no-such-bucket/a", "error[missing-file]: expected a bucket of the name no-such-bucket"),
        ("s3://no-such-bucket", "error[missing-file]: expected a bucket of the name no-such-bucket"),
        ("http://dumps/a", "expected a URL of s3:// or gs:// but got http://"),
        (f"s3://AKIAIOSFODNN7EXAMPLE:{SECRET}@dumps/a", "expected s3://BUCKET/KEY, BUCKET of letters"),
        (f"s3://dumps/a.npy?X-Amz-Signature={SECRET}", "expected s3://dumps/KEY without ? and #"),
        ("s3://dumps/../other/a.npy", "expected s3://dumps/KEY without . and .. between slashes"),
        ("s3://", "expected s3://BUCKET/KEY"),
    ],
)
def test_a_wrong_url_stops_the_command(s3, tmp_path, url, expected):
    done = compare(tmp_path, url, "s3://dumps/b", store=s3)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "what to do: " in done.stderr
    assert SECRET not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_refusal_names_the_permission(tmp_path):
    server = refusing_server()
    done = compare(tmp_path, "s3://dumps/a", "s3://dumps/b", **s3_variables(server.server_address[1]))
    server.shutdown()
    assert done.returncode == 2
    assert (
        "s3://dumps/a: error[store-failed]: expected permission to read the object but the store refuses" in done.stderr
    )


def test_an_account_that_may_not_list_reads_objects_by_their_names(s3, tmp_path):
    content = npy(np.arange(16.0))
    for name in ("a", "b"):
        s3.put(f"unlisted/{name}.npy", content)
    server = server_without_listing(s3.address)
    variables = s3_variables(server.server_address[1])
    named = compare(tmp_path, "s3://dumps/unlisted/a.npy", "s3://dumps/unlisted/b.npy", **variables)
    below = compare(tmp_path, "s3://dumps/unlisted/", "s3://dumps/unlisted/", **variables)
    server.shutdown()
    assert named.returncode == 0, named.stderr
    assert below.returncode == 2
    assert "s3://dumps/unlisted/: error[store-failed]: expected permission to read the object but" in below.stderr


def test_without_an_account_the_message_asks_for_credentials(s3, tmp_path):
    variables = {**s3.variables, **without_credentials()}
    del variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]
    done = compare(tmp_path, "s3://dumps/a", "s3://dumps/b", **variables)
    assert done.returncode == 2
    assert "expected credentials, or a store that needs none, but: Unable to locate credentials" in done.stderr


@pytest.mark.parametrize(("package", "scheme"), [("s3fs", "s3"), ("gcsfs", "gs"), ("fsspec", "s3")])
def test_a_missing_package_names_the_extra(tmp_path, package, scheme):
    words = ["precreg", "compare", f"{scheme}://dumps/a", "b"]
    code = f"import sys; sys.modules[{package!r}] = None; sys.argv = {words!r}\n"
    code += "from precreg.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "error[missing-extra]" in done.stderr
    assert "python -m pip install 'precreg[stores]'" in done.stderr


def large_pair(s3, prefix):
    content = npy(np.random.default_rng(2).standard_normal(LARGE, dtype=np.float32))
    s3.put(f"{prefix}/a.npy", content)
    s3.put(f"{prefix}/b.npy", content)


def test_a_connection_that_breaks_is_made_again(s3, tmp_path):
    large_pair(s3, "cut")
    relay = CutConnections(s3.address, after=1 << 20, cuts=2)
    done = compare(tmp_path, "s3://dumps/cut/a.npy", "s3://dumps/cut/b.npy", **s3_variables(relay.port))
    relay.stop()
    assert relay.cut == 2
    assert done.returncode == 0, done.stdout + done.stderr
    assert "identical" in done.stdout


def test_a_connection_that_breaks_again_and_again_is_a_verdict(s3, tmp_path):
    large_pair(s3, "broken")
    relay = CutConnections(s3.address, after=1 << 20, cuts=1000)
    urls = ("s3://dumps/broken/a.npy", "s3://dumps/broken/b.npy")
    done = compare(tmp_path, *urls, "--json", "r.json", **s3_variables(relay.port))
    relay.stop()
    assert relay.cut > 5
    assert done.returncode == 2, done.stderr
    (pair,) = pairs_of(tmp_path / "r.json")
    assert pair["verdict"]["status"] == "error"
    assert "npy: expected an answer of the store but got " in pair["verdict"]["message"]
