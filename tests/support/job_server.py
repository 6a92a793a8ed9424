"""A replacement for a Ray cluster's job server that fails on demand."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def job_details(status, *, exit_code=None, submission_id="web"):
    """Return a job as Ray's client returns it."""
    from ray.job_submission import JobDetails, JobStatus, JobType  # noqa: PLC0415 - slow to import

    return JobDetails(
        type=JobType.SUBMISSION,
        submission_id=submission_id,
        status=JobStatus(status),
        entrypoint="",
        driver_exit_code=exit_code,
    )


class JobServer:
    """Jobs by id, as the server's JSON; `script` has the fault of each next request."""

    def __init__(self):
        self.jobs = {}
        self.logs = {}
        self.script = []
        self.submitted = []
        self.packages = {}
        self.address = ""
        self.is_done = threading.Event()

    def add(self, submission_id, status, *, exit_code=None, log="", digest=None):
        self.jobs[submission_id] = {
            "type": "SUBMISSION",
            "submission_id": submission_id,
            "status": status,
            "entrypoint": "",
            "driver_exit_code": exit_code,
            "metadata": {} if digest is None else {"nanotok_submission": digest},
        }
        self.logs[submission_id] = log

    def answer(self, method, path, body):
        """Return the status and the body of an answer."""
        if path == "/api/version":
            return 200, {"version": "4", "ray_version": "2.60.0", "ray_commit": ""}
        if path.startswith("/api/packages/"):
            return self._package(method, path, body)
        if path == "/api/jobs/":
            return self._submit(json.loads(body)) if method == "POST" else self._list()
        own, _, rest = path.removeprefix("/api/jobs/").partition("/")
        if own not in self.jobs:
            return 404, f"Job {own} does not exist"
        if rest == "logs":
            return 200, {"logs": self.logs[own]}
        return (404, "no such page") if rest else (200, self.jobs[own])

    def _list(self):
        return 200, [{"type": "DRIVER", "status": "RUNNING", "entrypoint": ""}, *self.jobs.values()]

    def _package(self, method, path, body):
        if method == "PUT":
            self.packages[path] = body
        return (200, "") if path in self.packages else (404, "no package")

    def _submit(self, request):
        own = request["submission_id"]
        if own in self.jobs:
            return 400, f"Traceback\nValueError: Job with submission_id {own} already exists."
        self.submitted.append(request)
        self.add(own, "PENDING")
        return 200, {"job_id": own, "submission_id": own}


@contextmanager
def serve_jobs():
    """Serve on a free port of this machine."""
    server = JobServer()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            """Print nothing."""

        def _serve(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = server.script.pop(0) if server.script else None
            if fault == "hang":
                server.is_done.wait()
            if fault in {"close", "hang"}:
                return None
            status, answer = server.answer(self.command, self.path, body)
            if fault == "lost":
                return None
            return self._send(*((fault, "trouble") if isinstance(fault, int) else (status, answer)))

        def _send(self, status, answer):
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _serve  # noqa: N815 - as the base class calls them

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.address = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.is_done.set()
            http.shutdown()
            thread.join()
