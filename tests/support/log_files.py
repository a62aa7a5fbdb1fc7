"""The same readings as a log of every format, and what is read from one."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamlvq.config import Config, Fields, ReadingsSection
from streamlvq.connect import Log, Message, logs
from streamlvq.events import Readings
from streamlvq.payloads import Decoder
from streamlvq_connectors.message_log import MessageLogWriter

FEATURES = ["s0", "s1", "s2", "s3"]
START = 1_700_000_000.0


class Row(NamedTuple):
    """A reading, in a form that can be compared; None where something is missing."""

    device: str
    label: str | int | None
    time: float | None
    sequence: int | None
    values: tuple[float | None, ...]


def some_rows(count: int = 500, seed: int = 7) -> list[Row]:
    """Readings with all that may be missing missing now and then."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        values = rng.normal(size=4) * 10.0 ** rng.integers(-3, 4, 4)
        kept = tuple(None if gap and j else float(v) for j, (v, gap) in
                     enumerate(zip(values, rng.random(4) < 0.1, strict=True)))  # fmt: skip
        label = None if i % 5 == 4 else ["idle", "run ning", 3][i % 3]
        rows.append(Row(f"pump{i % 3}", label, START + i / 4, i, kept))
    return rows


def as_dict(row: Row) -> dict[str, Any]:
    """A reading as the object of a payload."""
    return {
        "device": row.device,
        "t": row.time,
        "n": row.sequence,
        "state": row.label,
        **dict(zip(FEATURES, row.values, strict=True)),
    }


def topic(row: Row) -> str:
    return f"plant/{row.device}/readings"


def write_csv(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["device", "t", *FEATURES, "n", "state"])
        writer.writeheader()
        writer.writerows(map(as_dict, rows))


def write_jsonl(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(as_dict(row)) + "\n" for row in rows))


def write_parquet(path: Path, rows: list[Row]) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist(
        [{**as_dict(r), "state": None if r.label is None else str(r.label)} for r in rows]
    )
    pyarrow.parquet.write_table(table, path, row_group_size=128)


def write_messages(path: Path, rows: list[Row]) -> None:
    with MessageLogWriter(path) as writer:
        writer.write(
            [Message(topic(r), json.dumps(as_dict(r)).encode(), r.time or 0) for r in rows]
        )


def write_mosquitto(path: Path, rows: list[Row]) -> None:
    lines = [f"{row.time:.9f} {topic(row)} {json.dumps(as_dict(row))}\n" for row in rows]
    path.write_text("".join(lines))


def write_recorder(path: Path, rows: list[Row]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    for row in rows:
        payload = json.dumps(as_dict(row), indent=1)  # with commas, quotes and ends of lines
        writer.writerow([topic(row), payload, 0, False, row.time, 0.25])
    path.write_bytes(text.getvalue().encode())


def escaped(text: str, characters: str) -> str:
    for character in characters:
        text = text.replace(character, "\\" + character)
    return text


def influx_line(row: Row) -> str:
    """A line of line protocol."""
    fields = [f"{n}={v!r}" for n, v in zip(FEATURES, row.values, strict=True) if v is not None]
    if row.sequence is not None:
        fields.append(f"n={row.sequence}i")
    if row.label is not None:
        text = str(row.label).replace("\\", "\\\\").replace('"', '\\"')
        fields.append(f"state={row.label}i" if isinstance(row.label, int) else f'state="{text}"')
    line = f"plant,device={escaped(row.device, ', =')} {','.join(fields)}"
    return line if row.time is None else f"{line} {round(row.time * 4) * 250_000_000}"


def write_influx(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(influx_line(row) + "\n" for row in rows))


@dataclass(frozen=True)
class Format:
    """How to write a log, and what is said about its fields."""

    name: str
    suffix: str
    write: Callable[[Path, list[Row]], None]
    fields: ReadingsSection
    holds_lines: bool = True

    def write_to(self, folder: Path, rows: list[Row], *, compressed: bool = False) -> Path:
        path = folder / f"log{self.suffix}"
        self.write(path, rows)
        if not compressed:
            return path
        packed = path.with_name(path.name + ".gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        return packed


def _fields(**more: Any) -> ReadingsSection:
    return ReadingsSection(
        topic="plant/{device}/readings", features=FEATURES, label="state", sequence="n", **more
    )


IN_ROWS = _fields(time="t", device="device")
IN_MESSAGES = _fields(time="t")
IN_INFLUX = _fields()  # time and device are where they always are

FORMATS = {
    f.name: f
    for f in (
        Format("csv", ".csv", write_csv, IN_ROWS),
        Format("jsonl", ".jsonl", write_jsonl, IN_ROWS),
        Format("parquet", ".parquet", write_parquet, IN_ROWS, holds_lines=False),
        Format("messages", ".messages", write_messages, IN_MESSAGES),
        Format("mosquitto_sub", ".txt", write_mosquitto, IN_MESSAGES),
        Format("mqtt_recorder", ".csv", write_recorder, IN_MESSAGES),
        Format("influx", ".lp", write_influx, IN_INFLUX),
    )
}


def new_log(format: Format, path: Path) -> Log:
    """The log, not open yet."""
    return logs()[format.name](path, format.fields)


def batches(log: Log) -> Iterator[Any]:
    """All that an open log holds."""
    while (batch := log.read()) is not None:
        yield batch


def rows_of(readings: Readings) -> list[Row]:
    """Readings one by one."""
    values = [
        tuple(None if value != value else value for value in row) for row in readings.rows.tolist()
    ]
    columns = (readings.devices, readings.labels, readings.times, readings.sequences, values)
    return [Row(*row) for row in zip(*columns, strict=True)]


def read_rows(log: Log, fields: Fields | None) -> tuple[list[Row], list[str]]:
    """All readings of a log that is not open yet, and what was refused."""
    decoder = Decoder(Config(readings=fields)) if isinstance(fields, ReadingsSection) else None
    found: list[Row] = []
    refused: list[str] = []
    log.open()
    for batch in batches(log):
        refused += log.refused
        if not log.holds_messages:
            found += rows_of(batch)
            continue
        assert decoder is not None
        decoded = decoder.decode(batch)
        for event in decoded.events:
            assert isinstance(event, Readings)
            found += rows_of(event)
        refused += [f"line {batch[r.source].key}: {r.text}" for r in decoded.refused]
    log.close()
    return found, refused
