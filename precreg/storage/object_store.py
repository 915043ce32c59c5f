"""How are the objects of a store listed and read, by their URLs?

fsspec finds the credentials, and its packages s3fs and gcsfs speak the protocols. An object is read in ranges, and all
of them belong to the version that was listed. Messages never repeat a credential.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import SEEK_CUR, SEEK_END, BufferedReader, BytesIO, RawIOBase
from typing import IO, Any, NamedTuple

from precreg.errors import UserError

# The package of each scheme. Others of fsspec would read local files, archives or caches behind the same syntax.
STORE_PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
# AWS: 3 to 63 characters. Google: up to 222 with dots.
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")

# Bytes of one read of a header. A request takes some 20 ms, in which a connection of 100 MB/s carries 2 MB.
_HEAD_BYTES = 1 << 16
# Seconds until a silent connection counts as cut. s3fs repeats a request five times, and botocore each of them. Of 600
# small objects, botocore's own 10 connections carried 11 requests a second, 32 carried 15 to 19, and 64 carried 14
# (one or two rounds with moto, delayed by 20 ms, on a machine with a load of 30).
_CONNECTIONS = {"connect_timeout": 10, "read_timeout": 30, "retries": {"max_attempts": 2}, "max_pool_connections": 32}
_MAX_MESSAGE = 200
_CHANGED = "the object was replaced or removed since"
_MIN_SECRET = 8


class RemoteFile(NamedTuple):
    """An object as the store listed it. The tag changes with the content, which a small object has if it was fetched.

    `problem` is the message of an error of its fetch.
    """

    url: str
    size: int
    tag: str
    content: bytes | None = None
    problem: str = ""

    def __str__(self) -> str:
        return self.url


def is_url(path: object) -> bool:
    """Return whether a path is a URL; on POSIX a path of files that begins like one has a file's path: ./s3://x."""
    return _URL.match(str(path)) is not None


def split_url(url: str) -> tuple[str, str]:
    """Return the scheme of a store, and bucket and key as fsspec's path. Raises UserError (bad-url)."""
    match = _URL.fullmatch(url)
    assert match is not None, url
    scheme, rest = match[1].lower(), match[2]
    if scheme not in STORE_PACKAGES:
        schemes = " or ".join(f"{each}://" for each in STORE_PACKAGES)
        raise UserError("bad-url", f"expected a URL of {schemes} but got {scheme}://")
    bucket, _, key = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        # The text before the first slash may be KEY:SECRET@BUCKET, so that the message leaves it out.
        raise UserError("bad-url", f"expected {scheme}://BUCKET/KEY, BUCKET of letters, digits, dots, - and _")
    if "?" in key or "#" in key:
        raise UserError("bad-url", f"expected {scheme}://{bucket}/KEY without ? and #, which may carry a signature")
    # Clients and servers resolve these segments, which could lead into another bucket.
    if {".", ".."} & set(key.split("/")):
        raise UserError("bad-url", f"expected {scheme}://{bucket}/KEY without . and .. between slashes")
    return scheme, f"{bucket}/{key}".rstrip("/")


def find_objects(url: str) -> RemoteFile | list[RemoteFile]:
    """Return the object of a URL, or all objects below it, as a folder's files; a slash at the end means the latter.

    Raises:
        UserError: bad-url; missing-extra; missing-file, without such an object or bucket; store-failed.
    """
    if not url.endswith("/") and (found := find_object(url)) is not None:
        return found
    if below := objects_below(url):
        return below
    raise _missing(url, "expected an object or a prefix with objects but the store has none")


def find_object(url: str) -> RemoteFile | None:
    """Return the object of a URL; None if its bucket has none, or objects below it alone.

    Raises:
        UserError: bad-url; missing-extra; missing-file, without such a bucket; store-failed.
    """
    scheme, path = split_url(url)
    if "/" not in path:
        return None
    with _report_store_errors(url):
        store = _store(scheme, os.getpid())
        store.invalidate_cache()
        try:
            facts = store.info(path)
        except FileNotFoundError:
            _require_bucket(url, store, path)
            return None
    return _as_listed(scheme, facts) if facts["type"] == "file" else None


