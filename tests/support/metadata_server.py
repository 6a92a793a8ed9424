"""A cloud's metadata server on the loopback interface with answers from the test."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

Say = Callable[[str, str, dict[str, str]], tuple[int, str]]
"""Returns status and text for method, path and headers (names in lower case)."""


@contextmanager
def metadata_server(say: Say) -> Iterator[str]:
    """Serve inside the block, and yield the server's URL."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            headers = {name.lower(): own for name, own in self.headers.items()}
            status, text = say(self.command, self.path, headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = answer  # noqa: N815 - names that http.server wants

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
