"""Recordings of messages: our own, those of mosquitto_sub and of mqtt-recorder, JSON lines."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlvq.connect import Log, Message, open_log
from streamlvq_connectors.files import LogError
from streamlvq_connectors.jsonl_log import JsonlLog
from streamlvq_connectors.message_log import RECORDING_HEADER, MessageLog, MessageLogWriter
from streamlvq_connectors.mosquitto_log import MosquittoLog
from streamlvq_connectors.mqtt_recorder_log import MqttRecorderLog
from support.brokers import Mosquitto, find_mosquitto
from support.log_files import batches

PAYLOADS = [
    b'{"x": 1.5}',
    b"",
    b"1.5",
    b"\xff\x00\xfe",
    "käse\n\r\n\0".encode(),
    b"\xef\xbb\xbfbom",
    b'""',
]


def read(log: Log) -> tuple[list[Message], list[str]]:
    """All messages, without the numbers of their lines, and what was refused."""
    log.open()
    found: list[Message] = []
    refused: list[str] = []
    for batch in batches(log):
        found += [message._replace(key=None) for message in batch]
        refused += log.refused
    log.close()
    return found, refused


def message(topic: str, payload: bytes, received: float = 0.0, again: bool = False) -> Message:
    return Message(topic, payload, received, again)


# --- our own ---------------------------------------------------------------------------------

messages = st.lists(
    st.builds(
        message,
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=10),
        st.one_of(st.binary(max_size=30), st.text(max_size=10).map(str.encode)),
        st.floats(0, 1e11),
        st.booleans(),
    ),
    max_size=20,
)


@settings(deadline=None)
@given(st.lists(messages, max_size=4), st.sampled_from(["log", "log.gz"]), st.integers(0, 300))
def test_recordings_replay_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[list[Message]],
    name: str,
    flush_bytes: int,
) -> None:
    path = tmp_path_factory.mktemp("messages") / name
    for part in parts:  # recorded on and on
        with MessageLogWriter(path, flush_bytes=flush_bytes) as writer:
            writer.write(part)
    if parts:
        assert read(MessageLog(path)) == ([m for part in parts for m in part], [])


def test_people_can_read_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with MessageLogWriter(path) as writer:
        writer.write([message("a/b", b'{"x": 1}', 1.5), message("c", b"\xff", 2.5, True)])
    assert path.read_text() == (
        '{"streamlvq":"messages","version":1}\n'
        '{"received":1.5,"topic":"a/b","payload":"{\\"x\\": 1}"}\n'
        '{"received":2.5,"topic":"c","base64":"/w==","redelivered":true}\n'
    )


RECORD = """
import sys
from pathlib import Path
from streamlvq.connect import Message
from streamlvq_connectors.message_log import MessageLogWriter

writer = MessageLogWriter(Path(sys.argv[1]), flush_bytes=1000, sync=True)
for i in range(10**9):
    writer.write([Message(f"t/{i}", b"x" * 100, float(i))])
    if i == 200:
        print("going", flush=True)
