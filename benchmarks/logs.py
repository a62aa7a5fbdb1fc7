"""CPU cost of reading logs per row of 18 numbers, for every format.

    python benchmarks/logs.py [ROWS]

Next to it, in the same run, what others need for less: numpy.loadtxt and the csv module for the
numbers of the CSV file alone, msgspec for decoding the lines of the JSON file into objects.
Message logs are shown with and without the decoder of payloads behind them.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from streamlvq.config import Config, ReadingsSection
from streamlvq.connect import Message, logs
from streamlvq.payloads import Decoder
from streamlvq_connectors.message_log import MessageLogWriter

FEATURES = [f"s{i}" for i in range(18)]
REPEATS = 3
Line = tuple[str, float, list[str], str]


def make_lines(rows: int, precision: str) -> list[Line]:
    """Return lines of device, time, numbers as text, and label."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 18)) * 10.0 ** np.arange(18) % 4
    return [
        (f"pump{i % 20}", 1.7e9 + i / 4, [format(v, precision) for v in row], f"state{i % 5}")
        for i, row in enumerate(values.tolist())
    ]


def payload(line: Line) -> str:
    """Return a reading as JSON."""
    device, moment, numbers, label = line
    fields = ", ".join(f'"{n}": {v}' for n, v in zip(FEATURES, numbers, strict=True))
    return f'{{"device": "{device}", "t": {moment!r}, {fields}, "label": "{label}"}}'


def write_all(folder: Path, lines: list[Line]) -> dict[str, Path]:
    """Write a log of each format."""
    paths = {name: folder / name for name in logs()}
    with paths["csv"].open("w") as file:
        file.write(",".join(["device", "t", *FEATURES, "label"]) + "\n")
        file.writelines(f"{d},{t!r},{','.join(v)},{y}\n" for d, t, v, y in lines)
    paths["jsonl"].write_text("".join(payload(line) + "\n" for line in lines))
    with MessageLogWriter(paths["messages"]) as writer:
        writer.write(Message(f"sensors/{x[0]}/readings", payload(x).encode(), x[1]) for x in lines)
    with paths["mosquitto_sub"].open("w") as file:
        file.writelines(f"{x[1]:.9f} sensors/{x[0]}/readings {payload(x)}\n" for x in lines)
    with paths["mqtt_recorder"].open("w", newline="") as file:
        rows = ([f"sensors/{x[0]}/readings", payload(x), 0, False, x[1], 0.25] for x in lines)
        csv.writer(file).writerows(rows)
    with paths["influx"].open("w") as file:
        for d, t, v, y in lines:
            fields = ",".join(f"{n}={x}" for n, x in zip(FEATURES, v, strict=True))
            file.write(f'plant,device={d} {fields},label="{y}" {int(t * 4) * 250_000_000}\n')
    _write_parquet(paths["parquet"], lines)
    return paths


def _write_parquet(path: Path, lines: list[Line]) -> None:
    import pyarrow
    import pyarrow.parquet

    devices, times, numbers, labels = zip(*lines, strict=True)
    columns = np.array(numbers, np.float64).T
    named = {"device": devices, "t": times, **dict(zip(FEATURES, columns, strict=True))}
    pyarrow.parquet.write_table(pyarrow.table({**named, "label": labels}), path)


def fields_of(name: str) -> ReadingsSection:
    """Return the fields that each format needs."""
    section = ReadingsSection(features=FEATURES, label="label", time="t")
    if name in ("csv", "jsonl", "parquet"):
        return msgspec.structs.replace(section, device="device")
    return msgspec.structs.replace(section, time=None) if name == "influx" else section


def read(name: str, path: Path, decode: bool) -> int:
    """Read a whole file; return the number of readings or messages."""
    section = fields_of(name)
    log = logs()[name](path, section)
    decoder = Decoder(Config(readings=section)) if decode else None
    log.open()
    count = 0
    while (batch := log.read()) is not None:
        if decoder is None:
            count += len(batch)
        else:
            count += sum(map(len, decoder.decode(batch).events))  # type: ignore[arg-type]
        assert not log.refused
    log.close()
    return count


def cpu(task: Callable[[], int], rows: int) -> float:
    """Return the lowest CPU microseconds per row."""
    assert task() == rows
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        task()
        best = min(best, time.process_time() - start)
    return best / rows * 1e6


def others(paths: dict[str, Path]) -> dict[str, Callable[[], int]]:
    """Return parsers to compare with, by name."""
    columns = range(2, 20)
    decoder = msgspec.json.Decoder()

    def loadtxt() -> int:
        return len(np.loadtxt(paths["csv"], delimiter=",", skiprows=1, usecols=columns))

    def stdlib() -> int:
        with paths["csv"].open(newline="") as file:
            rows = csv.reader(file)
            next(rows)
            return len(np.array([list(map(float, row[2:20])) for row in rows]))

    def objects() -> int:
        return len([decoder.decode(x) for x in paths["jsonl"].read_bytes().split(b"\n") if x])

    return {
        "numpy.loadtxt, numbers of the CSV": loadtxt,
        "csv module and float, numbers of the CSV": stdlib,
        "msgspec, objects of the JSON lines": objects,
    }


def report(lines: list[Line], title: str) -> None:
    """Print the figures of all formats."""
    rows = len(lines)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_all(Path(folder), lines)
        print(f"\n{title}, {rows} rows: CPU us per row")
        for name, path in paths.items():
            size = path.stat().st_size / rows
            log = logs()[name]
            note = " (messages)" if log.holds_messages else ""
            print(f"  {name + note:44} {cpu(lambda: read(name, path, False), rows):6.2f}  "  # noqa: B023
                  f"{size:5.0f} bytes")  # fmt: skip
            if log.holds_messages:
                with_decoder = cpu(lambda: read(name, path, True), rows)  # noqa: B023
                print(f"  {name + ', decoded to readings':44} {with_decoder:6.2f}")
        for name, task in others(paths).items():
            print(f"  {name:44} {cpu(task, rows):6.2f}")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    report(make_lines(rows, ".6g"), "18 numbers of 6 digits, device, time, label")
    report(make_lines(rows, ".17g"), "18 numbers of 17 digits, device, time, label")


if __name__ == "__main__":
    main()
