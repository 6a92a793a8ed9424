"""A local server that answers as the Hugging Face hub does for one model."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Hub(ThreadingHTTPServer):
    """The server of a model with files in memory."""

    def __init__(self, model: str, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model, self.files = model, files


class _Handler(BaseHTTPRequestHandler):
    server: _Hub

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        hub, path = self.server, self.path.partition("?")[0]
        if path.startswith(f"/api/models/{hub.model}/tree/"):
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": _etag(data)}
                for name, data in hub.files.items()
            ]
            self._send(200, json.dumps(tree).encode(), with_body=with_body)
        elif path.startswith(f"/api/models/{hub.model}"):
            siblings = [{"rfilename": name} for name in hub.files]
            facts = {"id": hub.model, "sha": COMMIT, "siblings": siblings, "private": False}
            self._send(200, json.dumps(facts).encode(), with_body=with_body)
        elif path.startswith(f"/{hub.model}/resolve/"):
            data = hub.files.get(path.rpartition("/")[2])
            code = 404 if data is None else 200
            self._send(code, data or b"", with_body=with_body, name=path)
        else:
            self._send(404, b'{"error": "Repository not found"}', with_body=with_body)

    def _send(self, code: int, data: bytes, *, with_body: bool, name: str = "") -> None:
        self.send_response(code)
        if code != 200:
            self.send_header("X-Error-Code", "EntryNotFound" if name else "RepoNotFound")
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{_etag(data)}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if with_body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def _etag(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


@contextmanager
def hub_server(model: str, files: Mapping[str, bytes]) -> Iterator[str]:
    """Serve the files of a model, and yield the address for HF_ENDPOINT."""
    server = _Hub(model, files)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