"""


@pytest.mark.parametrize("name", ["log", "log.gz"])
def test_being_killed_costs_a_line_at_most(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    recorder = subprocess.Popen([sys.executable, "-c", RECORD, str(path)], stdout=subprocess.PIPE)
    assert recorder.stdout is not None
    assert recorder.stdout.readline() == b"going\n"
    recorder.send_signal(signal.SIGKILL)
    recorder.wait()
    recorder.stdout.close()
    found, refused = read(MessageLog(path))
    assert len(found) > 150
    assert found == [message(f"t/{i}", b"x" * 100, float(i)) for i in range(len(found))]
    assert len(refused) <= 2  # the torn line; the torn compression
    with MessageLogWriter(path) as writer:
        writer.write([message("more", b"1", 1.0)])
    again, refused = read(MessageLog(path))
    assert again[:-1] == found
    assert again[-1] == message("more", b"1", 1.0)
    assert len(refused) <= 1


@pytest.mark.parametrize("name", ["log", "log.gz"])
@pytest.mark.parametrize("cut", [1, 5, 20, 60])
def test_recording_goes_on_after_a_torn_end(tmp_path: Path, name: str, cut: int) -> None:
    path = tmp_path / name
    old = [message("a", bytes([i]) * i, float(i)) for i in range(100)]
    with MessageLogWriter(path) as writer:
        writer.write(old)
    path.write_bytes(path.read_bytes()[:-cut])
    new = [message("b", b"{}", 5.0)]
    with MessageLogWriter(path) as writer:
        writer.write(new)
    found, _ = read(MessageLog(path))
    assert found[-1:] == new
    assert found[:-1] == old[: len(found) - 1]
    assert len(found) > 1 if name == "log" else found
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


def test_what_a_full_disk_did_not_take_is_written_later(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    path = tmp_path / "log"
    with MessageLogWriter(path) as writer:
        file = writer._file
        writer._file = Path("/dev/full").open("ab", buffering=0)  # noqa: SIM115
        writer.write([message("a", b"1")])
        with pytest.raises(OSError, match="No space left"):
            writer.flush()
        writer._file.close()
        writer._file = file
        writer.write([message("a", b"2")])
    assert read(MessageLog(path)) == ([message("a", b"1"), message("a", b"2")], [])


def test_other_files_are_neither_read_nor_continued(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"precious\n")
    with pytest.raises(LogError, match=r"expected .* first, got b'precious'"):
        MessageLog(path).open()
    with pytest.raises(LogError, match="precious"):
        MessageLogWriter(path)
    assert path.read_bytes() == b"precious\n"
    path.write_bytes(b'{"streamlvq":"messages","version":2}\n')
    with pytest.raises(LogError, match="newer streamlvq"):
        MessageLog(path).open()


def test_lines_of_a_recording_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = [b'{"received":1,"topic":"a"}', b'{"received":1,"topic":"a","base64":"!"}',
             b'{"received":"x","topic":"a","payload":""}', b"[1]",
             b'{"received":1,"topic":"a","payload":"ok","later":[]}']  # fmt: skip
    path.write_bytes(RECORDING_HEADER + b"\n".join(lines) + b"\n")
    found, refused = read(MessageLog(path))
    assert found == [message("a", b"ok", 1.0)]
    assert [text.partition(":")[0] for text in refused] == ["line 2", "line 3", "line 4", "line 5"]


# --- JSON lines ------------------------------------------------------------------------------


def test_lines_are_payloads_and_keys_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"x": 1}\n\n[2]\r\nwhatever')
    log = JsonlLog(path)
    log.open()
    assert [m for batch in batches(log) for m in batch] == [
        Message("", b'{"x": 1}', 0.0, False, 1),
        Message("", b"[2]", 0.0, False, 3),
        Message("", b"whatever", 0.0, False, 4),
    ]
    log.close()


def test_line_numbers_go_on_from_block_to_block(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"x": 1}\n' * 300_000)
    log = JsonlLog(path)
    log.open()
    keys = [m.key for batch in batches(log) for m in batch]
    assert keys == list(range(1, 300_001))
    log.close()


# --- mqtt-recorder ---------------------------------------------------------------------------


def recorder_file(path: Path, rows: list[Message], *, encode: bool, header: bool) -> None:
    """As the recorder writes: through the csv module, payloads as text or in base64."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    if header:
        writer.writerow(["topic", "payload", "qos", "retain", "epoch", "delta"])
    for row in rows:
        payload = base64.b64encode(row.payload).decode() if encode else row.payload.decode()
        writer.writerow([row.topic, payload, 1, False, row.received, 0.5])
    path.write_bytes(text.getvalue().encode())


recorded = st.builds(
    message,
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12).map(
        lambda text: b'{"' + text.encode() + b'"}'
    ),
    st.floats(0, 1e11),
)


@settings(deadline=None)
@given(st.lists(recorded, min_size=1, max_size=20), st.booleans(), st.booleans())
def test_what_the_recorder_wrote_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Message], encode: bool, header: bool
) -> None:
    path = tmp_path_factory.mktemp("recorder") / "log.csv"
    recorder_file(path, rows, encode=encode, header=header)
    assert read(MqttRecorderLog(path)) == (rows, [])


