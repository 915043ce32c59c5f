"""An object is read in ranges, all of them of the version that was listed."""

import os
from io import BytesIO

import fsspec
import numpy as np
import pytest

from precreg.errors import UserError
from precreg.storage.array_stream import ArrayStream
from precreg.storage.npy import find_npy
from precreg.storage.object_store import (
    RemoteReader,
    _store,
    fetch_objects,
    find_object,
    find_objects,
    objects_below,
    open_remote,
)
from tests.extras.comparison.stores import S3, GoogleGenerations


@pytest.fixture(scope="module", params=[S3, GoogleGenerations], ids=["s3", "gs"])
def store(request):
    store, before = request.param(), dict(os.environ)
    os.environ.update(store.variables)
    yield store
    os.environ.clear()
    os.environ.update(before)
    store.stop()
    # Later tests of this process have other accounts.
    _store.cache_clear()
    fsspec.get_filesystem_class(store.scheme).clear_instance_cache()


def listed(store, key):
    return find_objects(f"{store.scheme}://dumps/{key}")


def test_a_prefix_lists_what_is_below_it_and_nothing_beside(store):
    for key in ("list/a.npy", "list/deep/b.npy", "listed.npy", "list2/c.npy"):
        store.put(key, b"12345")
    found = listed(store, "list")
    assert sorted(file.url for file in found) == [
        f"{store.scheme}://dumps/list/a.npy",
        f"{store.scheme}://dumps/list/deep/b.npy",
    ]
    assert {file.size for file in found} == {5}
    assert all(file.tag for file in found)


def test_a_listing_of_several_pages_is_whole(store):
    # S3 lists 1,000 objects in a page, and so does Google.
    keys = [f"pages/{number}.bin" for number in range(1005)]
    for key in keys:
        store.put(key, b"1")
    found = sorted(file.url for file in listed(store, "pages/"))
    assert found == sorted(f"{store.scheme}://dumps/{key}" for key in keys)


def test_one_object_is_found_and_a_prefix_is_none(store):
    store.put("single/a.npy", b"12345")
    url = f"{store.scheme}://dumps/single"
    found = find_object(f"{url}/a.npy")
    assert found is not None
    assert (found.url, found.size) == (f"{url}/a.npy", 5)
    assert find_object(url) is None
    assert find_object(f"{url}/b.npy") is None
    assert objects_below(f"{store.scheme}://dumps/nothing/") == []
    for find in (find_object, objects_below):
        with pytest.raises(UserError, match="expected a bucket of the name no-such-bucket"):
            find(f"{store.scheme}://no-such-bucket/a.npy")


def test_ranges_and_the_stream_give_the_bytes(store):
    content = bytes(range(256)) * 1000
    store.put("ranges.bin", content)
    file = listed(store, "ranges.bin")
    reader = RemoteReader(file)
    assert reader.read_range(10, 20) == content[10:20]
    assert reader.read_range(len(content) - 1, len(content)) == content[-1:]
    with open_remote(file) as stream:
        stream.seek(-3, os.SEEK_END)
        assert stream.read() == content[-3:]
        stream.seek(0)
        assert stream.read() == content


def test_objects_are_fetched_at_once_with_their_problems(store):
    # The emulator of Google stores no empty objects.
    for number in range(1, 6):
        store.put(f"fetch/{number}.bin", bytes(number))
    files = sorted(listed(store, "fetch"), key=lambda file: file.url)
    store.put("fetch/3.bin", bytes(20))
    found = fetch_objects([*files, files[1]._replace(url=f"{store.scheme}://dumps/fetch/none.bin")])
    assert [file.content for file in found[:2] + found[3:5]] == [bytes(1), bytes(2), bytes(4), bytes(5)]
    assert "replaced or removed" in found[2].problem
    assert found[5].problem
    with pytest.raises(UserError, match="replaced or removed"):
        open_remote(found[2])


def test_an_object_that_is_replaced_while_it_is_read_is_refused(store):
    store.put("replaced.bin", b"a" * 1000)
    file = listed(store, "replaced.bin")
    reader = RemoteReader(file)
    assert reader.read_range(0, 500) == b"a" * 500
    store.put("replaced.bin", b"b" * 1000)
    with pytest.raises(UserError) as caught:
        reader.read_range(500, 1000)
    assert caught.value.slug == "store-failed"
    assert "replaced or removed" in caught.value.message
    with pytest.raises(UserError, match="replaced or removed"):
        RemoteReader(file).read_range(500, 1000)


def test_a_stream_reads_any_range_as_numpy_would(store):
    array = np.random.default_rng(0).standard_normal((300, 700)).astype(">f4")
    content = BytesIO()
    np.save(content, array)
    store.put("stream.npy", content.getvalue())
    located = find_npy(listed(store, "stream.npy"), "stream.npy")
    stream = ArrayStream(*located[:4], located.start, located.load)
    flat = array.reshape(-1)
    for low, high in ((0, 1), (5, 1000), (flat.size - 3, flat.size)):
        part = np.empty(high - low, np.float32)
        stream.read(low, part)
        np.testing.assert_array_equal(part, flat[low:high])
    np.testing.assert_array_equal(np.asarray(stream), array)
    assert not stream.is_in_order
    np.testing.assert_array_equal(np.asarray(stream.reshape((700, 300))), array.reshape(700, 300))
