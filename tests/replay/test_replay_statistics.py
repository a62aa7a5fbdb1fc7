"""Statistics of decisions against plain counting, whatever the batches; cells over time."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlvq import metrics
from streamlvq.events import Decisions, LateLabel, Refused
from streamlvq.records import Decision
from streamlvq.replay import Report, Statistics, make_report, summary
from streamlvq.replay.statistics import MAX_DEVICES, MAX_EXAMPLES, MAX_LABELS, IndexMap, TimeBins

ABOUT: dict[str, Any] = {
    "streamlvq": "0", "log": "x.csv", "format": "csv", "model": "GLVQ()", "learning": True,
    "cpu_seconds": 1.0, "wall_seconds": 2.0,
}  # fmt: skip
NAMES = ("a", "b", "c")


def decisions(rows: list[dict[str, Any]], classes: tuple[Any, ...] = NAMES) -> Decisions:
    """Columns of rows that say device, truth, code, certainty, accepted, ..."""
    p = np.full((len(rows), len(classes)), np.nan)
    for k, row in enumerate(rows):
        if row["code"] >= 0:
            p[k] = (1 - row["p"]) / max(len(classes) - 1, 1)
            p[k, row["code"]] = row["p"]
    return Decisions(
        classes=classes,
        devices=[row.get("device", "d") for row in rows],
        groups=[""] * len(rows),
        times=[row.get("t") for row in rows],
        sequences=[row.get("n") for row in rows],
        true_labels=[row.get("truth") for row in rows],
        codes=np.array([row["code"] for row in rows], np.int64),
        certainties=np.array([row["certainty"] for row in rows], float),
        thresholds=np.zeros(len(rows)),
        accepted=np.array([row["accepted"] for row in rows], bool),
        reasons=[None if row["accepted"] else row.get("reason", "ambiguous") for row in rows],
        novelties=np.array([row.get("novelty", np.nan) for row in rows], float),
        outliers_by=[row.get("outlier_by") for row in rows],
        probabilities=p,
        models=["local"] * len(rows),
        versions=np.zeros(len(rows), np.int64),
        duplicates=[row.get("duplicate", False) for row in rows],
        sources=list(range(len(rows))),
    )


def random_rows(count: int, seed: int = 0, labels: tuple[Any, ...] = NAMES) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    found = []
    for k in range(count):
        code = int(random.integers(-1, len(labels)))
        accepted = code >= 0 and bool(random.random() < 0.7)
        reason = "no_model" if code < 0 else str(random.choice(["ambiguous", "outlier"]))
        by = str(random.choice(["novelty", "ball"])) if reason == "outlier" else None
        found.append({
            "device": f"d{random.integers(3)}",
            "truth": None if random.random() < 0.2 else labels[random.integers(len(labels))],
            "code": code,
            "certainty": float(random.random()),
            "p": float(random.uniform(1 / len(labels), 1)),
            "accepted": accepted,
            "reason": reason,
            "outlier_by": None if accepted else by,
            "t": 100.0 + k,
            "n": k,
        })  # fmt: skip
    return found


def counted(rows: list[dict[str, Any]], *cuts: int, **options: Any) -> Statistics:
    statistics = Statistics(**options)
    for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        statistics.add(decisions(rows[start:stop]))
    return statistics


def report_of(statistics: Statistics) -> Report:
    return make_report(statistics, **ABOUT)


# --- against plain counting ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_counts(seed: int) -> None:
    rows = random_rows(400, seed)
    report = report_of(counted(rows))
    known = [row for row in rows if row["truth"] is not None]
    said = [NAMES[row["code"]] if row["code"] >= 0 else None for row in known]
    assert report.readings == 400
    assert report.labelled == len(known)
    right = [s == row["truth"] for s, row in zip(said, known, strict=True)]
    assert report.accuracy == sum(right) / len(known)
    kept = [r for r, row in zip(right, known, strict=True) if row["accepted"]]
    assert report.accuracy_of_accepted == sum(kept) / len(kept)
    assert report.reasons == Counter(row["reason"] for row in rows if not row["accepted"])
    outliers = [row["outlier_by"] for row in rows if row["outlier_by"] is not None]
    assert report.outliers_by == Counter(outliers)
    novel = f"novel        {outliers.count('novelty')} readings unlike anything learnt"
    assert novel in summary(report)
    matrix = Counter(zip((row["truth"] for row in known), said, strict=True))
    columns = [*report.confusion.labels, None]
    for label, line in zip(report.confusion.labels, report.confusion.counts, strict=True):
        assert line == [matrix[label, column] for column in columns]
    for row in report.devices:
        mine = [one for one in rows if one["device"] == row.device]
        assert row.readings == len(mine)
        assert row.rejected == sum(not one["accepted"] for one in mine)


def test_certainty_agrees_with_the_metrics() -> None:
    rows = random_rows(300, 8)
    curve, error = metrics.AccuracyRejectCurve(), metrics.ExpectedCalibrationError()
    covered = metrics.CoveredAccuracy()
    for row in rows:
        if row["truth"] is None:
            continue
        label = NAMES[row["code"]] if row["code"] >= 0 else None
        said = {} if label is None else {label: row["p"]}
        decision = Decision(
            label, row["certainty"], row["accepted"], None, 0.0, label, None, None, None, said
        )
        for metric in (curve, error, covered):
            metric.update(row["truth"], decision)
    report = report_of(counted(rows, 100))
    assert report.curve is not None
    assert report.calibration is not None
    assert report.curve.area == pytest.approx(curve.get(), abs=1e-12)
    assert report.curve.reject_rates == curve.points().reject_rates.tolist()
    assert report.calibration.error == pytest.approx(error.get(), abs=1e-12)
    assert report.calibration.confidence == pytest.approx(error.reliability().confidence.tolist())
    assert report.accuracy_of_accepted == pytest.approx(covered.get())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 200), max_size=6).map(sorted), st.integers(0, 3))
def test_batches_make_no_difference(cuts: list[int], seed: int) -> None:
    rows = random_rows(200, seed)
    whole, parts = (
        report_of(counted(rows, *where, tracks=2, cells=16)) for where in ((), tuple(cuts))
    )
    assert whole.calibration is not None
    assert parts.calibration is not None
    for name in ("error", "confidence"):  # sums of the same numbers in another order
        one, other = (getattr(report.calibration, name) for report in (whole, parts))
        assert one == pytest.approx(other, abs=1e-12)
        setattr(whole.calibration, name, getattr(parts.calibration, name))
    assert whole == parts


def test_duplicates_are_left_out() -> None:
    rows = random_rows(100)
    twice = [copy for row in rows for copy in (row, {**row, "duplicate": True})]
    assert report_of(counted(twice)) == report_of(counted(rows))


def test_labels_that_the_monitor_was_not_told() -> None:
    rows = random_rows(100)
    told, untold = Statistics(), Statistics()
    told.add(decisions(rows))
    blind = [{**row, "truth": None} for row in rows]
    untold.add(decisions(blind), [row["truth"] for row in rows])
    assert report_of(told) == report_of(untold)


def test_classes_in_another_order_are_the_same_classes() -> None:
    statistics = Statistics()
    for classes in (("a",), ("b", "a"), ("c", "b", "a")):
        row = {"code": classes.index("a"), "certainty": 0.5, "p": 0.9, "accepted": True}
        statistics.add(decisions([{**row, "truth": "a"}], classes))
    assert statistics.accuracy == 1.0


# --- bounds --------------------------------------------------------------------------------------


def test_more_labels_and_devices_than_are_told_apart() -> None:
    classes = tuple(range(MAX_LABELS + 50))
    count = MAX_DEVICES + 300
    rows = [
        {"device": f"d{k}", "code": k % len(classes), "truth": k % len(classes), "p": 0.9,
         "certainty": 0.5, "accepted": True}
        for k in range(count)
    ]  # fmt: skip
    statistics = Statistics()
    statistics.add(decisions(rows, classes))
    report = report_of(statistics)
    assert report.labelled == count
    assert report.confusion.labels[-1] == "(others)"
    assert len(report.confusion.labels) == MAX_LABELS + 1
    assert sum(map(sum, report.confusion.counts)) == count
    assert report.devices[-1].device == "(others)"
    assert report.devices[-1].readings == 300
    assert len(report.tracks) == 24
    # Whether those were right is not known, so they are not counted as right.
    assert report.accuracy == sum(k % len(classes) < MAX_LABELS for k in range(count)) / count
    assert Report.from_json(report.to_json()) == report
    assert "devices or more" in summary(report)


def test_few_examples_of_what_was_refused() -> None:
    statistics = Statistics()
    for k in range(20):
        statistics.add_refused([Refused(k, "value", f"row {k}"), Refused(k, "field", "no x")])
    assert statistics.refused == {"value": 20, "field": 20}
    assert len(statistics.examples) == MAX_EXAMPLES
    assert not statistics.hints


def test_hints_are_counted_beyond_the_examples() -> None:
    statistics = Statistics()
    for k in range(20):
        hint = "numeric_time" if k >= MAX_EXAMPLES else None
        statistics.add_refused([Refused(k, "field", "no time", hint=hint)])
    assert statistics.hints == {"numeric_time": 20 - MAX_EXAMPLES}
    assert report_of(statistics).hints == {"numeric_time": 20 - MAX_EXAMPLES}


def test_nothing_at_all() -> None:
    report = report_of(Statistics())
    assert report.readings == 0
    assert report.accuracy is None
    assert report.tracks == []
    assert Report.from_json(report.to_json()) == report


# --- late labels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by_sequence", [True, False])
def test_late_labels_count_as_if_they_had_come_along(by_sequence: bool) -> None:
    rows = random_rows(120, 5)
    late = Statistics(wait=1000, by_sequence=by_sequence, tracks=2, cells=16)
    late.add(decisions([{**row, "truth": None} for row in rows]))
    for row in rows:
        if row["truth"] is not None:
            late.add_late(LateLabel(row["device"], "", row["truth"], row["t"], row["n"]))
    report, expected = report_of(late), report_of(counted(rows, tracks=2, cells=16))
    assert report.late_labels == expected.labelled
    for name in ("accuracy", "accuracy_of_accepted", "curve", "calibration", "devices"):
        assert getattr(report, name) == getattr(expected, name)
    assert [track.wrong for track in report.tracks] == [track.wrong for track in expected.tracks]
    assert [sum(t is not None for t in track.true) for track in report.tracks] == [
        sum(t is not None for t in track.true) for track in expected.tracks
    ]


def test_late_labels_wait_only_so_long() -> None:
    rows = [{**row, "truth": None} for row in random_rows(50)]
    statistics = Statistics(wait=10)
    statistics.add(decisions(rows))
    for row in rows:
        statistics.add_late(LateLabel(row["device"], "", "a", row["t"], row["n"]))
        statistics.add_late(LateLabel(row["device"], "", "a", row["t"], row["n"]))  # only once
    assert statistics.late == 10
    statistics.add_late(LateLabel("d0", "", "a", None, None))
    assert statistics.late == 10


# --- names and cells -----------------------------------------------------------------------------


def test_numbering() -> None:
    numbering = IndexMap(limit=2)
    assert numbering.numbers(["x", None, "y", "z", "x"]).tolist() == [0, -1, 1, 2, 0]
    assert numbering.names == ["x", "y"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 11)), max_size=150),
    st.integers(1, 40),
    st.sampled_from([2, 4, 10]),
)
def test_cells_count_everything(events: list[tuple[int, int]], batch: int, size: int) -> None:
    cells = TimeBins(tracks=3, cells=size)
    for start in range(0, len(events), batch):
        part = events[start : start + batch]
        tracks, columns = (np.array(values, np.int64) for values in zip(*part, strict=True))
        places = cells.place(tracks, np.arange(start, start + len(part), dtype=float))
        cells.count(places, columns)
    for track in range(3):
        mine = [(k, column) for k, (which, column) in enumerate(events) if which == track]
        counts, stride = cells.counts(track), cells.stride(track)
        first, last = cells.spans(track)
        assert cells.seen(track) == len(mine)
        assert len(counts) == math.ceil(len(mine) / stride) <= size
        assert stride == 1 or len(mine) > size * stride // 2
        for cell in range(len(counts)):
            inside = mine[cell * stride : (cell + 1) * stride]
            wanted = Counter(column for _, column in inside)
            assert {c: n for c, n in enumerate(counts[cell].tolist()) if n} == wanted
            assert (first[cell], last[cell]) == (inside[0][0], inside[-1][0])
        for ordinal in range(len(mine)):
            assert cells.ordinal_place(track, ordinal) == track * size + ordinal // stride


def test_tracks_say_what_most_of_a_cell_said() -> None:
    rows = [
        {"device": "d", "code": int(k >= 64), "truth": "a", "certainty": 0.9, "p": 0.9,
         "accepted": k % 8 != 0, "t": float(k)}
        for k in range(128)
    ]  # fmt: skip
    (track,) = report_of(counted(rows, cells=16)).tracks
    assert track.stride == 8
    assert track.decided == ["a"] * 8 + ["b"] * 8
    assert track.true == ["a"] * 16
    assert track.rejected == [1] * 16
    assert track.wrong == [0] * 8 + [7] * 8
    assert (track.first[0], track.last[0], track.first[-1]) == (0.0, 7.0, 120.0)
