"""Reports without small cells: what is printed, and that what is hidden does not follow from it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy.optimize import linprog

from streamlvq import replay
from streamlvq.cli import main
from streamlvq.config import loads
from streamlvq.errors import StreamLVQError
from streamlvq.replay.report import ClassRow, Confusion, DeviceRow, Report
from streamlvq.replay.suppression import CountTable, suppress
from streamlvq.report.replay_page import replay_html
from support.replays import rows, write_csv

THRESHOLD = 10


# --- tables ---------------------------------------------------------------------------------------


def matrix(counts: np.ndarray, trace: bool) -> CountTable:
    """A matrix with its margins and, perhaps, the sum of its diagonal."""
    places = np.arange(counts.size).reshape(counts.shape)
    sums: dict[Any, list[int]] = {
        ("cell", *at): [int(places[at])] for at in np.ndindex(counts.shape)
    }
    sums |= {("row", r): places[r].tolist() for r in range(len(places))}
    sums |= {("column", c): places[:, c].tolist() for c in range(places.shape[1])}
    fixed: dict[Any, list[int]] = {"all": places.ravel().tolist()}
    if trace:
        fixed["right"] = np.diag(places).tolist()
    return CountTable(counts.ravel().tolist(), sums, fixed)


def printed(table: CountTable, hidden: set[Any]) -> list[tuple[list[int], int]]:
    """Atoms and value of every count that a reader sees."""
    shown = [parts for key, parts in table.sums.items() if key not in hidden]
    shown += [*table.fixed.values()]
    return [(list(parts), sum(table.atoms[k] for k in parts)) for parts in shown]


def possible(table: CountTable, hidden: set[Any], parts: list[int]) -> tuple[float, float]:
    """The least and the largest sum of some atoms that agrees with all that is printed."""
    lines = printed(table, hidden)
    left, right = np.zeros((len(lines), len(table.atoms))), np.zeros(len(lines))
    for k, (own, value) in enumerate(lines):
        left[k, own], right[k] = 1.0, value
    for plus, minus in table.links:
        line = np.zeros(len(table.atoms))
        line[list(plus)], line[list(minus)] = 1.0, -1.0
        left, right = np.vstack([left, line]), np.append(right, 0.0)
    goal = np.zeros(len(table.atoms))
    goal[parts] = 1.0
    bounds = []
    for sign in (1.0, -1.0):
        found = linprog(sign * goal, A_eq=left, b_eq=right, bounds=(0, None))
        bounds.append(np.inf if found.status == 3 else sign * found.fun)
    return bounds[0], bounds[1]


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_no_hidden_number_follows_from_those_printed(seed: int, trace: bool) -> None:
    random = np.random.default_rng(seed)
    size = 2 + seed % 3
    counts = random.negative_binomial(1, 0.08, (size, size)) + np.diag([60] * size)
    counts[random.random(counts.shape) < 0.2] = 0
    table = matrix(counts, trace)
    hidden = table.hidden(THRESHOLD)
    for key, parts in table.sums.items():
        value = sum(table.atoms[k] for k in parts)
        if key not in hidden:
            assert value >= THRESHOLD
        else:
            low, high = possible(table, hidden, list(parts))
            assert low < value - 1e-6 or value + 1e-6 < high, (key, value)


@pytest.mark.parametrize(
    "counts", [[[7, 1, 0], [2, 6, 3]], [[5, 5, 2], [0, 4, 1]], [[1, 0, 0], [0, 7, 7]]]
)
def test_by_brute_force_over_whole_numbers(counts: list[list[int]]) -> None:
    """Every table with the printed numbers: each hidden one has several values among them."""
    table = matrix(np.array(counts), trace=True)
    hidden = table.hidden(3)
    every = np.array(list(itertools.product(range(8), repeat=6)))
    for own, value in printed(table, hidden):
        every = every[every[:, own].sum(axis=1) == value]
    assert hidden
    for key in hidden:
        assert len(np.unique(every[:, list(table.sums[key])].sum(axis=1))) > 1, key


def test_without_complements_they_would_follow() -> None:
    table = matrix(np.array([[500, 40], [30, 3]]), trace=False)
    assert possible(table, {("cell", 1, 1)}, [3]) == (3.0, 3.0)
    hidden = table.hidden(THRESHOLD)
    assert len(hidden) > 1
    low, high = possible(table, hidden, [3])
    assert low < high


def test_zeros_are_hidden_as_well() -> None:
    """A row of zeros whose sum is 0 would otherwise give itself away."""
    table = CountTable(
        [0, 0, 50, 60], {k: [k] for k in range(4)}, {"first": [0, 1], "all": [0, 1, 2, 3]}
    )
    assert table.hidden(THRESHOLD) == {0, 1, 2, 3}
    free = CountTable([0, 0, 50, 60], {k: [k] for k in range(4)}, {"all": [0, 1, 2, 3]})
    assert free.hidden(THRESHOLD) == {0, 1, 2}


def test_what_is_large_stays() -> None:
    assert matrix(np.full((3, 3), 10), trace=True).hidden(THRESHOLD) == set()


def test_links_count() -> None:
    """The same total in two divisions: what one shows, the other cannot hide."""
    sums = {"a": [0], "b": [1], "c": [2], "d": [3]}
    table = CountTable([4, 40, 14, 30], sums, links=[([0, 1], [2, 3])])
    hidden = table.hidden(THRESHOLD)
    assert "a" in hidden
    low, high = possible(table, hidden, [0])
    assert low < high


# --- reports --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("suppression")
    path = folder / "plant.csv"
    write_csv(path, rows(900))
    text = (
        "readings: {time: t, label: state, device: pump}\nmodel: {type: GLVQ}\n"
        "rejector: {target_rate: 0.1}"
    )
    return replay.replay(path, loads(text), progress=False)


def counts_of(value: Any) -> list[int]:
    """All counts of a report."""
    if isinstance(value, dict):
        return [n for each in value.values() for n in counts_of(each)]
    if isinstance(value, list):
        return [n for each in value for n in counts_of(each)]
    return [value] if type(value) is int else []


def test_no_small_count_is_printed(report: Report) -> None:
    whole = json.loads(report.to_json())
    assert any(0 < n < THRESHOLD for n in counts_of(whole["confusion"]["counts"]))
    said = suppress(report, THRESHOLD)
    plain = json.loads(said.to_json())
    for name in ("suppressed", "devices_seen", "devices_limit", "streamlvq"):
        plain.pop(name)
    assert min(counts_of(plain)) >= THRESHOLD
    assert plain["tracks"] == plain["refused_examples"] == [] and plain["calibration"] is None
    assert Report.from_json(said.to_json()) == said
    assert said.readings == 900 and said.accuracy == report.accuracy
    assert any(row.recall is not None for row in said.classes)
    assert any(row.readings is not None for row in said.devices)


def test_the_curve_has_no_small_steps(report: Report) -> None:
    said = suppress(report, THRESHOLD).curve
    assert said is not None and report.labelled is not None
    kept = [round((1 - rate) * report.labelled) for rate in said.reject_rates]
    right = [round(a * n) for a, n in zip(said.accuracies, kept, strict=True)]
    wrong = [n - r for n, r in zip(kept, right, strict=True)]
    for counts in (right, wrong):
        assert min(-np.diff([*counts, 0])) >= THRESHOLD
    assert all(t is None for t in said.thresholds)


def test_spans_of_time_add_up(report: Report) -> None:
    course = suppress(report, THRESHOLD).course
    assert sum(course.readings) == report.readings
    assert min(course.readings) >= 100
    for name in ("rejected", "right"):
        shown = [n for n in getattr(course, name) if n is not None]
        assert all(n >= THRESHOLD for n in shown)


def partly_labelled(count: int, unlabelled: Callable[[int], bool], folder: Path) -> Report:
    """A report on readings of which some have no label."""
    log = [row._replace(state=None) if unlabelled(k) else row for k, row in enumerate(rows(count))]
    path = folder / "partly.csv"
    write_csv(path, log)
    text = "readings: {time: t, label: state, device: pump}\nmodel: {type: GLVQ}"
    return replay.replay(path, loads(text), progress=False)


def test_a_few_without_a_label_do_not_follow_from_the_total(tmp_path: Path) -> None:
    whole = partly_labelled(900, lambda k: k in (200, 500, 700), tmp_path)
    assert (whole.readings, whole.labelled) == (900, 897)
    said = suppress(whole, THRESHOLD)
    assert said.labelled is None
    assert said.accuracy is None
    assert all(n is None for n in said.course.labelled)
    assert 897 not in counts_of(json.loads(said.to_json()))


def test_few_without_a_label_in_a_span_do_not_follow(tmp_path: Path) -> None:
    """In all there are enough of them, but in most spans of time few, or none."""
    whole = partly_labelled(900, lambda k: 300 <= k < 340 or k % 300 == 7, tmp_path)
    said = suppress(whole, THRESHOLD)
    assert said.labelled == whole.labelled == 900 - 42
    spans = zip(said.course.readings, said.course.labelled, strict=True)
    without = [n - labelled for n, labelled in spans if labelled is not None]
    assert all(n >= THRESHOLD for n in without)
    hidden = [labelled for labelled in said.course.labelled if labelled is None]
    assert len(hidden) > 1
    for row in said.devices:
        if row.readings is not None and row.labelled is not None:
            assert row.readings - row.labelled >= THRESHOLD


# --- classes and reasons --------------------------------------------------------------------------


def report_of(
    report: Report, counts: list[list[int]], reasons: dict[str, int], unlabelled: int = 0
) -> Report:
    """The report with another matrix of labels and decisions; the last column is for no answer."""
    table = np.array(counts)
    labels = [f"class {k}" for k in range(len(table))]
    labelled, right = int(table.sum()), int(np.trace(table))
    readings = labelled + unlabelled
    return replace(
        report,
        readings=readings,
        labelled=labelled,
        accuracy=right / labelled,
        reject_rate=sum(reasons.values()) / readings,
        reasons=reasons,
        confusion=Confusion(labels=labels, counts=counts, accepted=counts),
        classes=[
            ClassRow(
                label=label,
                readings=int(table[k].sum()),
                decided=int(table[:, k].sum()),
                recall=None,
                precision=None,
                accepted=None,
                recall_of_accepted=None,
                taken_for=None,
            )
            for k, label in enumerate(labels)
        ],
        devices=[],
        curve=None,
    )


def told_by_classes(said: Report, whole: Report) -> tuple[CountTable, np.ndarray]:
    """What a reader knows of the matrix, from the printed report alone, and where its cells are.

    Readings without an answer beside those of the matrix are one more atom if there are any.
    """
    true = np.array(whole.confusion.counts)
    places = np.arange(true.size).reshape(true.shape)
    atoms: list[int] = true.ravel().tolist()
    fixed: dict[Any, list[int]] = {}
    for r, row in enumerate(said.classes):
        if row.readings is not None:
            fixed["row", r] = places[r].tolist()
        if row.decided is not None:
            fixed["column", r] = places[:, r].tolist()
        for c, n in enumerate(said.confusion.counts[r]):
            if n is not None:
                fixed["cell", r, c] = [int(places[r, c])]
        assert row.recall is None or said.confusion.counts[r][r] is not None
        assert row.precision is None or said.confusion.counts[r][r] is not None
    if said.labelled is not None:
        fixed["labelled"] = places.ravel().tolist()
    if said.accuracy is not None:
        fixed["right"] = np.diag(places).tolist()
    if said.reject_rate is not None:
        beside = whole.reasons.get("no_model", 0) - int(true[:, -1].sum())
        own = places[:, -1].tolist()
        if beside:
            own.append(len(atoms))
            atoms.append(beside)
        rest: list[int] = []
        for name, n in whole.reasons.items():
            if name != "no_model":
                rest.append(len(atoms))
                atoms.append(n)
                if name in said.reasons:
                    fixed[name] = rest[-1:]
        fixed["rejected"] = [*own, *rest]
        if "no_model" in said.reasons:
            fixed["no_model"] = own
    return CountTable(atoms, {}, fixed), places


def assert_nothing_small_follows(whole: Report) -> Report:
    """Assert by linear programs that no small count follows, of cells, classes, mistakes, rests."""
    said = suppress(whole, THRESHOLD)
    told, places = told_by_classes(said, whole)
    answered = whole.reasons.get("no_model", 0) == 0
    shown = np.array([[n is not None for n in row] for row in said.confusion.counts])
    secrets = []
    for r in range(len(places)):
        others = [c for c in range(places.shape[1]) if c != r]
        secrets += [places[r], places[r][others], np.delete(places[:, r], r), places[:, r]]
        secrets += [places[r][~shown[r]], places[:, r][~shown[:, r]]]
    secrets += [places[:, -1], places[~shown], np.diag(places)[~np.diag(shown)]]
    secrets += [np.array([k]) for k in places.ravel()]
    secrets += [np.array([k]) for k in range(places.size, len(told.atoms))]
    for parts in secrets:
        value = sum(told.atoms[k] for k in parts)
        if not len(parts) or value >= THRESHOLD:
            continue
        if answered and not value and {*parts} <= {*places[:, -1]}:
            continue  # that all were answered is no secret
        low, high = possible(told, set(), [int(k) for k in parts])
        assert high > low + 1e-6, (parts.tolist(), value)
    return said


def test_readings_without_an_answer_are_told_by_the_reasons(report: Report) -> None:
    """The mistakes of a class followed from the printed number of readings without an answer."""
    counts = [
        [4331, 17, 7, 0, 907],
        [0, 231, 0, 0, 670],
        [17, 3, 2808, 0, 939],
        [9, 0, 40, 1850, 2092],
    ]
    whole = report_of(report, counts, {"no_model": 4608})
    said = assert_nothing_small_follows(whole)
    assert said.accuracy is not None and said.reasons == {"no_model": 4608}
    assert any(n is not None for row in said.confusion.counts for n in row)


def test_few_mistakes_of_a_class_do_not_follow(report: Report) -> None:
    counts = [[899, 2, 0, 0], [4, 800, 30, 0], [0, 25, 700, 0]]
    said = assert_nothing_small_follows(report_of(report, counts, {}))
    assert said.classes[0].recall is None
    assert said.classes[1].recall is not None or said.classes[2].recall is not None


def test_an_accuracy_that_tells_few_wrong_answers_is_left_out(report: Report) -> None:
    """Of 63 mistakes 60 are printed as readings without an answer."""
    whole = report_of(report, [[400, 2, 30], [1, 300, 30]], {"no_model": 60})
    said = suppress(whole, THRESHOLD)
    assert said.reasons == {"no_model": 60}
    assert said.accuracy is None
    assert all(n is None for row in said.confusion.counts for n in row)


@pytest.mark.parametrize("kind", ["all answered", "none", "some unlabelled", "rejector"])
@pytest.mark.parametrize("seed", range(5))
def test_no_mistakes_of_a_class_follow(report: Report, seed: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    size = 2 + seed % 3
    table = random.negative_binomial(1, 0.06, (size, size + 1))
    table[random.random(table.shape) < 0.3] = 0
    table[:, :size] += np.diag(random.integers(100, 900, size))
    table[0, 1] += 30  # enough mistakes in all
    if kind == "all answered":
        table[:, -1] = 0
    nothing = int(table[:, -1].sum())
    reasons = {"no_model": nothing} if nothing else {}
    unlabelled = 0
    if kind == "some unlabelled":
        unlabelled = 40
        reasons = {"no_model": nothing + 3 + 9 * (seed % 2)}
    if kind == "rejector":
        reasons = {**reasons, "ambiguous": 50, "outlier": 3 + seed}
    assert_nothing_small_follows(report_of(report, table.tolist(), reasons, unlabelled))


def test_wrong_answers_of_a_device_do_not_follow(report: Report) -> None:
    """Without a rejector, the wrong readings less those without an answer are wrong answers."""
    whole = report_of(report, [[400, 32, 30], [31, 300, 30]], {"no_model": 60})
    counts = [(300, 30, 33), (300, 15, 45), (223, 15, 45)]  # readings, without an answer, wrong
    devices = [
        DeviceRow(
            device=f"pump {k}",
            readings=n,
            rejected=rejected,
            labelled=n,
            accuracy=(n - wrong) / n,
            accuracy_of_accepted=None,
        )
        for k, (n, rejected, wrong) in enumerate(counts)
    ]
    said = suppress(replace(whole, devices=devices), THRESHOLD)
    assert said.accuracy is not None and said.reject_rate is not None
    first = said.devices[0]
    assert None in (first.rejected, first.accuracy)
    assert any(row.accuracy is not None for row in said.devices) or any(
        row.rejected is not None for row in said.devices
    )


def test_what_hidden_counts_add_up_to_does_not_follow() -> None:
    """Three and four readings are hidden; their sum is small too, and so a third is hidden."""
    sums: dict[Any, list[int]] = {"a": [0], "b": [1], "c": [2], "d": [3]}
    fixed: dict[Any, list[int]] = {"all": [0, 1, 2, 3]}
    assert CountTable([3, 4, 40, 50], sums, fixed).hidden(THRESHOLD) == {"a", "b"}
    joint = CountTable([3, 4, 40, 50], sums, fixed, groups=[["a", "b", "c", "d"]])
    assert joint.hidden(THRESHOLD) == {"a", "b", "c"}


def test_summary_and_page_say_so(report: Report) -> None:
    said = suppress(report, THRESHOLD)
    text, page = replay.summary(said), replay_html(said)
    for shown in (text, page):
        assert "fewer than 10 readings are hidden" in shown and "no differential privacy" in shown
    assert "Decisions over time" not in page


def test_reports_that_cannot_be_are_refused(report: Report) -> None:
    with pytest.raises(StreamLVQError, match="at least 2 readings, got 1"):
        suppress(report, 1)
    with pytest.raises(StreamLVQError, match="expected at least 901 readings"):
        suppress(report, 901)
    with pytest.raises(StreamLVQError, match="expected a whole report"):
        suppress(suppress(report, 10), 10)


def test_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, page, numbers = (tmp_path / name for name in ("a.csv", "a.html", "a.json"))
    write_csv(log, rows(400))
    columns = ["--label", "state", "--time", "t", "--device", "pump"]
    outputs = ["--report", str(page), "--json", str(numbers)]
    assert main(["replay", str(log), *columns, "--suppress", "10", *outputs, "--quiet"]) == 0
    found = Report.from_json(numbers.read_bytes())
    assert found.suppressed == 10 and found.tracks == []
    assert "What the model has learnt" not in page.read_text()
    both = ["--suppress", "10", "--decisions", str(tmp_path / "d.jsonl")]
    assert main(["replay", str(log), *columns, *both]) == 2
    assert "--suppress: expected without --decisions" in capsys.readouterr().err
