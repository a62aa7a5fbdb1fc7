"""A network that fails on demand: a TCP proxy between a client and a broker."""

from __future__ import annotations

import select
import socket
import threading
import time
from typing import Literal, Self

LOOPBACK = "127.0.0.1"
Direction = Literal["up", "down", "both"]


class Proxy:
    """Passes bytes on between clients and `target_port`, until told otherwise.

    It holds at most 64 KiB per direction, so a side that does not read is felt by the other.

    Parameters
    ----------
    target_port
        The port of the broker.
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.port = 0
        self.accepted = 0  # connections so far
        self._stalled: set[str] = set()
        self._listener: socket.socket | None = None
        self._peers: dict[socket.socket, socket.socket] = {}
        self._upward: set[socket.socket] = set()  # the ends at clients
        self._held: dict[socket.socket, bytes] = {}  # to be sent to each
        self._lock = threading.Lock()
        self._closing = False
        self._listen()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"mqtt://{LOOPBACK}:{self.port}"

    def cut(self) -> None:
        """Close all connections without a word, and refuse new ones until `heal`."""
        with self._lock:
            self._close_all()
            if self._listener is not None:
                self._listener.close()
                self._listener = None

    def drop(self) -> None:
        """Close the connections of now; new ones are welcome."""
        with self._lock:
            self._close_all()

    def stall(self, direction: Direction = "both") -> None:
        """Pass nothing on, with every connection open: to the broker ("up"), from it, or both."""
        with self._lock:
            self._stalled = {"up", "down"} if direction == "both" else {direction}

    def heal(self) -> None:
        """Pass everything on again."""
        with self._lock:
            self._stalled = set()
            if self._listener is None:
                self._listen()

    def close(self) -> None:
        self._closing = True
        self._thread.join(5)
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listen(self) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end = time.monotonic() + 10.0
        while True:  # the port may have been lent to somebody's connection meanwhile
            try:
                self._listener.bind((LOOPBACK, self.port))
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        self._listener.listen()
        self.port = self._listener.getsockname()[1]

    def _close_all(self) -> None:
        for s in self._peers:
            s.close()
        self._peers.clear()
        self._upward.clear()
        self._held.clear()

    def _run(self) -> None:
        while not self._closing:
            with self._lock:
                reading = [s for s in self._peers if self._may_read(s)]
                writing = [s for s in self._held if self._passes(self._peers[s])]
                if self._listener is not None:
                    reading.append(self._listener)
            try:
                ready, writable, _ = select.select(reading, writing, [], 0.02)
            except (OSError, ValueError):  # one was closed meanwhile
                continue
            with self._lock:
                for s in ready:
                    self._readable(s)
                for s in writable:
                    self._send(s)

    def _passes(self, source: socket.socket) -> bool:
        return ("up" if source in self._upward else "down") not in self._stalled

    def _may_read(self, s: socket.socket) -> bool:
        return self._passes(s) and self._peers[s] not in self._held

    def _readable(self, s: socket.socket) -> None:
        if s is self._listener:
            self._accept(s)
        elif s in self._peers:
            try:
                data = s.recv(65536)
            except OSError:
                data = b""
            if data:
                self._held[self._peers[s]] = data
                self._send(self._peers[s])
            else:
                self._forget(s)

    def _accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        self.accepted += 1
        try:
            server = socket.create_connection((LOOPBACK, self.target_port), timeout=2)
        except OSError:
            client.close()
            return
        client.setblocking(False)
        server.setblocking(False)
        self._peers[client], self._peers[server] = server, client
        self._upward.add(client)

    def _send(self, s: socket.socket) -> None:
        data = self._held.pop(s, b"")
        if not data or s not in self._peers:
            return
        try:
            sent = s.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._forget(s)
            return
        if sent < len(data):
            self._held[s] = data[sent:]

    def _forget(self, s: socket.socket) -> None:
        for end in (s, self._peers[s]):
            self._peers.pop(end, None)
            self._held.pop(end, None)
            self._upward.discard(end)
            end.close()
