"""Servers of Google Cloud Storage and Azure Blob Storage that keep objects in memory, for tests.

They answer the requests of gcsfs and adlfs as the stores document it: the JSON API of GCS, and the
REST API of block blobs. A page of a listing has few entries. A condition and its write are atomic.
"""

import hashlib
import itertools
import json
import re
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import format_datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import fsspec
import pytest
from fsspec.registry import _registry
from gcsfs.core import GCSFileSystem

from tests.support.faulty_proxy import FaultyProxy

BUCKET = "bucket"
PAGE_ENTRIES = 5
BLOCK_BYTES = 1 << 18
"""Bytes of each request of a long upload: the least that GCS accepts."""


@dataclass(frozen=True)
class Stored:
    """The current version of an object."""

    data: bytes
    generation: int
    moment: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    @property
    def md5(self) -> str:
        return b64encode(hashlib.md5(self.data).digest()).decode()


class ObjectServer(ThreadingHTTPServer):
    """The objects of one bucket, with the parts of uploads that were not completed."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.objects: dict[str, Stored] = {}
        self.parts: dict[str, bytes] = {}
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.ignores_conditions = False

    def put(self, name: str, data: bytes, *, only_new: bool) -> Stored | None:
        """Store an object; return None if it must be new and exists."""
        with self.lock:
            if only_new and name in self.objects and not self.ignores_conditions:
                return None
            self.objects[name] = stored = Stored(data, next(self.numbers))
            return stored

    def page(self, prefix: str, delimiter: str, after: str) -> tuple[list[str], str]:
        """Return names and common prefixes after an entry, and the last one if more follow."""
        entries = set()
        for name in self.objects:
            if name.startswith(prefix):
                inside, cut, _ = name[len(prefix) :].partition(delimiter or "\0")
                entries.add(f"{prefix}{inside}{cut}")
        following = sorted(entry for entry in entries if entry > after)
        page = following[:PAGE_ENTRIES]
        return page, page[-1] if len(following) > PAGE_ENTRIES else ""


class _Handler(BaseHTTPRequestHandler):
    """Reads requests and sends answers of both stores."""

    server: ObjectServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        """Print nothing."""

    def _read(self):
        """Set the parts of the request."""
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        self.parts = [unquote(part) for part in url.path.strip("/").split("/")]
        self.query = {k: v[0] for k, v in parse_qs(url.query, keep_blank_values=True).items()}

    def _send(self, status, body=b"", **headers):
        self.send_response(status)
        length = headers.pop("Content_Length", len(body))
        for name, value in {**headers, "Content-Length": length}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_data(self, data, **headers):
        """Send the requested range of the data."""
        wanted = self.headers.get("x-ms-range") or self.headers.get("Range")
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted or "")
        if found is None:
            self._send(HTTPStatus.OK, data, **headers)
            return
        start, stop = int(found[1]), min(int(found[2] or len(data)) + 1, len(data))
        if start >= len(data):
            self._fail(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "InvalidRange")
            return
        headers["Content_Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
        self._send(HTTPStatus.PARTIAL_CONTENT, data[start:stop], **headers)

    def _fail(self, status, code):
        raise NotImplementedError


class GcsHandler(_Handler):
    """Google Cloud Storage: https://cloud.google.com/storage/docs/json_api/v1."""

    def _serve(self):
        self._read()
        if self.parts[self.parts.index("b") + 1] != BUCKET:
            self._fail(HTTPStatus.NOT_FOUND, "notFound")
        elif self.parts[0] == "upload":
            self._upload()
        elif self.parts[-1] == "o":
            self._list()
        elif self.parts[-2] == "b":
            self._send_json({"name": BUCKET})
        else:
            self._object(self.parts[-1])

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - as http.server wants

    def _object(self, name):
        with self.server.lock:
            stored = self.server.objects.get(name)
            if self.command == "DELETE":
                self.server.objects.pop(name, None)
        if stored is None:
            self._fail(HTTPStatus.NOT_FOUND, "notFound")
        elif self.command == "DELETE":
            self._send(HTTPStatus.NO_CONTENT)
        elif self.query.get("alt") == "media":
            self._send_data(stored.data, ETag=f'"{stored.generation}"')
        else:
            self._send_json(self._resource(name, stored))

    def _list(self):
        page, after = self.server.page(
            *(self.query.get(key, "") for key in ("prefix", "delimiter", "pageToken"))
        )
        stored = self.server.objects
        items = [self._resource(name, stored[name]) for name in page if name in stored]
        prefixes = [name for name in page if name not in stored]
        answer = {
            "kind": "storage#objects",
            "items": items,
            "prefixes": prefixes,
            "nextPageToken": after,
        }
        self._send_json({key: value for key, value in answer.items() if value})

    def _upload(self):
        if self.query["uploadType"] == "multipart":
            boundary = re.search('boundary="?([^";]+)', self.headers["Content-Type"])[1].encode()
            _, about, media, _ = self.body.split(b"--" + boundary)
            name = json.loads(about.partition(b"\n\n")[2])["name"]
            self._store(name, media.partition(b"\n\n")[2].removesuffix(b"\n"))
        elif "upload_id" not in self.query:
            number = str(next(self.server.numbers))
            self.server.parts[number] = b""
            name = json.loads(self.body)["name"]
            url = f"http://{self.headers['Host']}{self.path}&upload_id={number}&object={name}"
            self._send(HTTPStatus.OK, Location=url)
        elif self.command == "DELETE":
            self.server.parts.pop(self.query["upload_id"], None)
            self._send(499)
        else:
            self._continue(self.query["upload_id"])

    def _continue(self, number):
        """Add a chunk to a resumable upload, and store the object after the last chunk."""
        wanted = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", self.headers["Content-Range"])
        known = self.server.parts[number]
        start = len(known) if wanted[1] is None else int(wanted[1])
        known = self.server.parts[number] = known[:start] + self.body
        if wanted[2] == "*":
            self._send(HTTPStatus.PERMANENT_REDIRECT, Range=f"bytes=0-{len(known) - 1}")
        else:
            self._store(self.query["object"], known)

    def _store(self, name, data):
        stored = self.server.put(name, data, only_new=self.query.get("ifGenerationMatch") == "0")
        if stored is None:
            self._fail(HTTPStatus.PRECONDITION_FAILED, "conditionNotMet")
        else:
            self._send_json(self._resource(name, stored))

    def _resource(self, name, stored):
        moment = stored.moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "kind": "storage#object",
            "name": name,
            "bucket": BUCKET,
            "size": str(len(stored.data)),
            "generation": str(stored.generation),
            "etag": f"etag{stored.generation}",
            "md5Hash": stored.md5,
            "updated": moment,
            "timeCreated": moment,
        }

    def _send_json(self, value):
        self._send(HTTPStatus.OK, json.dumps(value).encode(), Content_Type="application/json")

    def _fail(self, status, code):
        error = {"code": int(status), "message": code, "errors": [{"reason": code}]}
        self._send(status, json.dumps({"error": error}).encode(), Content_Type="application/json")