def test_binary_payloads_in_base64(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [message("t", payload, 1.5) for payload in PAYLOADS]
    recorder_file(path, rows, encode=True, header=False)
    assert read(MqttRecorderLog(path)) == (rows, [])


def test_plain_numbers_are_not_taken_for_base64(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = [message("t", b"1234", 1.5), message("t", b"true", 2.5)]
    recorder_file(path, rows, encode=False, header=False)
    assert read(MqttRecorderLog(path)) == (rows, [])


def test_rows_of_a_recorder_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"t,{},0,False,1.5,0\nt,{},0,False,soon,0\n,{},0,False,1.5,0\nt,{}\n"
                     b'"a\nb",{},0,False,2.5,0\nx"y,{},0,False,3.5,0\n')  # fmt: skip
    found, refused = read(MqttRecorderLog(path))
    assert [(m.topic, m.received) for m in found] == [("t", 1.5), ("a\nb", 2.5), ('x"y', 3.5)]
    assert [text.partition(":")[0] for text in sorted(refused)] == ["line 2", "line 3", "line 4"]
    path.write_bytes(b"topic,payload,when\n")
    with pytest.raises(LogError, match="expected the columns"):
        MqttRecorderLog(path).open()


# --- mosquitto_sub ---------------------------------------------------------------------------


def test_the_three_forms(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'1700000000.250000000 a/b {"x": "y z"}\n1700000001.5 c \nnonsense\n1 d\n')
    found, refused = read(MosquittoLog(path))
    assert found == [
        message("a/b", b'{"x": "y z"}', 1700000000.25),
        message("c", b"", 1700000001.5),
    ]
    assert [text.partition(":")[0] for text in refused] == ["line 3", "line 4"]
    path.write_bytes(b'a/b {"x": "y z"}\nc (null)\nnonsense\n')
    found, refused = read(MosquittoLog(path))
    assert found == [message("a/b", b'{"x": "y z"}'), message("c", b"")]
    assert refused == ["line 3: expected a topic, a space and a payload, got b'nonsense'"]
    path.write_bytes(
        b'{"tst":"2023-11-14T23:13:20.250000Z+0100","topic":"a b","qos":0,"payloadlen":2,'
        b'"payload":"hi"}\n{"topic":"a"}\n[1]\n'
        b'{"tst":"2023-11-14T22:13:20.5+0000","topic":"a","payloadlen":5,"payload":{"x":1}}\n'
    )
    found, refused = read(MosquittoLog(path))
    assert found == [message("a b", b"hi", 1700000000.25), message("a", b'{"x":1}', 1700000000.5)]
    assert [text.partition(":")[0] for text in refused] == ["line 2", "line 3"]


@pytest.mark.skipif(
    find_mosquitto() is None or shutil.which("mosquitto_sub") is None, reason="needs Mosquitto"
)
@pytest.mark.parametrize("form", [("-F", "%U %t %p"), ("-F", "%j"), ("-v",)])
def test_real_recordings(tmp_path: Path, form: tuple[str, ...]) -> None:
    single = [b'{"x": 1.5}', b"", b"1.5", "k\u00e4se".encode(), b'"text"']
    payloads = [*single, b"two\nlines", b"\xff\x01\xfe"] if form[-1] == "%j" else single
    path = tmp_path / "log"
    with Mosquitto() as broker, path.open("wb") as file:
        where = ["-h", "127.0.0.1", "-p", str(broker.port)]
        listen = ["mosquitto_sub", *where, "-t", "plant/#", "-q", "1", *form]
        subscriber = subprocess.Popen(listen, stdout=file)
        try:
            _publish_until(path, where, "plant/hello", b"hello")
            before = time.time()
            for payload in payloads:
                _publish(where, "plant/pump", payload)
            _publish_until(path, where, "plant/bye", b"bye")
        finally:
            subscriber.terminate()
            subscriber.wait(20)
    # Topics and texts without times could be anything.
    log = open_log(path, None, "mosquitto_sub" if form == ("-v",) else None)
    assert isinstance(log, MosquittoLog)
    found, refused = read(log)
    assert refused == []
    pump = [m for m in found if m.topic == "plant/pump"]
    assert [m.payload for m in pump] == payloads
    times = [m.received for m in pump]
    assert times == sorted(times)
    if form != ("-v",):
        assert before - 1 < times[0] <= times[-1] < time.time() + 1


def _publish_until(path: Path, where: list[str], topic: str, payload: bytes) -> None:
    """Say it until it is in the recording: a subscriber does not tell when it is ready."""
    end = time.monotonic() + 20
    while payload not in path.read_bytes():
        assert time.monotonic() < end
        _publish(where, topic, payload)
        time.sleep(0.05)


def _publish(where: list[str], topic: str, payload: bytes) -> None:
    content = ["-s"] if payload else ["-n"]
    command = ["mosquitto_pub", *where, "-t", topic, "-q", "1", *content]
    subprocess.run(command, input=payload, check=True, timeout=20)


def test_compressed_recordings_may_be_put_together(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    first, second = b"1.5 a 1\n", b"2.5 a 2\n"
    path.write_bytes(gzip.compress(first) + gzip.compress(second))
    found, refused = read(MosquittoLog(path))
    assert (found, refused) == ([message("a", b"1", 1.5), message("a", b"2", 2.5)], [])
    path.write_bytes(gzip.compress(first) + b"garbage")
    found, refused = read(MosquittoLog(path))
    assert found == [message("a", b"1", 1.5)]
    assert "expected gzip data" in refused[0]


def test_a_writer_closed_twice_is_closed(tmp_path: Path) -> None:
    writer = MessageLogWriter(tmp_path / "log", sync=True)
    writer.close()
    writer.close()
    assert (tmp_path / "log").read_bytes() == RECORDING_HEADER
    assert os.listdir(tmp_path) == ["log"]
