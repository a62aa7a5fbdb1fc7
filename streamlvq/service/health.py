"""HTTP server: `/metrics` for Prometheus and `/healthz` for supervisors and alerts."""

from __future__ import annotations

import contextlib
import http.server
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from streamlvq.errors import StreamLVQError
from streamlvq.role import Health

log = logging.getLogger(__name__)

MAX_REQUESTS = 16  # open at a time; more are turned away
REQUEST_SECONDS = 10.0  # from connecting to the end of the answer
ACCEPT_PAUSE_SECONDS = 0.1  # after a connection could not be accepted
Answer = tuple[int, str, bytes]  # status, type of the content, content


class PortError(StreamLVQError, OSError):
    """Host and port that cannot be listened on."""


class HealthServer:
    """HTTP server that answers in its own threads, from values that the loop has written.

    Port 0 takes a free one. `/healthz` answers 200 if there are no problems, otherwise 503 with the
    reasons; warnings, if there are any, stand beside them.
    """

    def __init__(self, host: str, port: int, registry: CollectorRegistry, health: Health) -> None:
        self.registry, self.health = registry, health
        pages = {"/metrics": self._metrics, "/healthz": self._health}
        try:
            self._server = _Server((host, port), _handler(pages))
        except (OSError, OverflowError) as error:
            raise PortError(
                f"expected a host and port to listen on (health.host, health.port), got "
                f"{host}:{port}: {error}"
            ) from error
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def _metrics(self) -> Answer:
        return 200, CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self.registry)

    def _health(self) -> Answer:
        reasons = self.health.problems()
        reasons = [text.encode(errors="replace").decode() for text in reasons]
        answer: dict[str, Any] = {"healthy": not reasons, "reasons": reasons}
        if self.health.warnings:
            answer["warnings"] = [
                text.encode(errors="replace").decode() for text in self.health.warnings
            ]
        return 503 if reasons else 200, "application/json", msgspec.json.encode(answer)


class _Server(http.server.ThreadingHTTPServer):
    """Server of few requests at a time, each with a time limit.

    Every request costs a thread and a file descriptor. Without limits, silent connections would use
    up the descriptors that journal and broker need.
    """

    daemon_threads = True  # a client that does not read the answer must not keep us from stopping

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self._deadlines: dict[Any, float] = {}  # of open requests
        super().__init__(address, handler)

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:
            # It would fail again at once, as nothing was taken off the queue.
            time.sleep(ACCEPT_PAUSE_SECONDS)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return len(self._deadlines) < MAX_REQUESTS

    def process_request(self, request: Any, client_address: Any) -> None:
        self._deadlines[request] = time.monotonic() + REQUEST_SECONDS
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End requests that take too long; called about twice a second."""
        now = time.monotonic()
        for request, deadline in self._deadlines.copy().items():
            if now > deadline:
                with contextlib.suppress(
                    OSError
                ):  # it may have ended just now; its thread reads an EOF
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("a request from %s failed", client_address, exc_info=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    pages: ClassVar[dict[str, Callable[[], Answer]]]
    timeout = REQUEST_SECONDS  # of each receive and send; `_Server` looks after the whole

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        page = self.pages.get(self.path.partition("?")[0])
        status, kind, content = page() if page else (404, "text/plain", _guide(self.pages))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        log.debug(format, *arguments)


def _guide(pages: dict[str, Callable[[], Answer]]) -> bytes:
    return f"nothing here; look at {' and '.join(pages)}\n".encode()


def _handler(pages: dict[str, Callable[[], Answer]]) -> type[_Handler]:
    return type("Handler", (_Handler,), {"pages": pages})
