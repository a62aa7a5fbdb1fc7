"""`/metrics` for Prometheus and `/healthz` for whoever restarts or alarms."""

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

from streamlvq.daemon.metrics import CONTENT_TYPE, Registry
from streamlvq.daemon.vitals import Vitals
from streamlvq.errors import StreamLVQError

log = logging.getLogger(__name__)

MOST = 16  # questions at a time; more are turned away
DEADLINE = 10.0  # seconds from connecting to the end of the answer
PAUSE = 0.1  # seconds after nobody could be let in
Answer = tuple[int, str, bytes]  # status, type of the content, content


class PortError(StreamLVQError, OSError):
    """Nobody can listen there."""


class HealthServer:
    """Answers in threads of its own, from values that the loop leaves behind.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.
    registry
        What `/metrics` shows.
    vitals
        What `/healthz` judges: 200 if all is well, otherwise 503 with the reasons.
    """

    def __init__(self, host: str, port: int, registry: Registry, vitals: Vitals) -> None:
        self.registry, self.vitals = registry, vitals
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
        # One odd name of a device must not take the numbers of all others away.
        return 200, CONTENT_TYPE, self.registry.text().encode(errors="replace")

    def _health(self) -> Answer:
        reasons = self.vitals.complaints()
        reasons = [text.encode(errors="replace").decode() for text in reasons]
        answer = {"healthy": not reasons, "reasons": reasons}
        return 503 if reasons else 200, "application/json", msgspec.json.encode(answer)


class _Server(http.server.ThreadingHTTPServer):
    """Has few questions at a time, each for a limited time.

    Every one of them costs a thread and a file descriptor. Without limits, whoever connects and
    says nothing takes away the descriptors that journal and broker need.
    """

    daemon_threads = True  # someone who does not read the answer must not keep us from leaving

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self._deadlines: dict[Any, float] = {}  # of the questions that are open
        super().__init__(address, handler)

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(PAUSE)  # it would fail again at once, as nothing was taken off the queue
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return len(self._deadlines) < MOST

    def process_request(self, request: Any, client_address: Any) -> None:
        self._deadlines[request] = time.monotonic() + DEADLINE
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End what takes too long; called about twice a second. Its thread reads an end of file."""
        now = time.monotonic()
        for request, deadline in self._deadlines.copy().items():
            if now > deadline:
                with contextlib.suppress(OSError):  # it may have ended just now
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("a question from %s went wrong", client_address, exc_info=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    pages: ClassVar[dict[str, Callable[[], Answer]]]
    timeout = DEADLINE  # of each receive and send; `_Server` looks after the whole

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


__all__ = ["HealthServer", "PortError"]