class AzureHandler(_Handler):
    """Azure Blob Storage: https://learn.microsoft.com/rest/api/storageservices."""

    def _serve(self):
        self._read()
        _, container, *name = self.parts
        if container != BUCKET:
            self._fail(HTTPStatus.NOT_FOUND, "ContainerNotFound")
        elif self.query.get("comp") == "list":
            self._list()
        elif self.query.get("restype") == "container":
            self._send(HTTPStatus.OK, **_properties(Stored(b"", 0)))
        elif self.command == "PUT":
            self._put("/".join(name))
        else:
            self._blob("/".join(name))

    do_GET = do_HEAD = do_PUT = do_DELETE = _serve  # noqa: N815 - as http.server wants

    def _blob(self, name):
        with self.server.lock:
            stored = self.server.objects.get(name)
            if self.command == "DELETE":
                self.server.objects.pop(name, None)
        if stored is None:
            self._fail(HTTPStatus.NOT_FOUND, "BlobNotFound")
            return
        properties = {**_properties(stored), "x_ms_blob_type": "BlockBlob"}
        if self.command == "DELETE":
            self._send(HTTPStatus.ACCEPTED)
        elif self.command == "HEAD":
            self._send(HTTPStatus.OK, **properties, Content_Length=len(stored.data))
        elif self.headers.get("If-Match") not in {None, f'"{stored.generation}"'}:
            self._fail(HTTPStatus.PRECONDITION_FAILED, "ConditionNotMet")
        else:
            self._send_data(stored.data, **properties)

    def _put(self, name):
        if self.query.get("comp") == "block":
            self.server.parts[f"{name} {self.query['blockid']}"] = self.body
            self._send(HTTPStatus.CREATED)
            return
        data = self.body
        if self.query.get("comp") == "blocklist":
            blocks = [element.text for element in ElementTree.fromstring(self.body)]
            data = b"".join(self.server.parts[f"{name} {block}"] for block in blocks)
        stored = self.server.put(name, data, only_new=self.headers.get("If-None-Match") == "*")
        if stored is None:
            self._fail(HTTPStatus.CONFLICT, "BlobAlreadyExists")
        else:
            self._send(HTTPStatus.CREATED, **_properties(stored))

    def _list(self):
        page, after = self.server.page(
            *(self.query.get(key, "") for key in ("prefix", "delimiter", "marker"))
        )
        entries = "".join(self._entry(name) for name in page)
        text = (
            '<?xml version="1.0" encoding="utf-8"?>'
            f'<EnumerationResults ContainerName="{BUCKET}">'
            f"<Prefix>{escape(self.query.get('prefix', ''))}</Prefix>"
            f"<Blobs>{entries}</Blobs><NextMarker>{escape(after)}</NextMarker>"
            "</EnumerationResults>"
        )
        self._send(HTTPStatus.OK, text.encode(), Content_Type="application/xml")

    def _entry(self, name):
        stored = self.server.objects.get(name)
        if stored is None:
            return f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>"
        properties = {
            **{key.replace("_", "-"): value for key, value in _properties(stored).items()},
            "Content-Length": len(stored.data),
            "BlobType": "BlockBlob",
        }
        properties["Etag"] = properties.pop("ETag")
        inside = "".join(f"<{key}>{value}</{key}>" for key, value in properties.items())
        return f"<Blob><Name>{escape(name)}</Name><Properties>{inside}</Properties></Blob>"

    def _fail(self, status, code):
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
        headers = {"x_ms_error_code": code, "Content_Type": "application/xml"}
        self._send(status, text.encode(), **headers)


def _properties(stored):
    return {
        "ETag": f'"{stored.generation}"',
        "Last_Modified": format_datetime(stored.moment, usegmt=True),
    }


@contextmanager
def served(name: str) -> Iterator[tuple[ObjectServer, FaultyProxy]]:
    """Yield a server of gcs or azure and its proxy, whose address the packages find."""
    server = ObjectServer({"gcs": GcsHandler, "azure": AzureHandler}[name])
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    with FaultyProxy(*server.server_address) as proxy, pytest.MonkeyPatch.context() as patch:
        if name == "gcs":
            # The class of `gcsfs` itself asks for the layout of a bucket by gRPC, which needs TLS.
            patch.setitem(_registry, "gs", GCSFileSystem)
            patch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
            patch.setitem(fsspec.config.conf, "gcs", {"token": "anon", "block_size": BLOCK_BYTES})
        else:
            key = b64encode(b"key").decode()
            account = f"AccountName=account;AccountKey={key};BlobEndpoint={proxy.url}/account"
            patch.setenv("AZURE_STORAGE_CONNECTION_STRING", account)
            patch.setitem(fsspec.config.conf, "az", {"blocksize": BLOCK_BYTES})
        yield server, proxy
    server.shutdown()
    thread.join()
    server.server_close()
