"""Object stores on this machine: moto's server of S3, an emulator of Google Cloud Storage, and broken connections."""

import json
import logging
import os
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SECRET = "wJalrXUtnFEMI-not-a-real-secret"
DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class S3:
    """A bucket `dumps` in moto's server; `variables` lead s3fs there."""

    scheme = "s3"

    def __init__(self):
        from moto.server import ThreadedMotoServer

        # A line for each request would hide the failure of a test.
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        host, port = self.server.get_host_and_port()
        self.address = (host, port)
        self.variables = s3_variables(port)
        self.client = s3_client(port)
        self.client.create_bucket(Bucket="dumps")

    def put(self, key, content):
        self.client.put_object(Bucket="dumps", Key=key, Body=content)

    def stop(self):
        self.server.stop()


class Google:
    """A bucket `dumps` in an emulator; `variables` lead gcsfs there."""

    scheme = "gs"

    def __init__(self):
        from gcp_storage_emulator.server import create_server

        port = free_port()
        self.server = create_server("127.0.0.1", port, in_memory=True, default_bucket="dumps")
        self.server.start()
        self.url = f"http://127.0.0.1:{port}"
        # Without the last one gcsfs looks for zonal buckets by gRPC, which no emulator answers, for a minute.
        self.variables = {
            "STORAGE_EMULATOR_HOST": self.url,
            "FSSPEC_GS_TOKEN": "anon",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        }

    def put(self, key, content):
        query = urllib.parse.urlencode({"uploadType": "media", "name": key})
        request = urllib.request.Request(f"{self.url}/upload/storage/v1/b/dumps/o?{query}", content, method="POST")
        request.add_header("Content-Type", "application/octet-stream")
        urllib.request.urlopen(request).close()

    def stop(self):
        self.server.stop()


class GoogleGenerations(Google):
    """The emulator behind a relay that knows generations, as Google does: a replaced one is not found."""

    def __init__(self):
        super().__init__()
        emulator = self.url

        class Relay(BaseHTTPRequestHandler):
            def do_GET(self):
                place, _, query = self.path.partition("?")
                asked = urllib.parse.parse_qs(query).get("generation")
                facts = f"{emulator}{place}".replace("/download/", "/")
                try:
                    if asked and json.load(urllib.request.urlopen(facts))["generation"] != asked[0]:
                        raise urllib.error.HTTPError(self.path, 404, "Not Found", {}, None)
                    ranges = {"Range": self.headers["Range"]} if self.headers["Range"] else {}
                    with urllib.request.urlopen(
                        urllib.request.Request(f"{emulator}{self.path}", headers=ranges)
                    ) as got:
                        answer = got.status, got.headers["Content-Type"], got.read()
                except urllib.error.HTTPError as refusal:
                    answer = refusal.code, "application/json", b"{}"
                self.send_response(answer[0])
                self.send_header("Content-Type", answer[1] or "application/octet-stream")
                self.send_header("Content-Length", str(len(answer[2])))
                self.end_headers()
                self.wfile.write(answer[2])

            def log_message(self, *_):
                pass

        self.relay = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
        threading.Thread(target=self.relay.serve_forever, daemon=True).start()
        self.variables = {**self.variables, "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{self.relay.server_address[1]}"}

    def stop(self):
        self.relay.shutdown()
        super().stop()


def s3_variables(port):
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def s3_client(port):
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key=SECRET,
    )


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def put_folder(store, folder, prefix):
    """Store every file below a folder under a prefix."""
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            store.put(f"{prefix}/{path.relative_to(folder)}", path.read_bytes())


class CutConnections:
    """A relay to a server that cuts the first `cuts` answers of more than `after` bytes there."""

    def __init__(self, address, after, cuts):
        self.address, self.after, self.left = address, after, cuts
        self.lock, self.cut = threading.Lock(), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.address)
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _forward(self, source, target):
        with suppress(OSError):
            while content := source.recv(1 << 16):
                target.sendall(content)
            target.shutdown(socket.SHUT_WR)

    def _answer(self, source, target):
        sent = 0
        with suppress(OSError):
            while content := source.recv(1 << 16):
                sent += len(content)
                if sent > self.after and self._takes_cut():
                    break
                target.sendall(content)
        for side in (source, target):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()

    def _takes_cut(self):
        with self.lock:
            if self.left <= 0:
                return False
            self.left -= 1
            self.cut += 1
            return True

    def stop(self):
        self.listener.close()


class Refusing(BaseHTTPRequestHandler):
    """Answer every request as S3 does without permission."""

    def do_GET(self):
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(DENIED)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(DENIED)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_):
        """Print nothing."""


def refusing_server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def server_without_listing(address):
    """Return a relay to a server of S3 for an account that may read objects, and may not list them."""

    class Relay(Refusing):
        def do_GET(self):
            place, _, query = self.path.partition("?")
            if "list-type" in query or place.count("/") < 2:
                super().do_GET()
                return
            asked = {name: value for name, value in self.headers.items() if name != "Host"}
            request = urllib.request.Request(
                f"http://{address[0]}:{address[1]}{self.path}", headers=asked, method=self.command
            )
            try:
                answer = urllib.request.urlopen(request)
            except urllib.error.HTTPError as refusal:
                answer = refusal
            self.send_response(answer.status)
            for name in ("Content-Type", "Content-Length", "Content-Range", "ETag", "Last-Modified"):
                if answer.headers[name]:
                    self.send_header(name, answer.headers[name])
            self.end_headers()
            self.wfile.write(answer.read())

        do_HEAD = do_GET  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def without_credentials():
    """Return variables without an account, wherever the tests run."""
    return {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
