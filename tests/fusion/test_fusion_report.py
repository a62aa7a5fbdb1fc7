"""What a fusion says of itself in a terminal, and what it warns of."""

from __future__ import annotations

import msgspec
import pytest

import streamlvq
from streamlvq.fusion import Clipping, FusionReport, fuse
from streamlvq.fusion.fused import COMMON_NODE
from streamlvq.fusion.report import (
    node_notes,
    node_rows,
    pool_candidates,
    pool_rows,
    pools_text,
    total_weights,
)
from streamlvq.models.pool import PoolReport
from streamlvq.snapshot import Snapshot, inspect_text
from streamlvq.snapshot.inspect import FUSED_NODE
from support.small_fleet import LABELS, OFF, fleet, learnt, report_of

replace = msgspec.structs.replace
ROBUST = ("median", "trimmed_mean", "geometric_median")


@pytest.fixture(scope="module")
def report() -> FusionReport:
    return report_of(fleet())


def changed(report: FusionReport, which: str, **changes: object) -> FusionReport:
    nodes = {**report.nodes, which: replace(report.nodes[which], **changes)}
    return replace(report, nodes=nodes)


def withheld(report: FusionReport) -> list[str]:
    return [text for text in report.warnings if "not given" in text]


# --- the table -----------------------------------------------------------------------------------


def test_printing_a_report_shows_a_table(report: FusionReport) -> None:
    lines = str(report).splitlines()
    assert lines == report.text().splitlines()
    assert lines[0].split() == ["node", "samples", "classes", "gained", "off", "by", "left",
                                "over", "weight", "remarks"]  # fmt: skip
    assert [line.split()[0] for line in lines[1:4]] == list(OFF)
    assert f"correction   {report.why}" in lines
    assert "log loss     none 3.10, least_squares 0.12, scale_shift 0.20" in lines
    assert lines[-1] == f"warning      {report.warnings[0]}"
    assert len(lines[1]) <= 100


def test_wide_characters_do_not_shift_columns(report: FusionReport) -> None:
    named = changed(report, "york", node="浴場")
    lines = named.text().splitlines()
    assert lines[3].index("240") + 2 == lines[2].index("240")  # they take two columns each


@pytest.mark.parametrize("aggregator", ["mean", *ROBUST])
def test_weights_add_up(aggregator: str) -> None:
    found = fuse(fleet(), aggregator=aggregator).report
    weights = total_weights(found)
    assert sum(weights.values()) == pytest.approx(1.0)
    shown = [float(row[-2].removesuffix(" %")) for row in node_rows(found)[1:]]
    assert sum(shown) == pytest.approx(100.0, abs=0.2)


def test_weights_of_nobody(report: FusionReport) -> None:
    nobody = report
    for node in OFF:
        nobody = changed(nobody, node, weights={})
    assert set(total_weights(nobody).values()) == {0.0}


def test_what_was_cut_is_told_once(report: FusionReport) -> None:
    clipped = (Clipping("metric_cut"), Clipping("class_left_out", label="worn", deviations=7.0))
    cut = "a metric that is larger than all others was cut"
    out = (
        "class 'worn' was left out: its mean is 7.0 deviations away from where all other nodes "
        "have it"
    )
    assert [str(each) for each in clipped] == [cut, out]
    found = replace(changed(report, "bath", clipped=clipped), warnings=(f"node 'bath': {out}",))
    assert node_notes(found) == [f"node 'bath': {cut}"]
    text = found.text()
    assert f"note         node 'bath': {cut}" in text
    assert f"warning      node 'bath': {out}" in text
    assert text.count(cut) == text.count(out) == 1


# --- warnings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("aggregator", ROBUST)
def test_a_class_that_too_few_nodes_have(aggregator: str) -> None:
    found = fuse(fleet(), aggregator=aggregator)
    assert withheld(found.report) == [
        f"'worn': only 2 nodes have it and aggregator {aggregator} needs 3; "
        "it was not given to the others"
    ]
    assert set(found.snapshot("york").labels) == {"idle", "running"}
    assert found.report.nodes["york"].gained == ()