def objects_below(url: str) -> list[RemoteFile]:
    """Return all objects below a prefix, in no order.

    Raises:
        UserError: bad-url; missing-extra; missing-file, without such a bucket; store-failed.
    """
    scheme, path = split_url(url)
    with _report_store_errors(url):
        store = _store(scheme, os.getpid())
        store.invalidate_cache()
        try:
            below = store.find(path, detail=True)
        except FileNotFoundError:
            below = {}
        if not below:
            _require_bucket(url, store, path)
        found = [_as_listed(scheme, facts) for facts in below.values() if facts["type"] == "file"]
    beginning = f"{scheme}://{path}/"
    # An object whose key ends in a slash is the marker of a folder. A store may list keys beside the prefix, too.
    return [file for file in found if file.url.startswith(beginning) and not file.url.endswith("/")]


def _require_bucket(url: str, store: Any, path: str) -> None:
    bucket = path.partition("/")[0]
    if not store.exists(bucket):
        raise _missing(url, f"expected a bucket of the name {bucket} but this account has or sees none")


def _missing(url: str, message: str) -> UserError:
    hint = "correct the URL, or the account and the endpoint that fsspec uses: docs/compare-stores.md"
    return UserError("missing-file", message, file=url, hint=hint)


def _as_listed(scheme: str, facts: dict[str, Any]) -> RemoteFile:
    # Google's etag also changes with the metadata, its generation with the content alone.
    tag = facts.get("generation") or facts.get("ETag") or facts.get("etag") or facts.get("mtime") or ""
    return RemoteFile(f"{scheme}://{facts['name']}", int(facts["size"] or 0), str(tag))


@lru_cache(maxsize=8)
def _store(scheme: str, process: int) -> Any:
    """Return fsspec's client of a store; each process needs one of its own, and its threads share it."""
    import fsspec

    if scheme != "s3":
        return fsspec.filesystem(scheme)
    # The configuration of fsspec comes last, so that a user's own limits apply.
    own = fsspec.config.conf.get("s3", {}).get("config_kwargs", {})
    return fsspec.filesystem(scheme, config_kwargs=_CONNECTIONS | own)


@contextmanager
def _report_store_errors(url: str) -> Iterator[None]:
    """Report errors of a store and its package.

    Raises:
        UserError: missing-extra, missing-file, store-failed.
    """
    try:
        yield
    except UserError:
        raise
    except ImportError as error:
        package = STORE_PACKAGES[url.partition(":")[0].lower()]
        message = (
            f"expected the package {package}, which reads {url.partition(':')[0]}:// URLs, but it is not installed"
        )
        hint = "install the extra: python -m pip install 'precreg[stores]'"
        raise UserError("missing-extra", message, file=url, hint=hint) from error
    except FileNotFoundError as error:
        raise UserError(
            "missing-file", "expected the object that was listed but the store lacks it now", file=url
        ) from error
    except Exception as error:  # each package has errors of its own, and lets those of its libraries through
        raise UserError("store-failed", _problem(error), file=url) from error


def _problem(error: Exception) -> str:
    kind, text = type(error).__name__, _without_credentials(str(error).strip().partition("\n")[0])
    if kind == "FileExpired":
        return f"expected one version of the object but {_CHANGED}"
    if isinstance(error, PermissionError):
        return f"expected permission to read the object but the store refuses: {text or kind}"
    if "Credentials" in kind:
        return f"expected credentials, or a store that needs none, but: {text or kind}"
    return f"expected an answer of the store but got {kind}: {text}"


def _without_credentials(text: str) -> str:
    """Shorten a message of a library, without users in URLs, query strings, and values of secret variables."""
    for name, secret in os.environ.items():
        if len(secret) >= _MIN_SECRET and re.search("KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL", name):
            text = text.replace(secret, "...")
    text = re.sub(r"//[^/@\s]*@", "//...@", text)
    text = re.sub(r"(://[^\s?\"']*)\?[^\s\"']*", r"\1?...", text)
    return text if len(text) <= _MAX_MESSAGE else f"{text[: _MAX_MESSAGE - 3]}..."


def _changed(file: RemoteFile) -> UserError:
    return UserError("store-failed", f"expected the {file.size} bytes that were listed but {_CHANGED}", file=file.url)


class RemoteReader(RawIOBase):
    """An object as a stream of bytes, in the version that was listed; one thread at a time may use it."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__()
        self._file, self._place = file, 0
        self._handle: Any = None

    def read_range(self, start: int, stop: int) -> bytes:
        """Return the bytes of a range within the object.

        Raises:
            UserError: missing-extra, missing-file, store-failed.
        """
        with _report_store_errors(self._file.url):
            try:
                content = self._request(start, stop)
            # Google has no object of that generation any more.
            except FileNotFoundError:
                raise _changed(self._file) from None
        if len(content) != stop - start:
            raise _changed(self._file)
        return content

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill a buffer with the bytes from a place on.

        Raises:
            UserError: missing-extra, missing-file, store-failed.
        """
        buffer[:] = self.read_range(start, start + len(buffer))

    def _request(self, start: int, stop: int) -> bytes:
        """Ask for a range of the version that was listed: by its generation, or as an S3File does by its ETag."""
        scheme, _, path = self._file.url.partition("://")
        store = _store(scheme, os.getpid())
        content: bytes
        if scheme == "gs":
            content = store.cat_file(path, start=start, end=stop, generation=self._file.tag)
            return content
        if self._handle is None:
            self._handle = store.open(path, "rb", cache_type="none")
            if _as_listed(scheme, {**self._handle.details, "name": path})[:3] != self._file[:3]:
                raise _changed(self._file)
        self._handle.seek(start)
        content = self._handle.read(stop - start)
        return content

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a place of the object, and return it."""
        self._place = max(0, offset + {SEEK_CUR: self._place, SEEK_END: self._file.size}.get(whence, 0))
        return self._place

    def tell(self) -> int:
        """Return the place of the next read."""
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the next place on, up to the end of the object, and return the number of bytes."""
        stop = max(self._place, min(self._place + len(buffer), self._file.size))
        content = self.read_range(self._place, stop) if stop > self._place else b""
        buffer[: len(content)] = content
        self._place = stop
        return len(content)

    def close(self) -> None:
        """Forget the connection."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None
        super().close()


def open_remote(file: RemoteFile) -> IO[bytes]:
    """Return an object as a stream. Raises UserError (store-failed) if its fetch failed."""
    if file.problem:
        raise UserError("store-failed", file.problem, file=file.url)
    return BufferedReader(RemoteReader(file), _HEAD_BYTES) if file.content is None else BytesIO(file.content)


def read_small_remote(file: RemoteFile, most: int) -> tuple[int, bytes | None]:
    """Return the size of an object, and its content up to `most` bytes; None for a larger one.

    Raises:
        UserError: missing-extra, missing-file, store-failed.
    """
    if file.size > most:
        return file.size, None
    with open_remote(file) as stream:
        return file.size, stream.read()


def fetch_objects(files: Sequence[RemoteFile]) -> list[RemoteFile]:
    """Read small objects at once, each with its content or its problem afterwards."""
    # A request for no bytes is an error.
    if not (wanted := [file for file in files if file.size]):
        return [file._replace(content=b"") for file in files]
    fetched: dict[str, Any] = {}
    for scheme in {file.url.partition(":")[0] for file in wanted}:
        paths = [file.url.partition("://")[2] for file in wanted if file.url.startswith(f"{scheme}:")]
        # One byte more than listed: the beginning of a longer object that took its place would look whole.
        ends = [file.size + 1 for file in wanted if file.url.startswith(f"{scheme}:")]
        try:
            with _report_store_errors(f"{scheme}://"):
                store = _store(scheme, os.getpid())
                answers = store.cat_ranges(paths, [0] * len(paths), ends, on_error="return")
        except UserError as error:
            answers = [error] * len(paths)
        fetched |= {f"{scheme}://{path}": answer for path, answer in zip(paths, answers, strict=True)}
    return [_with_answer(file, fetched.get(file.url, b"")) for file in files]


def _with_answer(file: RemoteFile, answer: bytes | Exception) -> RemoteFile:
    try:
        with _report_store_errors(file.url):
            if isinstance(answer, Exception):
                raise answer
    except UserError as error:
        return file._replace(problem=error.message)
    if len(answer) == file.size:
        return file._replace(content=answer)
    return file._replace(problem=_changed(file).message)