def test_several_classes_that_too_few_nodes_have() -> None:
    snapshots = [
        Snapshot.of(learnt(node, lacks=None if node == "bath" else "worn"), node) for node in OFF
    ]
    assert withheld(fuse(snapshots, aggregator="median").report) == [
        "'worn': only 1 node has it and aggregator median needs 3; it was not given to the others"
    ]
    four = [*fleet(), Snapshot.of(learnt("bath"), "hull")]
    assert withheld(fuse(four, aggregator="median").report) == []  # three have it
    assert withheld(fuse(four, quorum=4).report) == [
        "'worn': only 3 nodes have it and the quorum is 4; it was not given to the others"
    ]
    assert withheld(fuse(four, quorum=9).report) == [
        "'worn': only 3 nodes have it and the quorum is 9; it was not given to the others"
    ]  # the other classes everybody has


def test_nothing_is_withheld_from_those_who_have_all() -> None:
    everybody = fleet(lacks=())
    assert withheld(fuse(everybody[:2], aggregator="median").report) == []
    assert withheld(fuse(everybody, quorum=3).report) == []
    assert withheld(fuse(fleet()).report) == []


def test_a_single_node_is_told_so() -> None:
    (only, *_) = fleet()
    found = fuse([only, only]).report
    assert found.why == "no correction: a single node has nothing to be compared with"
    assert found.warnings == ("only one node was given, 'bath': nothing was fused",)
    assert fuse([only], drift="least_squares").report.why == "least_squares: as asked for"


# --- inspecting what was fused -------------------------------------------------------------------


def test_a_fused_snapshot_says_so() -> None:
    assert FUSED_NODE == COMMON_NODE
    fused = fuse(fleet())
    assert "fused from several nodes" in inspect_text(fused.snapshot())
    assert "fused" not in inspect_text(fused.snapshot("york"))


@pytest.mark.parametrize("name", ["GMLVQ", "PairwiseLVQ"])
def test_samples_are_the_sum_of_those_of_classes(name: str) -> None:
    """Weights are capped, so that the counts of classes are not whole before they are rounded."""
    many = getattr(streamlvq, name)()
    for k in range(1001):
        values = {"heat": 10.0 * (k % 3), "noise": k % 7 / 10, "flow": 1.0, "power": k % 5 / 9}
        many.learn_one(values, LABELS[k % 3])
    fused = fuse([*fleet(name), Snapshot.of(many, "many")])
    for node in (*fused.nodes, None):
        snapshot = fused.snapshot(node)
        assert snapshot.samples == sum(snapshot.counts.values())


# --- pools ---------------------------------------------------------------------------------------


def test_pools_are_shown_where_readings_are_at_hand() -> None:
    assert fuse(fleet()).pool.reports() == {}  # these have none
    full = [Snapshot.of(learnt(node), node) for node in OFF]
    fused = fuse(full)
    pools = fused.pool.reports()
    assert list(pools) == sorted(OFF)
    for name, pool in pools.items():
        expected = fused.for_node(name, local=learnt(name)).report
        assert pool == expected
    rows = pool_rows(pools)
    assert rows[0] == ["weight of", *sorted(OFF)]
    kept = pool_candidates(pools)
    assert [row[0] for row in rows[1:]] == [
        *kept, "local", "unseen", "loss alone", "loss in pool", "readings"
    ]  # fmt: skip
    for column, pool in enumerate(pools.values(), 1):
        for row in rows[1:-3]:
            weight = pool.weights.get(row[0])
            assert row[column] == ("-" if weight is None else f"{weight:.2f}")
        assert rows[-1][column] == str(pool.records)
    assert "dropped      bath: " in pools_text(pools)


def test_a_pool_of_a_node_that_is_left_out_is_said_to_be_none() -> None:
    alone = PoolReport("bath", 0, {"local": 1.0, "unseen": 0.0}, (), {}, left_out=True)
    assert pools_text({"bath": alone}).splitlines()[-1] == (
        "left out     bath: its own model decides alone"
    )
